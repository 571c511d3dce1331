package reports

import (
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
)

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

// Certificates are no columns beside attacks: they have a table with what attacks leave, a figure and lines of the CSV
// file.
func TestCertificatesStandApart(t *testing.T) {
	f, records := certifiedFile(true)
	v := derive(f)
	v.addMargins(records)
	s := v.Suites[0]
	want := []string{"None", "PGD ℓ2 (0.25)", "PGD ℓ2 (1)", "PGD ℓ∞ (2/255)"}
	if heads := s.heads(); !slices.Equal(heads, want) || s.Missing() != 0 {
		t.Errorf("columns %v, %d missing", heads, s.Missing())
	}
	text := strings.ReplaceAll(markdown(t, v), nbsp, " ")
	for _, want := range []string{
		"| Model | Defense | ℓ2 (0.25) | ℓ2 (0.5) | ℓ2 (1) | ℓ∞ (2/255) ⊂ | Mean radius |",
		"| m | baseline | \\[50.0, 75.0\\] | 25.0 | \\[0.0, 50.0\\] | \\[25.0, 75.0\\] | 0.25 |",
		"|  | heal | \\[75.0, 75.0\\] | 75.0 |",
		"Smoothing, σ = 0.25. The smoothed classifier",
		"⊂: by inclusion.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	var csv strings.Builder
	if err := renderCSV(&csv, v); err != nil || strings.Count(csv.String(), "\n") != 1+2*(4+2) ||
		!strings.Contains(csv.String(), "s,d,m,heal,oblivious,smooth,l2,0.5,4,3,0.75,") {
		t.Errorf("%v, %s", err, csv.String())
	}
	c := s.certified[0].curve("m", "none")
	if !slices.Equal(c.Steps, []point{{0, 0.75}, {0.1, 0.5}, {0.3, 0.25}, {0.6, 0}}) ||
		!slices.Equal(c.Points, []point{{0.25, 0.5}, {0.5, 0.25}}) || c.end() != 0.6 {
		t.Errorf("the curve is %+v", c)
	}
	for _, p := range c.Points { // a cell is on the line: at its radius all that reach it count
		if at := c.at(math.Nextafter(p.Epsilon, 0)); at != p.Accuracy {
			t.Errorf("at %v the curve is %v, the cell %v", p.Epsilon, at, p.Accuracy)
		}
	}
	sheet := fullCertified(s)
	if len(sheet.Panels) != 1 || !strings.Contains(sheet.Alt, "heal, smooth: 100.0 at 0") {
		t.Errorf("%d panels: %s", len(sheet.Panels), sheet.Alt)
	}
	if f := fullCertified(derive(fixture()).Suites[0]); f.Panels != nil {
		t.Error("a figure of no certificates")
	}
}

// A suite of certificates alone, and one without records, are reported too.
func TestCertificatesAlone(t *testing.T) {
	f, records := certifiedFile(false)
	v := derive(f)
	text := strings.ReplaceAll(markdown(t, v), nbsp, " ")
	for _, want := range []string{"| Model | Defense | ℓ2 (0.25) | ℓ2 (0.5) | Mean radius |",
		"| m | baseline | 50.0 | 25.0 | – |"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "Left by attacks") || strings.Contains(text, "by inclusion") {
		t.Error("it speaks of attacks")
	}
	if err := Write(t.TempDir(), f, records, nil); err != nil {
		t.Error(err)
	}
}

// Certificates by bounds are of the very classifiers that attacks are made on: a bracket has the least that those leave
// in its ball, and curves have it too.
func TestBracketsOfBounds(t *testing.T) {
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
	v := derive(f)
	got := strings.ReplaceAll(markdown(t, v), nbsp, " ")
	for _, want := range []string{"| Model | Defense | ℓ2 (0.25) | ℓ2 (0.5) |",
		"| m | baseline | \\[50.0, 75.0\\] | \\[0.0, 50.0\\] |", "On a proven image no perturbation"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "Mean radius") || strings.Contains(got, "smoothed") {
		t.Error("it speaks of smoothing")
	}
	s := v.Suites[0]
	for _, c := range s.Curves() {
		under := s.provenUnder(c, c.Lines[0])
		if want := map[string]int{"l2": 2}[c.Attack.norm]; len(under.X) != want {
			t.Errorf("%s has %d brackets", c.Attack.Title(), len(under.X))
		} else if want > 0 && (under.Low[0] != 0.5 || under.Low[1] != 0 || under.High[0] < under.Low[0]) {
			t.Errorf("brackets from %v to %v", under.Low, under.High)
		}
	}
	if f := fullCurves(s); !slices.Contains(f.Head, provenBelow) || !strings.Contains(f.Alt, "proven 50.0 of 75.0") {
		t.Errorf("%v, %s", f.Head, f.Alt)
	}
	if f := fullCertified(s); f.Panels != nil {
		t.Error("a figure of radii, of which there are none")
	}
	if err := Write(t.TempDir(), f, nil, nil); err != nil {
		t.Error(err)
	}
}
