package reports

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"selfheal/harness/result"
)

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

// several is a suite of so many models under one control; the i-th has 90 − 7·i right images of 100 under its worst
// attack, and under control as many more as it has attacks.
func several(models, attacks int) *result.File {
	f := &result.File{Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	s := result.Suite{Name: "s", Dataset: "d", Mode: result.Oblivious, Controls: []string{"pca"}}
	var all []attacked
	var correct [][][]int
	for a := range attacks {
		s.Attacks = append(s.Attacks, fmt.Sprint("a", a))
		all = append(all, attacked{s.Attacks[a], "linf", "", float64(a+1) / 255})
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

// hostile names are those that TeX, its tables or its fonts take for something else.
var hostile = []string{`a_b%$#&{}~^\`, scriptName, texName, "ε-∞-ℓ2-日本語-😀", `\input{/etc/passwd}\end{document}`,
	"[2pt] & \\\\ ^^M",
	"ÀÉÎÕÜßåæçñøÿ ÐÞðþ ªµº «»", "--- -- ``quotes'' ?` " +
		"!`", "a-name-of-more-than-sixty-letters-that-does-not-fit-one-column-of-a-table", strings.Repeat("n", 90)}

// hostileFile is a result in which everything that has a name has a hostile one.
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
		one := result.PublishedCell{Model: c.model, Defense: c.defense, Attack: c.attack, Accuracy: c.accuracy}
		if c.attack != "none" {
			one.Norm, one.Epsilon = &norm, &epsilon
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
		f.Cells = append(f.Cells, result.Cell{Suite: "s", Dataset: "d", Model: "m", Defense: defense,
			Mode: result.Oblivious, Attack: attack, Recipe: recipe, N: 4, Correct: right, Accuracy: float64(right) / 4,
			Verdicts: strings.Repeat("1", right) + strings.Repeat("0", 4-right), CI95: [2]float64{0, 1},
			AlexNetError: alexnet})
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
		c := result.Cell{Suite: "s", Dataset: "d", Model: "m", Defense: defense, Mode: result.Oblivious, Attack: attack,
			Norm: norm, N: 4, Correct: right, Accuracy: float64(right) / 4, CI95: [2]float64{0, 1},
			Verdicts: strings.Repeat("1", right) + strings.Repeat("0", 4-right), Smoothed: smoothed}
		if norm != nil {
			c.Epsilon, c.Recipe = &epsilon, f.Attacks[attack].Recipe
		}
		f.Cells = append(f.Cells, c)
		for i, r := range radii[defense] {
			one := result.Record{Suite: "s", Model: "m", Defense: defense, Attack: attack, Epsilon: c.Epsilon, Image: i}
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

// boundedFile has certificates by bounds, of the very network that three attacks are made on.
func boundedFile() *result.File {
	l2, linf := "l2", "linf"
	attack := func(kind string, norm *string) result.Attack {
		return result.Attack{Kind: kind, Recipe: kind + "/1", Title: kind, Norm: norm, Epsilons: []float64{0.25, 0.5}}
	}
	f := &result.File{Attacks: map[string]result.Attack{"proof": attack("bounds", &l2), "weak": attack("pgd", &l2),
		"strong": attack("pgd", &l2), "other": attack("pgd", &linf)},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Oblivious, Models: []string{"m"},
			Attacks: []string{"weak", "proof", "strong", "other"}}}}
	for name, right := range map[string][2]int{"proof": {2, 0}, "weak": {4, 3}, "strong": {3, 2}, "other": {1, 1}} {
		for i, e := range f.Attacks[name].Epsilons {
			n := right[i]
			f.Cells = append(f.Cells, result.Cell{Suite: "s", Dataset: "d", Model: "m", Defense: "none",
				Mode: result.Oblivious, Attack: name, Norm: f.Attacks[name].Norm, Epsilon: &e, N: 4, Correct: n,
				Accuracy: float64(n) / 4, CI95: [2]float64{0, 1}, Recipe: f.Attacks[name].Recipe,
				Verdicts: strings.Repeat("1", n) + strings.Repeat("0", 4-n)})
		}
	}
	return f
}

// seeded is a suite whose attacked cells have three seeds. By its first one the baseline
// is ahead, over all of them the control.
func seeded() *result.File {
	linf, eps := "linf", 8.0/255
	cell := func(defense, attack string, verdicts ...string) result.Cell {
		c := result.Cell{Suite: "s", Dataset: "d", Model: "m", Defense: defense, Mode: "oblivious", Attack: attack,
			N: 10, Verdicts: verdicts[0]}
		c.Correct = strings.Count(verdicts[0], "1")
		c.Accuracy = float64(c.Correct) / 10
		c.CI95, c.Seconds = [2]float64{0.1, 0.9}, 2
		if attack != "none" {
			c.Norm, c.Epsilon, c.Recipe = &linf, &eps, "square/1"
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
