package figure

import (
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"

	"selfheal/control/theory"
	"selfheal/harness/cell"
	"selfheal/harness/compare"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
)

// everyKind is a suite with a control and an attack of every kind that has a figure, and its records.
func everyKind(mode string) (*result.File, []result.Record) {
	linf, l2 := "linf", "l2"
	f := &result.File{Attacks: map[string]result.Attack{
		"fab": {Kind: "fab-t", Recipe: "fab-t/1", Title: "FAB-T", Norm: &linf, Epsilons: []float64{2. / 255, 4. / 255}},
		"square": {Kind: "square", Recipe: "square/1", Norm: &linf, Epsilons: []float64{0.1},
			Parameters: result.Parameters{"queries": 9}},
		"p": {Kind: "patch", Recipe: "patch/1", Parameters: result.Parameters{"sides": []any{2., 4.}}},
		"fog": {Kind: "corruption", Parameters: result.Parameters{"names": []any{"fog", "snow"},
			"severities": []any{1.}}},
		"proof":  {Kind: "bounds", Title: "Bounds", Norm: &linf, Epsilons: []float64{2. / 255}},
		"smooth": {Kind: "smoothing", Title: "Smoothing", Norm: &l2, Epsilons: []float64{0.5}},
		"gap":    {Kind: "bracket", Title: "Bracket", Norm: &linf, Epsilons: []float64{2. / 255}}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: mode, Models: []string{"m"}, Controls: []string{"heal"},
			Attacks: []string{"fab", "square", "p", "fog", "proof", "smooth", "gap"}}}}
	var records []result.Record
	for _, defense := range []string{"none", "heal"} {
		for _, one := range []struct {
			attack  string
			norm    *string
			epsilon float64
			right   int
		}{{"none", nil, 0, 4}, {"fab", &linf, 2. / 255, 3}, {"fab", &linf, 4. / 255, 2}, {"square", &linf, 0.1, 2},
			{"p:2", nil, 0, 3}, {"p:4", nil, 0, 1}, {"fog:fog:1", nil, 0, 3}, {"fog:snow:1", nil, 0, 2},
			{"proof", &linf, 2. / 255, 1}, {"smooth", &l2, 0.5, 2}, {"gap", &linf, 0, 4}} {
			id := cell.Of("s", "m", defense, one.attack, cell.Epsilon(one.epsilon)).In("d", mode)
			c := result.Cell{ID: id, Norm: one.norm}.Judged("1111"[:one.right] + "0000"[one.right:])
			if c.Norm != nil {
				c.Recipe = f.Attacks[one.attack].Recipe
				c.Steps = []result.Step{{Attack: "apgd-ce", Robust: 0.75}, {Attack: "square", Robust: c.Accuracy}}
			}
			if one.attack == "none" || one.attack == "fab" {
				c.Measures = []result.Measure{{Name: "mean IoU", Value: c.Accuracy / 2}}
			}
			if one.attack == "gap" {
				c.Brackets = []result.Bracket{{Epsilon: 2. / 255, Proven: 2, Left: 3}}
			}
			if defense != "none" {
				c.Solver = &result.Solver{Method: "msa", Sweeps: []float64{2, 1}, Traced: 4,
					Layers: []result.SolverLayer{{At: "input", ControlNorm: 1}, {At: "last", ControlNorm: 100}}}
			}
			f.Cells = append(f.Cells, c)
			for i := range 4 {
				r := result.Record{ID: id, Image: i, Verdict: int(c.Verdicts[i] - '0')}
				switch distance := float64(4-i) * 1.2 / 255; {
				case one.attack == "smooth":
					r.Radius = new(0.3 * float64(i))
				case one.attack == "gap":
					r.Proven, r.Broken = new(float64(i)/255), new(result.Distance(float64(i+1)/255))
				case c.Norm != nil && r.Verdict == 0:
					r.FirstSuccess, r.Queries, r.Distance = new(i), new(i+1), new(result.Distance(distance))
				}
				records = append(records, r)
			}
		}
	}
	return f, records
}

// whole fails the test unless both forms of a sheet can be drawn and are well-formed.
func whole(t *testing.T, name string, s chart.Sheet) {
	t.Helper()
	var svg strings.Builder
	must.Do(t, s.WriteSVG(&svg))
	for d := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if s.Drawing() == "" || s.Alt == "" {
		t.Errorf("%s has no drawing or no description", name)
	}
}

// Each kind of attack has its figure, whose description has the numbers.
func TestEveryKindIsDrawn(t *testing.T) {
	f, records := everyKind(result.WhiteboxThrough)
	v := view.Of(f)
	v.AddMargins(slices.Values(records))
	want := map[string]string{
		"radar-s": "Clean 100.0, FAB-T ℓ∞ (2/255) 75.0, FAB-T ℓ∞ (4/255) 50.0", "curve-s": "proven 50.0 of 75.0",
		"waterfall-s":   "Clean 100.0, APGD-CE 75.0, Square 50.0",
		"control-s":     "Control: s. Norm ‖u_t‖ of the control at each layer",
		"corruptions-s": "m, heal: Fog 75.0, Snow 50.0, Mean 62.5.",
		"measures-s": "m, heal: Clean mean IoU 0.5, FAB-T ℓ∞ (2/255) mean IoU 0.375, " +
			"FAB-T ℓ∞ (4/255) mean IoU 0.25",
		"certified-s": "m, undefended, smooth: 75.0 at 0, 75.0 at 0.225, 50.0 at 0.45",
		"queries-s":   "m, heal, Square ℓ∞ (0.1), 100.0 at 0",
		"sides-s":     "m, undefended, 100.0 at 0, 75.0 at 2, 25.0 at 4.",
		"bracket-s":   "m, undefended, Bracket, 75.0 to 100.0 at 0, 50.0 to 75.0 at 1/255",
	}
	for name, sheet := range Files(v.Suites[0]) {
		if !strings.Contains(sheet.Alt, want[name]) || want[name] == "" {
			t.Errorf("%s: %s\nlacks %q", name, sheet.Alt, want[name])
		}
		delete(want, name)
		whole(t, name, sheet)
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
	for _, group := range Page(v.Suites[0], true) {
		for _, sheet := range group {
			whole(t, "page", sheet)
		}
	}
}

// The first screen compares models over each other or, if there are many, as bars.
func TestFirstScreen(t *testing.T) {
	one, _ := everyKind(result.Oblivious)
	for models, begins := range map[int]string{1: "Bars of accuracy", 3: "Bars of all", 8: "Bars of all models"} {
		f := &result.File{Attacks: one.Attacks, Suites: slices.Clone(one.Suites)}
		f.Suites[0].Models = nil
		for m := range models {
			for _, c := range one.Cells {
				c.Model = string(rune('a' + m))
				f.Cells = append(f.Cells, c)
			}
		}
		for _, sheet := range Overview(view.Of(f)) {
			if whole(t, begins, sheet); !strings.HasPrefix(sheet.Alt, begins) {
				t.Errorf("%d models: %s", models, sheet.Alt)
			}
		}
	}
	for _, sheet := range Paper(view.Paper()) {
		whole(t, "paper", sheet)
	}
}

// In mode transfer a square is a network's accuracy on the images made on another.
func TestTransferSquares(t *testing.T) {
	var cells []result.Cell
	for i, source := range []string{"a", "b"} {
		for k, model := range []string{"a", "b"} {
			id := cell.Of("s", model, "none", "pgd", 0.1).In("d", result.Transfer)
			id.Source = source
			cells = append(cells, result.Cell{ID: id, N: 4, Norm: new("linf"), Accuracy: 0.25 * float64(i+2*k)})
		}
	}
	s := view.Of(&result.File{Cells: cells, Attacks: map[string]result.Attack{"pgd": {Kind: "pgd", Norm: new("linf")}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Transfer, Models: []string{"a", "b"}}}}).Suites[0]
	sheet := figures[result.TransferFigure].file(s)
	whole(t, "transfer", sheet)
	must.Have(t, sheet.Alt, "a 50.0, b 75.0")
}

// The studies and runs of docs/ and the theory's experiments are drawn.
func TestCommittedRuns(t *testing.T) {
	study := must.Get(result.Read("../../docs/paper/rn-18/solver/results.json"))(t)
	for _, s := range view.Of(study).Suites {
		for name, sheet := range Files(s) {
			whole(t, name, sheet)
		}
		whole(t, "study", figures[result.SolverFigure].file(s))
	}
	before := must.Get(result.Read("../../docs/paper/rn-18/robust-200/results.json"))(t)
	now := *before
	now.Created, now.ConfigSHA256 = before.Created.AddDate(0, 0, 1), "later"
	c := must.Get(compare.Of([]compare.Run{{Folder: "a", Path: "/a", File: before},
		{Folder: "b", Path: "/b", File: &now}}))(t)
	for _, g := range view.Groups(c) {
		if f := Scatter(g, true); f.Panels != nil {
			whole(t, "scatter", f)
		}
		for _, f := range Histories(g) {
			whole(t, "history", f)
		}
	}
	r := must.Get(theory.Run(t.Context(), theory.Options{Quick: true}))(t)
	for _, f := range Theory(r) {
		whole(t, f.Slug, f.Sheet())
	}
}
