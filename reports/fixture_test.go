package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/must"
	"selfheal/reports/view"
)

// outputs returns the output for a report in a folder.
func outputs(dir string) atomicfile.Output { return atomicfile.Rule{}.In(dir, "report") }

// Names that every format must take as text.
const (
	scriptName = `<script>alert(1)</script>`
	texName    = `_ % & # $ { } ~ ^ \ | * [x] "q" 'r'`
)

// attacked describes one attack of the fixture.
type attacked struct {
	name, norm, recipe string
	epsilon            float64
}

// addCells appends a suite's cells: correct[model][defense][attack, none first]; −1 is a missing cell.
func addCells(f *result.File, s result.Suite, n int, attacks []attacked, correct [][][]int) {
	f.Suites = append(f.Suites, s)
	f.Datasets[s.Dataset] = result.Dataset{N: n, SHA256: strings.Repeat("5a", 32)}
	for m, model := range s.Models {
		f.Models[model] = result.Model{SHA256: strings.Repeat("c0", 32), Parameters: 11173962, Segments: 10,
			FLOPs: 557000000}
		for d, defense := range slices.Concat([]string{"none"}, s.Controls) {
			for a, k := range correct[m][d] {
				if k < 0 {
					continue
				}
				c := result.Cell{ID: cell.Of(s.Name, model, defense, "none", 0).In(s.Dataset, s.Mode),
					Steps: []result.Step{}, Seconds: 0.25 + float64(m)}.Judged(verdicts(n, k, 3*d))
				c.VerdictOnly = d > 0 && a > 0 && s.Mode != "oblivious"
				if a > 0 {
					at := attacks[a-1]
					c.Attack, c.Norm, c.Epsilon, c.MaxNorm = at.name, &at.norm, cell.Epsilon(at.epsilon), at.epsilon
					if d == 0 || s.Mode != "oblivious" {
						c.Recipe, c.Seconds = at.recipe, 754.2+float64(100*a)
						c.Steps = steps(correct[m][d][0], k, n)
					}
				}
				if d > 0 && s.Name == "single" {
					c.Solver = &result.Solver{Method: "greedy", Objective: 4.5, Greedy: 4.5, ControlNorm: 0.5,
						PassesPerRun: 2.1}
				} else if d > 0 {
					c.Warnings = []result.Warning{{ID: view.LoopID, Message: "the defense " + defense +
						" solves an optimisation problem for every image"}}
					c.Solver = &result.Solver{Method: "msa", Objective: 3.21 + float64(a), Greedy: 4.5 + float64(a),
						BelowGreedy: 0.985, ControlNorm: 0.731, PassesPerRun: 41.4}
				}
				f.Cells = append(f.Cells, c)
			}
		}
	}
}

// verdicts returns n verdicts with k right ones in a row, beginning at first.
func verdicts(n, k, first int) string {
	out := []byte(strings.Repeat("0", n))
	for i := range k {
		out[(first+i)%n] = '1'
	}
	return string(out)
}

// steps makes a waterfall from start to end right answers over AutoAttack's four components.
func steps(start, end, n int) []result.Step {
	var out []result.Step
	left := start
	for i, name := range []string{"apgd-ce", "apgd-t", "fab-t", "square"} {
		after := end + (start-end)/(8<<(2*i))
		out = append(out, result.Step{Attack: name, Attacked: left, Robust: float64(after) / float64(n),
			Forward: int64(left) * 101, Backward: int64(left) * 100, Seconds: float64(left) / 3})
		left = after
	}
	return out
}

// fixture is a result with a suite of one model and control, a partial one of two models and controls with awkward
// names, one with a single attack, three of attackers who know more, and one of curves.
func fixture() *result.File {
	f := &result.File{Schema: result.Schema, Created: time.Date(2025, 3, 14, 15, 9, 26, 0, time.UTC),
		ConfigSHA256: strings.Repeat("ab", 32), Seed: 7,
		Environment: result.Environment{Selfheal: "0.1.0", Go: "go1.26", ONNXRuntime: "1.22.0", Provider: "cpu",
			Workers: 2, Batch: 64, CPU: "Example CPU", Threads: 3, Winograd: true},
		Command:  []string{"selfheal", "run", "--out", "my results"},
		Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	aa := "autoattack-standard/1"
	addCells(f, result.Suite{Name: "real", Title: "CIFAR-10, adversarially trained", Dataset: "cifar10-test",
		Mode:   "oblivious",
		Models: []string{"resnet-2b"}, Controls: []string{"pca"}, Attacks: []string{"aa-linf", "aa-l2", "aa-l1"}}, 200,
		[]attacked{{"aa-linf", "linf", aa, 8. / 255}, {"aa-l2", "l2", aa, 0.5}, {"aa-l1", "l1", aa, 12}},
		[][][]int{{{164, 51, 59, 8}, {161, 92, 104, 66}}})
	addCells(f, result.Suite{Name: "../white box", Dataset: "tiny & small", Mode: "whitebox-detached",
		Models: []string{scriptName, texName}, Controls: []string{"pca", "auto_encoder"},
		Attacks: []string{"aa-linf", "pgd-fast", "pgd-slow", "aa-l1"}}, 1000,
		[]attacked{{"aa-linf", "linf", aa, 4. / 255}, {"aa-linf", "linf", aa, 8. / 255},
			{"pgd-fast", "l2", "pgd/1", 0.8}, {"pgd-slow", "l2", "pgd/1", 0.8}},
		[][][]int{{{577, 2, 0, 17, 15}, {599, 461, 301, 499, 480}, {590, 421, -1, 520, 500}},
			{{580, 3, 1, 14, 14}, {593, 443, 322, 479, 460}, {-1, -1, -1, -1, -1}}})
	addCells(f, result.Suite{Name: "single", Dataset: "cifar10-test", Mode: "oblivious",
		Models: []string{"resnet-2b"}, Controls: []string{"pca"}, Attacks: []string{"square-linf"}}, 200,
		[]attacked{{"square-linf", "linf", "square/1", 0.05}}, [][][]int{{{164, 77}, {161, 0}}})
	// The first suite's network and control before attackers who know more.
	known := func(mode string, attacks []attacked, correct [][][]int) {
		s := result.Suite{Name: mode, Dataset: "cifar10-test", Mode: "whitebox-" + mode, Models: []string{"resnet-2b"},
			Controls: []string{"pca"}}
		for _, a := range attacks {
			s.Attacks = append(s.Attacks, a.name)
		}
		addCells(f, s, 200, attacks, correct)
	}
	linf, l2 := attacked{"aa-linf", "linf", aa, 8. / 255}, attacked{"aa-l2", "l2", aa, 0.5}
	known("detached", []attacked{linf, l2}, [][][]int{{{164, 51, 59}, {161, 70, 88}}})
	known("through", []attacked{{"pgd-linf", "linf", "pgd/1", 8. / 255}, l2}, [][][]int{{{164, 60, 59}, {161, 49, 61}}})
	addCells(f, result.Suite{Name: "curve", Title: "Robustness curves", Dataset: "cifar10-test", Mode: "oblivious",
		Models: []string{"resnet-2b"}, Controls: []string{"pca"}, Attacks: []string{"fab", "bisection"}}, 200,
		[]attacked{{"fab", "linf", "fab-t/1", 2. / 255}, {"fab", "linf", "fab-t/1", 4. / 255},
			{"fab", "linf", "fab-t/1", 8. / 255}, {"bisection", "l2", "bisection/1", 1}},
		[][][]int{{{164, 137, 110, 55, 64}, {161, 150, 134, 101, 118}}})
	warn := func(i int, w ...result.Warning) { f.Cells[i].Warnings = append(f.Cells[i].Warnings, w...) }
	zero := result.Warning{ID: "zero-gradient",
		Message: "3 of 164 images have a gradient of zero; <b>results</b> may be optimistic"}
	warn(1, zero)
	warn(2, zero, result.Warning{ID: "odd-name", Message: "the name 50%_of & is odd"})
	warn(5, result.Warning{ID: "budget", Message: "stopped at 5 steps"})
	f.Fits = []result.Fit{{Control: "pca", Model: "resnet-2b", At: "input", Dim: 3072, Rank: 217, Variance: 0.9901,
		Samples: 10000, Seconds: 4.25},
		{Control: "pca", Model: "resnet-2b", At: "last", Dim: 512, Rank: 9, Variance: 0.9932, Samples: 10000,
			Cached: true}}
	d := f.Datasets["cifar10-test"]
	d.Format, d.Limit, d.Indices, d.Classes = "cifar10-bin", 200, []int{4, 8, 15, 16, 23, 42}, 10
	f.Datasets["cifar10-test"] = d
	m := f.Models["resnet-2b"]
	m.Preprocess = &result.Preprocess{Mean: []float64{0.4914, 0.4822, 0.4465}, Std: []float64{0.25}}
	m.Output, m.Split = "logits", []string{"/conv/out", "/<pool>/out"}
	f.Models["resnet-2b"] = m
	f.Attacks = map[string]result.Attack{
		"pgd-linf": {Kind: "pgd", Title: "PGD-40, 2 restarts", Recipe: "pgd/1", Norm: new("linf"),
			Epsilons:   []float64{8. / 255},
			Parameters: result.Parameters{"steps": 40, "restarts": 2, "step_size": 2. / 255, "random_start": true}},
		"aa-linf": {Kind: "autoattack", Title: "AutoAttack (custom: APGD-CE; Square, 5000 queries)", Version: "custom",
			Recipe: "autoattack-custom/1", Norm: new("linf"), Epsilons: []float64{4. / 255,
				8. / 255}, Components: []result.Component{
				{Kind: "apgd-ce", Parameters: result.Parameters{"steps": 100.}}, {Kind: "square",
					Parameters: result.Parameters{"queries": 5000.}}}},
	}
	layers := func() []result.Layer {
		return []result.Layer{
			{At: "input", Embedding: result.LayerEmbedding{Kind: "linear", Fit: "cifar10-train", Variance: 0.99}},
			{At: "2", Embedding: result.LayerEmbedding{Kind: "onnx", Path: "fcn-<32>.onnx",
				SHA256: strings.Repeat("e1", 32)}},
		}
	}
	msa := result.Parameters{"method": "msa", "outer": 3, "learning_rate": 0.003}
	f.Controls = map[string]result.Control{"pca": {Solver: msa, Layers: layers()},
		"auto_encoder": {Solver: result.Parameters{"method": "greedy"}, Layers: layers()}}
	addTraces(f)
	f.Gallery = fixtureGallery()
	return f
}

// records returns a line per image for the fixture's first suite and the one with curves.
func records(f *result.File) []result.Record {
	var out []result.Record
	for _, c := range f.Cells {
		if c.Suite != "real" && c.Suite != "curve" {
			continue
		}
		for i := range c.N {
			r := result.Record{ID: cell.Of(c.Suite, c.Model, c.Defense, c.Attack, c.Epsilon).In("", c.Mode), Image: i,
				Margin: result.Margin(c.Correct-i) / 20}
			start := 164 // images that the model is right on
			if c.Defense != "none" {
				start = 161
			}
			if c.Epsilon != 0 {
				clean := float64(start-i) / 20
				r.CleanMargin = &clean
			}
			switch {
			case c.Suite == "curve" && c.Epsilon != 0 && c.Defense == "none": // the last images break first
				d := nearest(c, i)
				r.Distance = new(result.Distance(d))
				if i >= start {
					r.Distance = nil
				} else if d > float64(c.Epsilon) {
					r.Verdict = 1
				} else {
					first, queries := i, 2*i+1
					r.Norm, r.FirstSuccess, r.Queries = d, &first, &queries
				}
			case i < c.Correct:
				r.Verdict = 1
			case c.Epsilon != 0 && i < start:
				first, queries := i%50, i%50+1
				r.Norm, r.FirstSuccess, r.Queries = float64(c.Epsilon), &first, &queries
			}
			out = append(out, r)
		}
	}
	return out
}

// nearest returns the smallest norm that breaks image i of the suite with curves: evenly spread, up to 12/255 in ℓ∞ and
// 1.64 in ℓ2.
func nearest(c result.Cell, i int) float64 {
	if *c.Norm == "l2" {
		return float64(164-i) / 100
	}
	return float64(164-i) / 164 * 12 / 255
}

// crowded makes a suite of five models and two controls with many axes and long names.
func crowded(epsilons int) *result.File {
	f := &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	s := result.Suite{Name: "crowded", Title: "Five models, two controls", Dataset: "cifar10-test", Mode: "oblivious",
		Controls: []string{"pca", "a-control-with-a-rather-long-name-that-goes-on"}, Attacks: []string{"aa-linf",
			"aa-l2", "aa-l1"}}
	var attacks []attacked
	for _, norm := range []string{"linf", "l2", "l1"} {
		for e := range epsilons {
			attacks = append(attacks, attacked{"aa-" + norm, norm, "autoattack-standard/1", float64(4*(e+1)) / 255})
		}
	}
	var correct [][][]int
	for m := range 5 {
		s.Models = append(s.Models, fmt.Sprintf("WRN-%d-8-with-a-rather-long-name-that-may-not-run-into-its-neighbour",
			10+m))
		var of [][]int
		for d := range 3 {
			row := []int{9471 - 100*m - 80*d}
			for a := range attacks {
				row = append(row, 10000*d/3+317*m+61*a)
			}
			of = append(of, row)
		}
		correct = append(correct, of)
	}
	addCells(f, s, 10000, attacks, correct)
	return f
}

// extreme is a white-box suite of so many models, controls and axes, whose names have about 60
// letters: accuracies from 0 to 100 %, and a cell that is missing.
func extreme(models, controls, axes int) *result.File {
	const name = "a-name-of-sixty-letters-whose-end-is-what-tells-it-from-other"
	f := &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	s := result.Suite{Name: "extreme", Title: "A suite of extremes, whose title is so long that it has to be broken",
		Dataset: "cifar10-test", Mode: "whitebox-through"}
	for i := range controls {
		s.Controls = append(s.Controls, fmt.Sprintf("%s-control-%d", name, i))
	}
	var attacks []attacked
	for i := range axes - 1 {
		a := attacked{fmt.Sprintf("aa-%d", i), []string{"linf", "l2", "l1"}[i%3], "autoattack-standard/1",
			float64(4*(i+1)) / 255}
		s.Attacks, attacks = append(s.Attacks, a.name), append(attacks, a)
	}
	var correct [][][]int
	for m := range models {
		s.Models = append(s.Models, fmt.Sprintf("%s-%d", name, m))
		of := make([][]int, controls+1)
		for d := range of {
			of[d] = []int{1000}
			for a := range attacks {
				k := max(0, d*1000/(controls+1)-31*a)
				if m == 1 && d == 1 && a == 1 {
					k = -1
				}
				of[d] = append(of[d], k)
			}
		}
		correct = append(correct, of)
	}
	addCells(f, s, 1000, attacks, correct)
	return f
}

// several makes a suite of so many models under one control. The i-th has 90 − 7·i right images of 100 under its worst
// attack, and under control as many more as it has attacks.
func several(models, attacks int) *result.File {
	f := &result.File{Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	s := result.Suite{Name: "s", Dataset: "d", Mode: result.Oblivious, Controls: []string{"pca"}}
	var all []attacked
	var correct [][][]int
	for a := range attacks {
		s.Attacks = append(s.Attacks, fmt.Sprint("a", a))
		all = append(all, attacked{s.Attacks[a], "linf", "", float64(a+1) / 255}) // each of a kind of its own
	}
	for m := range models {
		s.Models = append(s.Models, fmt.Sprintf("m%02d", m))
		alone, healed := []int{95}, []int{92}
		for a := range attacks {
			alone, healed = append(alone, 90-7*m-a+attacks-1), append(healed, 90-7*m-a+2*attacks-1)
		}
		correct = append(correct, [][]int{alone, healed})
	}
	addCells(f, s, 100, all, correct)
	return f
}

// hostile names have a meaning of their own in TeX, its tables or its fonts.
var hostile = []string{`a_b%$#&{}~^\`, scriptName, texName, "ε-∞-ℓ2-日本語-😀", `\input{/etc/passwd}\end{document}`,
	"[2pt] & \\\\ ^^M",
	"ÀÉÎÕÜßåæçñøÿ ÐÞðþ ªµº «»", "--- -- ``quotes'' ?` " +
		"!`", "a-name-of-more-than-sixty-letters-that-does-not-fit-one-column-of-a-table", strings.Repeat("n", 90)}

// hostileFile makes a result in which everything with a name has a hostile one.
func hostileFile() *result.File {
	f := &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	aa := "autoattack-standard/1"
	s := result.Suite{Name: hostile[0], Title: hostile[5], Dataset: hostile[2], Mode: "whitebox-through",
		Models: hostile, Controls: []string{hostile[1], hostile[3]}, Attacks: []string{hostile[4], "aa-l2", hostile[6]}}
	var correct [][][]int
	for range hostile {
		correct = append(correct, [][]int{{90, 10, 20, 30}, {85, 60, -1, 50}, {80, 70, 65, 55}})
	}
	addCells(f, s, 100, []attacked{{hostile[4], "linf", "", 8. / 255}, {"aa-l2", "l2", aa, 0.5},
		{hostile[6], hostile[7], "", 1e-7}}, correct)
	for i := range f.Cells {
		f.Cells[i].Warnings = append(f.Cells[i].Warnings, result.Warning{ID: hostile[i%len(hostile)],
			Message: hostile[(i+1)%len(hostile)]})
	}
	return f
}

// compareFixture is a suite beside the paper's Table 7: a network that was run under one
// attack with a control, one that the paper lacks, and one of the paper that was not run.
func compareFixture() *result.File {
	f := &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	s := result.Suite{Name: "table7", Title: "Table 7", Dataset: "cifar10-test", Mode: "whitebox-through",
		Models: []string{"rn-18-robust", "own"}, Controls: []string{"denoising"}, Attacks: []string{"pgd-20",
			"aa-linf"}}
	addCells(f, s, 1000, []attacked{{"pgd-20", "linf", "pgd/1", 8. / 255}, {"aa-linf", "linf", "autoattack-standard/1",
		8. / 255}},
		[][][]int{{{824, 480, 487}, {820, 560, -1}}, {{900, 0, 0}, {-1, -1, -1}}})
	norm, epsilon := "linf", 8./255
	p := &result.Published{Source: "table7", Mode: "whitebox"}
	for _, c := range []struct {
		model, defense, attack string
		accuracy               float64
	}{
		{"rn-18-robust", "none", "none", .8239}, {"rn-18-robust", "denoising", "none", .8234},
		{"rn-18-robust", "none", "pgd-20", .5166}, {"rn-18-robust", "denoising", "pgd-20", .5182},
		{"rn-18-robust", "denoising", "aa-linf", .4877},
		{"RN-34", "none", "none", .8445}, {"RN-34", "denoising", "none", .8412}, {"RN-34", "none", "pgd-linf", .5135},
	} {
		one := result.PublishedCell{Row: cell.Row{Model: c.model, Defense: c.defense},
			Column: cell.Column{Attack: c.attack}, Accuracy: c.accuracy}
		if c.attack != "none" {
			one.Norm, one.Epsilon = &norm, cell.Epsilon(epsilon)
		}
		p.Cells = append(p.Cells, one)
	}
	f.Suites[0].Published = p
	return f
}

// corruptedFile has two corruptions of all severities on a network with and without a control: four images, of which
// severity s gets 4 − (s+1)/2 right, and one more under the control.
func corruptedFile() *result.File {
	f := &result.File{Attacks: map[string]result.Attack{"c": {Kind: "corruption", Recipe: "corruption/1",
		Title: "2 of 15 corruptions", Parameters: result.Parameters{"names": []any{"fog", "jpeg_compression"},
			"severities": []any{1., 2., 3., 4., 5.}}}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Oblivious, Models: []string{"m"},
			Controls: []string{"heal"}, Attacks: []string{"c"}}}}
	add := func(defense, attack, recipe string, right int, alexnet float64) {
		f.Cells = append(f.Cells, result.Cell{ID: cell.Of("s", "m", defense, attack, 0).In("d", result.Oblivious),
			Recipe: recipe, AlexNetError: alexnet}.Judged(verdicts(4, right, 0)))
	}
	for i, defense := range []string{"none", "heal"} {
		add(defense, "none", "", 4, 0)
		for name, alexnet := range map[string]float64{"fog": 0.5, "jpeg_compression": 0.25} {
			for s := 1; s <= 5; s++ {
				add(defense, fmt.Sprintf("c:%s:%d", name, s), "corruption/1", 4-(s+1)/2+i, alexnet)
			}
		}
	}
	return f
}

// certifiedFile has a certificate at two radii and attacks in two norms, on four images of a network with and without a
// control, and the records of its radii.
func certifiedFile(attacked bool) (*result.File, iter.Seq[result.Record]) {
	l2, linf := "l2", "linf"
	f := &result.File{Attacks: map[string]result.Attack{
		"smooth": {Kind: "smoothing", Recipe: "smoothing/1", Title: "Smoothing, σ = 0.25", Norm: &l2,
			Epsilons: []float64{0.5, 0.25}, Parameters: result.Parameters{"alpha": 0.001}},
		"pgd": {Kind: "pgd", Recipe: "pgd/1", Title: "PGD-20", Norm: &l2, Epsilons: []float64{0.25, 1}},
		"far": {Kind: "pgd", Recipe: "pgd/1", Title: "PGD-20", Norm: &linf, Epsilons: []float64{2. / 255}}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Oblivious, Models: []string{"m"},
			Controls: []string{"heal"}, Attacks: []string{"smooth"}}}}
	if attacked {
		f.Suites[0].Attacks = []string{"pgd", "smooth", "far"}
	}
	radii := map[string][]float64{"none": {0, 0.1, 0.3, 0.6}, "heal": {0.1, 0.5, 0.5, 0.6}}
	var records []result.Record
	add := func(defense, attack string, norm *string, epsilon float64, right int, smoothed ...result.Smoothed) {
		c := result.Cell{ID: cell.Of("s", "m", defense, attack, 0).In("d", result.Oblivious), Norm: norm,
			Smoothed: smoothed}.Judged(verdicts(4, right, 0))
		if norm != nil {
			c.Epsilon, c.Recipe = cell.Epsilon(epsilon), f.Attacks[attack].Recipe
		}
		f.Cells = append(f.Cells, c)
		for i, r := range radii[defense] {
			one := result.Record{ID: cell.Of("s", "m", defense, attack, c.Epsilon), Image: i}
			if attack == "smooth" {
				one.Radius = &r
			}
			records = append(records, one)
		}
	}
	for _, defense := range []string{"none", "heal"} {
		add(defense, "none", nil, 0, 4)
		for _, r := range []float64{0.5, 0.25} {
			proven := 0
			for _, v := range radii[defense] {
				if v >= r {
					proven++
				}
			}
			add(defense, "smooth", &l2, r, proven)
		}
		if attacked {
			left := func(proven int, accuracy float64) result.Smoothed {
				return result.Smoothed{Certificate: "smooth", Proven: proven, Accuracy: accuracy}
			}
			add(defense, "pgd", &l2, 0.25, 2, left(2, 0.75))
			add(defense, "pgd", &l2, 1, 1, left(0, 0.5))
			add(defense, "far", &linf, 2./255, 3, left(1, 0.75))
		}
	}
	return f, slices.Values(records)
}

// boundedFile has certificates by bounds for the network that three attacks are made on.
func boundedFile() *result.File {
	l2, linf := "l2", "linf"
	attack := func(kind string, norm *string) result.Attack {
		return result.Attack{Kind: kind, Recipe: kind + "/1", Title: kind, Norm: norm, Epsilons: []float64{0.25, 0.5}}
	}
	f := &result.File{Attacks: map[string]result.Attack{"proof": attack("bounds", &l2), "weak": attack("pgd", &l2),
		"strong": attack("pgd", &l2), "other": attack("pgd", &linf)},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Whitebox, Models: []string{"m"},
			Attacks: []string{"weak", "proof", "strong", "other"}}}}
	for name, right := range map[string][2]int{"proof": {2, 0}, "weak": {4, 3}, "strong": {3, 2}, "other": {1, 1}} {
		for i, e := range f.Attacks[name].Epsilons {
			id := cell.Of("s", "m", "none", name, cell.Epsilon(e)).In("d", result.Whitebox)
			f.Cells = append(f.Cells, result.Cell{ID: id, Norm: f.Attacks[name].Norm, Recipe: f.Attacks[name].Recipe}.
				Judged(verdicts(4, right[i], 0)))
		}
	}
	return f
}

// seeded makes a suite whose attacked cells have three seeds. By the first seed the baseline is ahead, over all of them
// the control.
func seeded() *result.File {
	linf, eps := "linf", 8.0/255
	cell := func(defense, attack string, verdicts ...string) result.Cell {
		c := result.Cell{ID: cell.Of("s", "m", defense, attack, 0).In("d", "oblivious"), Seconds: 2}.Judged(verdicts[0])
		if attack != "none" {
			c.Norm, c.Epsilon, c.Recipe = &linf, cell.Epsilon(eps), "square/1"
			for i, v := range verdicts {
				n := strings.Count(v, "1")
				c.Seeds = append(c.Seeds, result.SeedScore{Seed: uint64(i), Correct: n, Accuracy: float64(n) / 10,
					Verdicts: v, Seconds: 2 + 10*float64(i)})
			}
		}
		return c
	}
	return &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{"d": {N: 10}},
		Models: map[string]result.Model{"m": {}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: "oblivious", Models: []string{"m"},
			Controls: []string{"c"}, Attacks: []string{"square"}}},
		Cells: []result.Cell{
			cell("none", "none", "1111111111"), cell("c", "none", "1111111110"),
			cell("none", "square", "1111100000", "1100000000", "1000000000"),
			cell("c", "square", "1111000000", "1111100000", "1110000001"),
		}}
}

// The reports are tested with results that a run may write: the published schemas hold for the fixtures, the paper's
// numbers and the studies among them.
func TestFixturesObeyTheSchemas(t *testing.T) {
	t.Parallel()
	ofResults, ofRecord, ofGallery := schemaFile(t, "results"), schemaFile(t, "records"), schemaFile(t, "gallery")
	lines, cases := 0, 0
	for name, f := range map[string]*result.File{"fixture": fixture(), "compared": compareFixture(),
		"study": studyFixture()} {
		// A run always writes these, and the fixtures leave them out.
		sum := strings.Repeat("5a", 32)
		f.ConfigSHA256 = sum
		for name, m := range f.Models {
			m.Output = "logits"
			f.Models[name] = m
		}
		if f.Attacks == nil {
			f.Attacks, f.Controls = map[string]result.Attack{}, map[string]result.Control{}
		}
		for i := range f.Cells {
			if f.Cells[i].Warnings == nil {
				f.Cells[i].Warnings = []result.Warning{}
			}
			if f.Cells[i].Steps == nil {
				f.Cells[i].Steps = []result.Step{}
			}
		}
		validate(t, name, ofResults, f)
		for _, r := range records(f) {
			validate(t, name+": a record", ofRecord, r)
			lines++
		}
		if f.Gallery != nil {
			f.Gallery.ConfigSHA256 = sum
			for i := range f.Gallery.Cases {
				f.Gallery.Cases[i].Mode = "oblivious"
			}
			validate(t, name+": its gallery", ofGallery, f.Gallery)
			cases += len(f.Gallery.Cases)
		}
	}
	if lines == 0 || cases == 0 {
		t.Errorf("%d records and %d cases of a gallery were looked at", lines, cases)
	}
}

func schemaFile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	f := must.Get(os.Open("../docs/schema/" + name + ".schema.json"))(t)
	defer f.Close()
	doc := must.Get(jsonschema.UnmarshalJSON(f))(t)
	c := jsonschema.NewCompiler()
	must.Do(t, c.AddResource(name+".json", doc))
	s := must.Get(c.Compile(name + ".json"))(t)
	return s
}

func validate(t *testing.T, name string, s *jsonschema.Schema, v any) {
	t.Helper()
	data := must.Get(json.Marshal(v))(t)
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = s.Validate(read)
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
