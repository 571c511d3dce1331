package gate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

// Outcomes that no golden of internal/cli shows.
func TestOutcomes(t *testing.T) {
	const n = 400
	for name, c := range map[string]struct {
		right map[int]int // right images of a cell, by its index; the others have 320
		rules func(g *config.Gate)
		want  Outcome
		says  string
	}{
		"a drop that is tolerated": {map[int]int{2: 280}, func(g *config.Gate) { g.MaxDrop = 0.2 }, Pass, "PASS"},
		"no drop is tolerated": {map[int]int{0: 319}, func(g *config.Gate) { g.MaxDrop = 0 }, Inconclusive,
			"no possible number of images"},
		"at the border": {map[int]int{2: 306}, func(g *config.Gate) { g.MaxDrop = 0.05 }, Inconclusive,
			"look at the changes, or take more images"},
		"better":      {map[int]int{4: 350}, func(g *config.Gate) {}, Pass, "PASS"},
		"min reached": {nil, func(g *config.Gate) { g.Min["aa"] = 0.8 }, Pass, "PASS"},
		"the highest min counts": {nil, func(g *config.Gate) { g.Min["heal/aa"], g.Min["*"] = 0.85, 0.1 }, Fail,
			"FAIL: 1 of 6 cells missed a min"},
		"min may be missed": {nil, func(g *config.Gate) { g.Min["net/none/pgd@8/255"] = 0.81 }, Inconclusive,
			"INCONCLUSIVE: 1 of 6 cells may have missed a min; about "},
		"another warning": {nil, func(g *config.Gate) { g.FailOn = []string{"near-chance"} }, Pass, "PASS"},
	} {
		now, rules := same(320, n), config.DefaultGate()
		for i, right := range c.right {
			now[i] = verdictsOf(right, n)
		}
		c.rules(&rules)
		f := file(0, now...)
		f.Cells[1].Warnings = []result.Warning{{ID: "quick"}}
		r := must.Get(against(t, same(320, n), f, rules))(t)
		if r.Outcome != c.want || !strings.Contains(r.Summary, c.says) {
			t.Errorf("%s: %s, %q", name, r.Outcome, r.Summary)
		}
		if (name == "better") != r.Cells[4].Change.Better {
			t.Errorf("%s: better is %v", name, r.Cells[4].Change.Better)
		}
	}
}

// With the least alpha and many cells a clear drop still fails.
func TestManyCells(t *testing.T) {
	var before, now []string
	for range 200 {
		before, now = append(before, same(320, 400)...), append(now, same(320, 400)...)
	}
	now[7] = verdictsOf(200, 400)
	many := func(verdicts []string) *result.File {
		f := file(0, verdicts...)
		f.Suites = nil
		for i := range f.Cells {
			f.Cells[i].Suite = fmt.Sprint("s", i/6)
		}
		return f
	}
	rules := config.DefaultGate()
	rules.Alpha = 0.001
	r, err := Compare(t.Context(), mustBaseline(t, many(before)), many(now), rules)
	if err != nil || r.Outcome != Fail || r.Cells[7].Outcome != Fail || r.Cells[7].Change.Detectable == nil {
		t.Fatalf("%v, %s", err, r.Summary)
	}
}

// No drop is named if none would be detected.
func TestNothingDetectable(t *testing.T) {
	c := must.Get(against(t, same(2, 3), file(0, same(2, 3)...), config.DefaultGate()))(t).Cells[0]
	if c.Change.Detectable != nil || c.row()[7] != "–" || strings.Contains(c.numbers(), "detectable") {
		t.Errorf("three images detect %v, %v, %v", c.Change.Detectable, c.row(), c.numbers())
	}
	if data, err := json.Marshal(c); err != nil || !strings.Contains(string(data), `"detectable":null`) {
		t.Errorf("%s, %v", data, err)
	}
}

// New cells are not compared, but rules without a baseline apply to them.
func TestNewCells(t *testing.T) {
	base := mustBaseline(t, file(0, same(320, 400)...))
	base.Cells = base.Cells[:4] // without clean images
	f, rules := file(0, same(320, 400)...), config.DefaultGate()
	r, err := Compare(t.Context(), base, f, rules)
	if err != nil || r.Outcome != Pass || r.Cells[0].Outcome != New || r.Cells[0].Change != nil ||
		!strings.Contains(r.Notes[0], "--update takes them in") {
		t.Fatalf("%+v, %v", r, err)
	}
	rules.Min["none/none"] = 0.9
	if r, err = Compare(t.Context(), base, f, rules); err != nil || r.Outcome != Fail || r.Cells[0].Outcome != Fail {
		t.Errorf("a new cell that misses its min: %v, %v", r.Outcome, err)
	}
}

// rename gives a model, an attack or a control of results another name.
func rename(f *result.File, what, old, name string) {
	switch what {
	case "model":
		f.Models[name] = f.Models[old]
	case "attack":
		f.Attacks[name] = f.Attacks[old]
	case "control":
		f.Controls[name] = f.Controls[old]
	}
	for i := range f.Cells {
		c := &f.Cells[i]
		for _, field := range []*string{&c.Model, &c.Attack, &c.Defense} {
			if *field == old {
				*field = name
			}
		}
	}
}

// Other images, settings or cells are refused. Other embeddings may be under test: they are pointed out.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		change func(f *result.File)
		want   string
		noted  bool // and the comparison is made
	}{
		{func(f *result.File) { f.Environment.Selfheal = "9" }, "by selfheal 9, the baseline by 0.1.0", true},
		{func(f *result.File) { f.Controls["heal"].Layers[1].Embedding.SHA256 = "3" },
			"other embedding files than the baseline's: heal at last", true},
		{func(f *result.File) {
			f.Datasets["shapes"] = result.Dataset{N: 40, SHA256: strings.Repeat("c", 64), Format: "npz"}
		}, "cell main/net/none/none: the results have other images than the baseline " +
			"(dataset shapes, sha256 cccccccccccc…, not aaaaaaaaaaaa…)", false},
		{func(f *result.File) { f.Cells[2].Recipe = "aa/2" },
			"cell main/net/none/aa@8/255: the results are by recipe aa/2, the baseline by aa/1", false},
		{func(f *result.File) { f.Cells[4].Mode = result.WhiteboxThrough },
			"the results have mode whitebox-through, the baseline oblivious", false},
		{func(f *result.File) { l2 := "l2"; f.Cells[3].Norm = &l2 },
			"the results are in norm l2, the baseline in linf", false},
		{func(f *result.File) { f.Cells[3].Error, f.Cells[3].Verdicts = "the loop diverges", "" },
			"has no verdicts: the loop diverges", false},
		{func(f *result.File) { f.Cells = f.Cells[:4] },
			"the results lack main/net/heal/pgd@8/255 and 1 more, which the baseline has", false},
		{func(f *result.File) { e := 0.5; f.Cells[5].Epsilon = cell.Epsilon(e) },
			"the results lack main/net/heal/pgd@8/255, which", false},
		{func(f *result.File) { rename(f, "model", "net", "resnet") },
			"renamed, with the same file: net is now resnet", true},
		{func(f *result.File) {
			rename(f, "model", "net", "resnet")
			f.Models["resnet"] = result.Model{SHA256: f.Models["net"].SHA256, Output: "label"}
		}, "renamed? model resnet is new and has the sha256 of net: give back the old name, or accept", false},
		{func(f *result.File) { rename(f, "attack", "pgd", "pgd40") },
			"which the baseline has; renamed? attack pgd40 is new and has the settings of pgd: give", false},
		{func(f *result.File) {
			rename(f, "attack", "pgd", "pgd40")
			f.Attacks["pgd40"].Parameters["steps"] = 41
		}, "which the baseline has; run those cells too", false},
		{func(f *result.File) {
			rename(f, "control", "heal", "msa")
			rename(f, "model", "net", "resnet")
			f.Models["resnet"] = result.Model{SHA256: strings.Repeat("c", 64)}
		}, "renamed? control msa is new and has the settings of heal: give", false},
		{func(f *result.File) { f.Cells = nil }, "results: there are no cells", false},
		{func(f *result.File) {
			m := f.Models["net"]
			m.SHA256 = strings.Repeat("c", 64)
			f.Models["net"] = m
		}, "set new_model: true in gate: or give --new-model", false},
		{func(f *result.File) { f.Cells[0].Dataset = "sets" },
			`its dataset "sets" is not among the datasets`, false},
		{func(f *result.File) { f.Cells[2].Epsilon = 0 }, "an attack has norm, epsilon and recipe", false},
		{func(f *result.File) { f.Cells[2].Mode = "blind" }, `its mode is "blind"`, false},
		{func(f *result.File) { e := math.NaN(); f.Cells[2].Epsilon = cell.Epsilon(e) }, "epsilon NaN is none", false},
		{func(f *result.File) { f.Cells[2].Defense = "" }, "a cell lacks its defense", false},
	} {
		f := file(0, same(20, 40)...)
		c.change(f)
		r, err := against(t, same(20, 40), f, config.DefaultGate())
		if !c.noted {
			must.Refuse(t, err, c.want)
		} else if err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], c.want) {
			t.Errorf("%v, %v", r, err)
		}
	}
}

// Settings that shape a number must be the baseline's. Others are named with both values, unless the rules accept
// them.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		change func(f *result.File)
		want   string
		accept string
	}{
		{func(f *result.File) { f.Attacks["pgd"].Parameters["steps"] = 1 },
			"attacks.pgd.parameters.steps: baseline 40, run 1", "attacks.pgd.parameters.steps"},
		{func(f *result.File) {
			a := f.Attacks["aa"]
			a.Components = a.Components[1:]
			f.Attacks["aa"] = a
		}, "attacks.aa.components: baseline [apgd-ce, square], run [square]", "attacks.aa"},
		{func(f *result.File) { f.Attacks["aa"].Components[1].Parameters["queries"] = 1 },
			"attacks.aa.components[1].parameters.queries: baseline 5000, run 1", "attacks.aa.components"},
		{func(f *result.File) { delete(f.Attacks["pgd"].Parameters, "schedule") },
			"attacks.pgd.parameters.schedule: baseline constant, run none", "attacks.pgd.parameters"},
		{func(f *result.File) { f.Models["net"].Preprocess.Mean[0] = 0.25 },
			"models.net.preprocess.mean: baseline [0.5], run [0.25]", "models.net"},
		{func(f *result.File) { f.Controls["heal"].Solver["outer"] = 5 },
			"controls.heal.solver.outer: baseline 3, run 5", "controls"},
		{func(f *result.File) { f.Controls["heal"].Layers[1].At = "2" },
			"controls.heal.layers[1].at: baseline last, run 2", "controls.heal.layers[1].at"},
		{func(f *result.File) {
			d := f.Datasets["shapes"]
			d.Indices = []int{3, 1}
			f.Datasets["shapes"] = d
		}, "datasets.shapes.indices: baseline none, run [3, 1]", "datasets.shapes.indices"},
		{func(f *result.File) {
			a := f.Attacks["pgd"]
			a.Recipe, f.Cells[4].Recipe, f.Cells[5].Recipe = "pgd/2", "pgd/2", "pgd/2"
			f.Attacks["pgd"] = a
		}, "attacks.pgd.recipe: baseline pgd/1, run pgd/2", "attacks.pgd.recipe"},
	} {
		f, base, rules := file(0, same(20, 40)...), mustBaseline(t, file(0, same(20, 40)...)), config.DefaultGate()
		c.change(f)
		rules.Accept = []string{"attacks.pg", "models.n"} // parts of names match nothing
		if _, err := Compare(t.Context(), base, f, rules); err == nil || !strings.HasPrefix(err.Error(),
			c.want+": run with the baseline's, ") {
			t.Errorf("error %v, want one that begins with %q", err, c.want)
		}
		rules.Accept = []string{c.accept}
		if r, err := Compare(t.Context(), base, f, rules); err != nil || r.Outcome != Pass || !slices.Contains(r.Notes,
			"accepted: "+c.want) {
			t.Errorf("%s accepted: %v, %v", c.accept, err, r)
		}
	}
	f := file(0, same(20, 40)...)
	f.Attacks["pgd"] = result.Attack{}
	_, err := against(t, same(20, 40), f, config.DefaultGate())
	must.Refuse(t, err, "; and 2 more: ")
	f.Attacks = nil // as in an older version
	_, err = NewBaseline(f, config.DefaultGate())
	must.Refuse(t, err, `nothing says how its attack "aa" was made`)
}

// A baseline of an older version is refused with its path and the flag that updates it. Its rules are read.
func TestOlderBaseline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.json")
	must.Do(t, os.WriteFile(path, []byte(`{"schema": "selfheal.baseline/1", "gate": {"max_drop": 0.07}, "cells": []}`),
		0o644))
	b, err := Read(path)
	if !errors.Is(err, ErrOlder) || !strings.Contains(err.Error(), "selfheal check --update --baseline "+path) ||
		b.Gate.MaxDrop != 0.07 {
		t.Errorf("%+v, %v", b, err)
	}
}

// Names may contain anything that a file can. Reports show them safely.
func TestHostileNames(t *testing.T) {
	const name = "<script>alert(1)</script>|`*_\x1b[31m\x00\n]]>&"
	f := file(0, same(800, 1000)...)
	f.Models[name] = f.Models["net"]
	f.Suites[0].Models = []string{name}
	for i := range f.Cells {
		f.Cells[i].Model = name
	}
	now := *f
	now.Cells = append([]result.Cell{}, f.Cells...)
	now.Cells[0].Verdicts, now.Cells[0].Correct = verdictsOf(740, 1000), 740
	r, err := Compare(t.Context(), mustBaseline(t, f), &now, config.DefaultGate())
	if err != nil || r.Outcome != Fail {
		t.Fatal(r, err)
	}
	var text, md, xmls bytes.Buffer
	must.Do(t, errors.Join(r.WriteText(&text), r.WriteMarkdown(&md), r.WriteJUnit(&xmls),
		WriteJUnitError(&xmls, fmt.Errorf("cell %s", name))))
	for _, bad := range []string{"\x1b", "\x00", "*_\n"} {
		if strings.Contains(text.String()+md.String()+xmls.String(), bad) {
			t.Errorf("%q is written as it is", bad)
		}
	}
	if strings.Contains(md.String(), "<script>") || strings.Contains(md.String(), "</script>|") ||
		!strings.Contains(md.String(), `&lt;script&gt;alert(1)&lt;/script&gt;\|`+"\\`"+`\*\_`) {
		t.Errorf("Markdown:\n%s", md.String())
	}
	for i, line := range strings.Split(md.String(), "\n") {
		bars := strings.Count(line, "|") - strings.Count(line, `\|`)
		if strings.HasPrefix(line, "|") && bars != len(r.columns())+1 {
			t.Errorf("line %d of the Markdown has %d bars:\n%s", i, bars, line)
		}
	}
	// Both documents, one after the other, are well-formed and have the expected content.
	d := xml.NewDecoder(&xmls)
	var all [2]junit.Testsuites
	for i := range all {
		must.Do(t, d.Decode(&all[i]))
	}
	cells := all[0].Suites[0].Testcases
	if all[0].Tests != 6 || all[0].Failures != 1 || all[0].Suites[0].Time != "9.000" || len(cells) != 6 ||
		cells[0].Failure == nil || !strings.HasPrefix(cells[0].Name, "<script>alert(1)</script>|") ||
		!strings.Contains(cells[0].SystemOut.Data, "lost 60") {
		t.Errorf("%+v", all[0])
	}
	if all[1].Errors != 1 || !strings.Contains(all[1].Suites[0].Testcases[0].Error.Message, "<script>") {
		t.Errorf("%+v", all[1])
	}
}

// A suite without controls is not oblivious: its attacks are on the network itself. Baselines of older versions have
// the config's mode.
func TestAttacker(t *testing.T) {
	f := file(0, same(15, 20)...)
	f.Suites[0].Controls = nil
	f.Cells = slices.DeleteFunc(f.Cells, func(c result.Cell) bool { return c.Defense != "none" })
	old := must.Get(json.Marshal(mustBaseline(t, f)))(t)
	must.Have(t, string(old), `"mode":"oblivious"`)
	for i := range f.Cells {
		f.Cells[i].Mode = result.Whitebox
	}
	var b bytes.Buffer
	r := must.Get(Compare(t.Context(), must.Get(parse(old))(t), f, config.DefaultGate()))(t)
	must.Do(t, errors.Join(r.WriteText(&b), r.WriteMarkdown(&b), r.WriteJUnit(&b)))
	must.Have(t, b.String(), "suite main, dataset shapes, whitebox\n")
	must.Have(t, b.String(), "Suite main, dataset shapes, whitebox\n")
	must.Have(t, b.String(), `<property name="mode" value="whitebox">`)
}

// A baseline says how many images it takes to pass: with that many, and the same verdicts, the check passes, with
// fewer it does not.
func TestImages(t *testing.T) {
	b := mustBaseline(t, file(0, same(20, 40)...))
	said := regexp.MustCompile(`at least 40 a cell; .* with about (\d+) where no .*, 254 where 1 % flip`).
		FindStringSubmatch(b.Images())
	if said == nil {
		t.Fatal(b.Images())
	}
	for less, want := range []Outcome{Pass, Inconclusive} {
		n := must.Get(strconv.Atoi(said[1]))(t) - less
		f, rules := file(0, same(20, n)...), config.DefaultGate()
		f.Models["net"], rules.NewModel = result.Model{SHA256: strings.Repeat("c", 64), Output: "logits",
			Preprocess: f.Models["net"].Preprocess}, true
		if r, err := against(t, same(20, n), f, rules); err != nil || r.Outcome != want {
			t.Errorf("%d images: %v, %v, want %s", n, err, r, want)
		}
	}
	b.Gate.MaxDrop = 1e-9
	if s := b.Images(); !strings.Contains(s, "more than 10 million") {
		t.Error(s)
	}
	b.Gate.MaxDrop = 0
	if s := b.Images(); !strings.HasPrefix(s, "max_drop is 0: no number of images") {
		t.Error(s)
	}
}

// Images within rounding, in the baseline or in the results, cannot fail a check by themselves, by a drop or by a
// min. As many others can.
func TestRoundingAloneFailsNothing(t *testing.T) {
	t.Parallel()
	rules := config.DefaultGate()
	rules.MaxDrop = 0
	rules.Min = map[string]float64{"none/pgd": 0.5}
	for _, c := range []struct {
		name          string
		before, after []int // indices of images within rounding in the cell under pgd
		want          Outcome
		turned        int
	}{
		{"others", nil, nil, Fail, 0},
		{"near in the results", nil, []int{43, 44, 45, 46, 47, 48, 49}, Pass, 7},
		{"some are near", nil, []int{43, 44}, Inconclusive, 2},
	} {
		before, after := same(50, 100), same(50, 100)
		after[4] = verdictsOf(43, 100)
		was, is := file(0, before...), file(0, after...)
		was.Cells[4].Near, is.Cells[4].Near = c.before, c.after
		r := must.Get(Compare(t.Context(), must.Get(NewBaseline(was, config.DefaultGate()))(t), is, rules))(t)
		if got := r.Cells[4].Change; r.Outcome != c.want || got.Turned != c.turned || got.Lost != 7-c.turned {
			t.Errorf("%s: %s (%s), turned %d, lost %d", c.name, r.Outcome, r.Summary, got.Turned, got.Lost)
		}
	}
	was, is := file(0, same(50, 100)...), file(0, same(50, 100)...)
	was.Cells[4].Near = []int{3}
	is.Cells[4].Verdicts = strings.Replace(is.Cells[4].Verdicts, "1111", "1110", 1)
	is.Cells[4].Correct--
	base := must.Get(NewBaseline(was, config.DefaultGate()))(t)
	rules.Min = nil
	if r := must.Get(Compare(t.Context(), base, is, rules))(t); r.Outcome != Pass || !r.Cells[4].Change.Unchanged {
		t.Errorf("near in the baseline: %s", r.Summary)
	}
	is.Cells[4].Near = []int{7, 3}
	_, err := Compare(t.Context(), base, is, rules)
	must.Refuse(t, err, "no list of places")
}

// A baseline must name cells whose accuracy failed gradients hold up.
func TestFailedGradientsAreNamed(t *testing.T) {
	t.Parallel()
	f := file(0, same(50, 100)...)
	f.Cells[4].GradientFailures = 12
	rules := config.DefaultGate()
	_, err := NewBaseline(f, rules)
	must.Refuse(t, err, "gradients failed on 12 of the 50 images that stand")
	must.Do(t, rules.Set("gate.gradient_failures=[pgd]"))
	must.Get(NewBaseline(f, rules))(t)
	must.Do(t, rules.Set("gate.gradient_failures=[heal/aa]"))
	if _, err := NewBaseline(f, rules); err == nil {
		t.Error("another cell is named")
	}
}

// corrupted returns a file whose PGD cells belong to a corruption at two severities.
func corrupted(ones int) *result.File {
	f := file(100, same(ones, 100)...)
	f.Attacks["c"] = result.Attack{Kind: "corruption", Recipe: "corruption/1", Epsilons: []float64{},
		Parameters: result.Parameters{"names": []string{"fog"}, "severities": []int{1, 3}}}
	f.Suites[0].Attacks = []string{"c"}
	for i := range f.Cells {
		if c := &f.Cells[i]; c.Attack != "none" {
			c.Attack = map[string]string{"aa": "c:fog:1", "pgd": "c:fog:3"}[c.Attack]
			c.Norm, c.Epsilon, c.Recipe = nil, 0, "corruption/1"
		}
	}
	return f
}

// Cells of corruptions, without norm and epsilon, are compared like others, and a baseline keeps their settings.
func TestCorruptions(t *testing.T) {
	base := must.Get(NewBaseline(corrupted(80), config.DefaultGate()))(t)
	r := must.Get(Compare(t.Context(), base, corrupted(80), config.DefaultGate()))(t)
	if len(r.Cells) != 6 {
		t.Errorf("%d cells", len(r.Cells))
	}
	for want, change := range map[string]func(f *result.File){
		"attacks.c.parameters.severities": func(f *result.File) {
			f.Attacks["c"].Parameters["severities"] = []int{1, 4}
		},
		"c:fog:3":                 func(f *result.File) { f.Cells = f.Cells[:len(f.Cells)-1] },
		"a corruption its recipe": func(f *result.File) { f.Cells[5].Attack = "pgd" }, // pgd has a norm
	} {
		f := corrupted(80)
		change(f)
		_, err := Compare(t.Context(), base, f, config.DefaultGate())
		must.Refuse(t, err, want)
	}
}
