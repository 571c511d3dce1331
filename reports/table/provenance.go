package table

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/number"
	"selfheal/reports/words"
)

// Made are the tables of what the numbers depend on, those that have lines.
func (v Report) Made() []Table {
	return filled(v.datasetTable(), v.modelTable(), v.attackTable(), v.controlTable())
}

// described is a piece of provenance: its parts joined, those that are not empty.
func described(parts ...string) Box {
	parts = slices.DeleteFunc(parts, func(w string) bool { return w == "" })
	return text(cmp.Or(words.Clean(strings.Join(parts, "; ")), words.Dash))
}

// titled puts a word before a value; "" for none.
func titled(word string, v any) string {
	said, is := v.(string)
	if !is {
		said = setting(v)
	}
	if said == "" || reflect.ValueOf(v).IsZero() {
		return ""
	}
	return word + " " + said
}

func (v Report) datasetTable() Table {
	t := Table{Lead: 1, Caption: "Data sets", Head: []string{"Data set", "Images", formatHead, chosenHead,
		"SHA-256 of pixels and labels"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Datasets)) {
		d := v.File.Datasets[name]
		var classes string
		if d.Classes > 0 {
			classes = words.Plural(d.Classes, "class", "classes")
		}
		t.add(name, d.N, described(d.Format), described(d.Words(), titled("indices", indices(d.Indices)),
			titled("the first", d.Limit), classes), d.SHA256)
	}
	return t
}

// indices writes a list of images: a run of neighbours by its ends, of a long list the first dozen.
func indices(ids []int) string {
	n := len(ids)
	if n > 2 && ids[n-1]-ids[0] == n-1 && slices.IsSorted(ids) {
		return fmt.Sprintf("%d to %d", ids[0], ids[n-1])
	}
	return words.Some(strings.Fields(setting(ids)))
}

func (v Report) modelTable() Table {
	t := Table{Lead: 1, Caption: "Models",
		Head: []string{"Model", "Parameters", "Segments", "FLOPs per image", takenHead, "SHA-256 of the file"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Models)) {
		m := v.File.Models[name]
		var flops any = words.Dash
		if m.FLOPs > 0 {
			flops = m.FLOPs
		}
		p := cmp.Or(m.Preprocess, &result.Preprocess{})
		t.add(name, m.Parameters, m.Segments, flops, described(m.Layout, titled("scale", p.Scale),
			titled("mean", p.Mean), titled("std", p.Std), m.Output, m.OutputName,
			titled("split at", strings.Join(m.Split, ", "))), m.SHA256)
	}
	return t
}

// Heads of columns of words in the tables of provenance.
const (
	formatHead   = "Format"
	chosenHead   = "Chosen images"
	takenHead    = "Input and output"
	madeHead     = "Made as"
	settingsHead = "Settings, defaults included"
)

func (v Report) attackTable() Table {
	t := Table{Lead: 2, Caption: "Attacks", Head: []string{"Attack", madeHead, "Recipe", "Norm", "ε", settingsHead}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Attacks)) {
		a := v.File.Attacks[name]
		t.add(name, described(a.Title), described(a.Recipe), described(words.NormName(*cmp.Or(a.Norm, new("")))),
			described(setting(a.Epsilons)), described(settings(a.Parameters)))
		for _, c := range a.Components {
			t.add(name, "component "+c.Kind, "", "", "", described(settings(c.Parameters)))
		}
	}
	return t.marked()
}

func (v Report) controlTable() Table {
	t := Table{Lead: 2, Caption: "Controls", Head: []string{"Control", "Part", settingsHead}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Controls)) {
		c := v.File.Controls[name]
		t.add(name, "solver", described(settings(c.Solver)))
		for _, l := range c.Layers {
			e := l.Embedding
			parts := []string{e.Kind, titled("fitted on", e.Fit), e.Path, titled("SHA-256", e.SHA256),
				titled("variance", e.Variance), titled("rank", e.Rank)}
			for _, size := range slices.Sorted(maps.Keys(e.Files)) {
				parts = append(parts, fmt.Sprintf("SHA-256 of size %s %s", size, e.Files[size]))
			}
			t.add(name, words.LayerName(l.At), described(parts...))
		}
	}
	return t.marked()
}

func settings(p result.Parameters) string {
	names := slices.Sorted(maps.Keys(p))
	for i, name := range names {
		names[i] += " " + setting(p[name])
	}
	return strings.Join(names, ", ")
}

// setting writes a parameter's value; numbers as in a config, lists without brackets.
func setting(v any) string {
	switch v := v.(type) {
	case float64:
		return number.Format(v)
	case []float64:
		var out []string
		for _, x := range v {
			out = append(out, number.Format(x))
		}
		return strings.Join(out, ", ")
	}
	return strings.Trim(fmt.Sprint(v), "[]")
}

// FitTable lists the embeddings that were fitted.
func (v Report) FitTable() Table {
	t := Table{Lead: 3, Caption: "Fitted embeddings",
		Head: []string{"Control", "Model", "At", "Dimension", "Rank", "Variance kept (%)", "Samples", "Time"}}
	for _, f := range v.File.Fits {
		time := timed(f.Seconds)
		if f.Cached {
			time = text("cached")
		}
		t.add(f.Control, f.Model, f.At, f.Dim, f.Rank, words.Percent(f.Variance, 1000), f.Samples, time)
	}
	return t.marked()
}
