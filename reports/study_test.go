package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/figure"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
)

// fixtureStudy is a study whose objectives are reached·2^−sweep above 1: greedy starts at 5, msa halves the distance to
// 1 in one sweep and pmp in six. At the default rate the objective is NaN after the first sweep. Without an attack the
// images are clean.
func fixtureStudy(model string, attacked bool) result.SolverStudy {
	own := result.SolverSettings{Method: "msa", Outer: 3, Inner: 2, Regularization: 0.001, LearningRate: 0.003,
		Momentum: 0.5}
	s := result.SolverStudy{Job: cell.Job{Suite: "real", Dataset: "cifar10-test", Model: model},
		Control: "pca", N: 20, Solver: own,
		Defaults: result.SolverSettings{Method: "msa", Outer: 3, Inner: 10, Regularization: 0.001, LearningRate: 0.05,
			Momentum: 0.5}, Seconds: 12.5}
	kinds := []string{result.CleanImages}
	if attacked {
		e := 8. / 255
		s.Attack, s.Norm, s.Epsilon, s.Recipe = "pgd", "linf", cell.Epsilon(e), "pgd/1"
		kinds = append(kinds, result.AdversarialImages)
	}
	number := func(v float64) *float64 { return &v }
	score := func(kind string, right int) result.Score {
		if kind == result.AdversarialImages {
			right -= 6
		}
		return result.Score{Images: kind, Correct: right, Accuracy: float64(right) / 20}
	}
	at := func(sweeps float64) result.Mean {
		return result.Mean{Objective: number(1 + 4*math.Pow(2, -sweeps)), StandardError: 0.25}
	}
	for _, kind := range kinds {
		s.Baseline = append(s.Baseline, score(kind, 19))
	}
	point := func(kind string, sweep, layer, step int, passes, sweeps float64, done bool,
		right int) result.SolverPoint {
		c := score(kind, right)
		return result.SolverPoint{Sweep: sweep, Layer: layer, Step: step, Done: done, Passes: passes, Mean: at(sweeps),
			Correct: c.Correct, Accuracy: c.Accuracy}
	}
	for _, m := range []string{"greedy", "msa", "pmp", "default"} {
		for _, kind := range kinds {
			c := result.SolverCurve{Images: kind, Settings: own,
				Points: []result.SolverPoint{point(kind, 0, -1, 0, 2.5, 0, true, 15)}}
			switch c.Settings.Method = m; m {
			case "greedy":
				c.Settings = result.SolverSettings{Method: m, Regularization: own.Regularization}
			case "msa":
				for k := 1; k <= 6; k++ {
					c.Points = append(c.Points, point(kind, (k+1)/2, 0, 2-k%2, 2.5+6*float64(k), float64(k)/2, k%2 == 0,
						15+k/3))
				}
			case "default":
				c.Default, c.Settings = true, own
				c.Settings.LearningRate = 0.05
				c.Points = append(c.Points, point(kind, 1, 0, 1, 8.5, 1, false, 14),
					point(kind, 1, 0, 2, 14.5, 2, true, 6))
				c.Points[2].Mean = result.Mean{}
			case "pmp":
				c.Settings.Outer, c.Settings.Inner = 6, 1
				for k := 1; k <= 6; k++ {
					c.Points = append(c.Points, point(kind, k, 0, 1, 2.5+20*float64(k), float64(k)/6, true, 15))
				}
			}
			s.Curves = append(s.Curves, c)
		}
	}
	run := func(why string, value float64, passes float64, end float64, change func(s *result.SolverSettings)) {
		r := result.SolverRun{Why: why, Value: value, Settings: own, Passes: passes}
		change(&r.Settings)
		r.Own = r.Settings == own
		for _, kind := range kinds {
			o := result.SolverOutcome{Score: score(kind, 17), BelowGreedy: 0.95, NonIncreasing: 0.9}
			for k := range r.Settings.Outer + 1 {
				m := at(end * float64(k) / float64(r.Settings.Outer))
				if end < 0 && k > 0 {
					m = result.Mean{}
					o.BelowGreedy, o.NonIncreasing, o.NotFinite, o.Score = 0, 0, 1, score(kind, 6)
				}
				o.Sweeps = append(o.Sweeps, m)
			}
			r.Outcomes = append(r.Outcomes, o)
		}
		s.Runs = append(s.Runs, r)
	}
	run(result.OwnSolver, 0, 38.5, 3, func(*result.SolverSettings) {})
	run(result.DefaultRate, 0, 38.5, -1, func(s *result.SolverSettings) { s.LearningRate = 0.05 })
	for _, outer := range []int{1, 3, 7} {
		run(result.SetOuter, float64(outer), 2.5+12*float64(outer), float64(outer),
			func(s *result.SolverSettings) { s.Outer = outer })
	}
	for _, rate := range []float64{0.003, 0.05} {
		end := 3.
		if rate > 0.01 {
			end = -1
		}
		run(result.SetLearningRate, rate, 38.5, end, func(s *result.SolverSettings) { s.LearningRate = rate })
	}
	s.Costs = []result.SolverCost{{Method: "none", Passes: 1, Milliseconds: 0.8, Images: 10},
		{Method: "greedy", Passes: 2.5, Milliseconds: 2.1, Images: 10},
		{Method: "msa", Passes: 38.5, Milliseconds: 40.8, Images: 10}, {Method: "pmp", Passes: 122.5, Milliseconds: 131,
			Images: 10}}
	return s
}

// studyFixture is the fixture's first suite with two studies, one of them with an awkward name.
func studyFixture() *result.File {
	f := fixture()
	f.Suites = slices.DeleteFunc(f.Suites, func(s result.Suite) bool { return s.Name != "real" })
	f.Cells = slices.DeleteFunc(f.Cells, func(c result.Cell) bool { return c.Suite != "real" })
	f.Solver = []result.SolverStudy{fixtureStudy("resnet-2b", true), fixtureStudy(scriptName, false)}
	return f
}

// A study's figure has two panels for each study and kind of images, whose lines are the curves, and leaves the places
// of images that a study lacks.
func TestStudyFigure(t *testing.T) {
	t.Parallel()
	f := studyFixture()
	all := view.Of(f).Suites[0].Studies
	drawing := figure.Study("Solver", all...)
	if len(drawing.Panels) != 2*4 || drawing.Columns != 4 || drawing.Panels[5].Series == nil ||
		drawing.Panels[6].X != "" {
		t.Fatalf("%d panels in %d columns", len(drawing.Panels), drawing.Columns)
	}
	var lines []string
	for _, s := range slices.Concat(drawing.Panels[2].Series, drawing.Panels[3].Series) { // on adversarial images
		if s.Line {
			lines = append(lines, fmt.Sprintf("%s %v %.3g", s.Label, s.X, s.Y))
		} else if s.Low != nil && (len(s.Low) != len(s.Y) || s.Low[0] != s.Y[0]-0.25 || s.High[0] != s.Y[0]+0.25) {
			t.Errorf("%s: error bars %v to %v about %v", s.Label, s.Low, s.High, s.Y)
		}
	}
	for _, want := range []string{"msa at the default rate [2.5 8.5] [5 3]", "greedy [2.5 122.5] [5 5]",
		"msa [2.5 8.5 14.5 20.5 26.5 32.5 38.5] [5 3.83 3 2.41 2 1.71 1.5]", "undefended [1 122.5] [65 65]",
		"msa [2.5 8.5 14.5 20.5 26.5 32.5 38.5] [45 45 45 50 50 50 55]"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %s in %q", want, lines)
		}
	}
	f.Solver[0].Curves[2].Points[3].Objective = nil // msa on clean images
	if !slices.ContainsFunc(figure.Study("Solver", all...).Panels[0].Series,
		func(s chart.Series) bool { return s.Label == "msa" && s.Line && len(s.X) == 3 }) {
		t.Error("the line of a diverging solver does not end where it does")
	}
}

// An objective is drawn by its difference from the greedy start, and its table says so.
func TestTracedObjective(t *testing.T) {
	t.Parallel()
	v := arranged(fixture(), nil)
	panel := figure.Traces(v.Suites[0].Suite).Panels[1]
	if got := panel.Series[0].Y; !slices.Equal(got, []float64{0, -0.5, -0.75, -0.875}) || panel.Box[1] != -0.875 ||
		panel.Box[3] != 0 {
		t.Errorf("the objective is drawn at %v, in %v", got, panel.Box)
	}
}

// A study's sentences say that a sweep rises, and that the control has the default rate; for others see the goldens.
func TestStudySentences(t *testing.T) {
	t.Parallel()
	s := fixtureStudy("m", false)
	s.Runs[0].Outcomes[0].Sweeps[1].Objective = new(9.)
	s.Defaults = s.Solver
	must.Have(t, strings.Join(view.Study{SolverStudy: &s}.Sentences(), "\n"), "own rate and momentum, the default "+
		"ones (0.003, 0.5): on clean images the mean objective goes from 5 to 1.5, not falling with every sweep")
}
