package reports

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"selfheal/harness/result"
	"selfheal/harness/result/published"
	"selfheal/internal/number"
)

// Provenance says with what the numbers were made.
func (v *view) Provenance() []fact {
	if v.Quoted {
		return []fact{{"Paper", published.Title}, {"Authors", published.Authors}}
	}
	f, e := v.File, v.File.Environment
	created := ""
	if !f.Created.IsZero() {
		created = f.Created.UTC().Format(time.RFC3339)
	}
	var threads, winograd string
	if e.Threads != 0 { // files of older versions don't say
		threads = fmt.Sprint(e.Threads)
	}
	if e.Winograd {
		winograd = "convolutions rewritten for the CPU"
	}
	return slices.DeleteFunc([]fact{
		{"Created", created}, {"Plan (SHA-256)", f.ConfigSHA256}, {"Seed", fmt.Sprint(f.Seed)},
		{"Seeds of the attacks", v.seeds()}, {"Schema", f.Schema}, {"selfheal", e.Selfheal}, {"Go", e.Go},
		{"ONNX Runtime", e.ONNXRuntime}, {"Provider", e.Provider}, {"CPU", e.CPU},
		{"Workers, batch", fmt.Sprintf("%d, %d", e.Workers, e.Batch)}, {"Threads of a pass", threads},
		{"Winograd", winograd},
	}, func(x fact) bool { return x.Text == "" })
}

// seeds names all seeds that some cell has an accuracy under, in their order; "" where cells
// have one.
func (v *view) seeds() string {
	var names []string
	for _, c := range v.File.Cells {
		for _, one := range c.Seeds {
			if len(c.Seeds) > 1 {
				names = once(names, fmt.Sprint(one.Seed))
			}
		}
	}
	return some(names)
}

// Made are the tables of what the numbers depend on, those that have lines.
func (v reportTables) Made() []table {
	return filled(v.datasetTable(), v.modelTable(), v.attackTable(), v.controlTable())
}

// described is a piece of provenance: its words joined, those that are not empty.
func described(words ...string) box {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return text(cmp.Or(clean(strings.Join(words, "; ")), dash))
}

// titled puts a word before what is said, if anything is.
func titled(word, said string) string {
	if said == "" {
		return ""
	}
	return word + " " + said
}

func (v reportTables) datasetTable() table {
	t := table{Lead: 1, Caption: "Data sets", Head: []string{"Data set", "Images", formatHead, chosenHead,
		"SHA-256 of pixels and labels"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Datasets)) {
		d := v.File.Datasets[name]
		var classes, limit string
		if d.Classes > 0 {
			classes = plural(d.Classes, "class", "classes")
		}
		if d.Limit > 0 {
			limit = fmt.Sprintf("the first %d", d.Limit)
		}
		t.add(clean(name), thousands(d.N), described(d.Format), described(d.Words(),
			titled("indices", indices(d.Indices)), limit, classes), clean(d.SHA256))
	}
	return t
}

// indices writes a list of images: a run of neighbours by its ends, of a long list the first dozen.
func indices(ids []int) string {
	n := len(ids)
	if n > 2 && ids[n-1]-ids[0] == n-1 && slices.IsSorted(ids) {
		return fmt.Sprintf("%d to %d", ids[0], ids[n-1])
	}
	var names []string
	for _, id := range ids {
		names = append(names, fmt.Sprint(id))
	}
	return some(names)
}

func (v reportTables) modelTable() table {
	t := table{Lead: 1, Caption: "Models",
		Head: []string{"Model", "Parameters", "Segments", "FLOPs per image", takenHead, "SHA-256 of the file"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Models)) {
		m := v.File.Models[name]
		flops, scale, mean, std := dash, "", "", ""
		if m.FLOPs > 0 {
			flops = thousands(m.FLOPs)
		}
		if p := m.Preprocess; p != nil {
			mean, std = setting(p.Mean), setting(p.Std)
			if p.Scale != 0 {
				scale = setting(p.Scale)
			}
		}
		t.add(clean(name), thousands(m.Parameters), thousands(m.Segments), flops, described(m.Layout,
			titled("scale", scale), titled("mean", mean), titled("std", std), m.Output, clean(m.OutputName),
			titled("split at", strings.Join(m.Split, ", "))), clean(m.SHA256))
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

// attackTable says how every attack was made, with a line for each component.
func (v reportTables) attackTable() table {
	t := table{Lead: 2, Caption: "Attacks", Head: []string{"Attack", madeHead, "Recipe", "Norm", "ε", settingsHead}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Attacks)) {
		a := v.File.Attacks[name]
		var strengths []string
		for _, e := range a.Epsilons {
			strengths = append(strengths, number.Format(e))
		}
		t.add(clean(name), described(a.Title), described(a.Recipe), described(normName(*cmp.Or(a.Norm, new("")))),
			described(strings.Join(strengths, ", ")), described(settings(a.Parameters)))
		for _, c := range a.Components {
			t.add(clean(name), "component "+clean(c.Kind), "", "", "", described(settings(c.Parameters)))
		}
	}
	return t.marked()
}

// controlTable says how every control was made: its solver, then each of its layers.
func (v reportTables) controlTable() table {
	t := table{Lead: 2, Caption: "Controls", Head: []string{"Control", "Part", settingsHead}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Controls)) {
		c := v.File.Controls[name]
		line := func(part string, words ...string) {
			t.add(clean(name), clean(part), described(words...))
		}
		line("solver", settings(c.Solver))
		for _, l := range c.Layers {
			e := l.Embedding
			words := []string{e.Kind, titled("fitted on", e.Fit), e.Path, titled("SHA-256", e.SHA256)}
			if e.Variance > 0 {
				words = append(words, "variance "+setting(e.Variance))
			}
			if e.Rank > 0 {
				words = append(words, fmt.Sprintf("rank %d", e.Rank))
			}
			for _, size := range slices.Sorted(maps.Keys(e.Files)) {
				words = append(words, fmt.Sprintf("SHA-256 of size %s %s", size, e.Files[size]))
			}
			line(layerName(l.At), words...)
		}
	}
	return t.marked()
}

// settings writes parameters by name, in alphabetic order.
func settings(p result.Parameters) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		out = append(out, name+" "+setting(p[name]))
	}
	return strings.Join(out, ", ")
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

var plainArgument = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Command repeats the run, as one types it; "" where that is not known.
func (v *view) Command() string { return shellCommand(v.File.Command) }

// shellCommand writes arguments as one types them into a POSIX shell.
func shellCommand(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		switch {
		case plainArgument.MatchString(a):
			quoted[i] = a
		case clean(a) != a:
			quoted[i] = "\"$(printf '" + printfEscaped(a) + "')\""
		default:
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// printfEscaped writes what a terminal does not show as bytes in octal, for printf.
func printfEscaped(s string) string {
	var sb strings.Builder
	for _, b := range []byte(s) {
		if b <= ' ' || b >= 0x7f || strings.ContainsRune(`'"\%`, rune(b)) {
			fmt.Fprintf(&sb, `\%03o`, b)
		} else {
			sb.WriteByte(b)
		}
	}
	return sb.String()
}
