package reports

import (
	"math"
	"slices"

	"selfheal/harness/result"
)

// fixtureStudy is a study whose objectives are reached·2^−sweep above 1: greedy starts at
// 5, msa halves the distance to 1 with a sweep and pmp in six. At the default rate the
// objective is no number after the first sweep. Without an attack the images are clean.
func fixtureStudy(model string, attacked bool) result.SolverStudy {
	own := result.SolverSettings{Method: "msa", Outer: 3, Inner: 2, Regularization: 0.001, LearningRate: 0.003,
		Momentum: 0.5}
	s := result.SolverStudy{Suite: "real", Dataset: "cifar10-test", Model: model, Control: "pca", N: 20, Solver: own,
		Defaults: result.SolverSettings{Method: "msa", Outer: 3, Inner: 10, Regularization: 0.001, LearningRate: 0.05,
			Momentum: 0.5}, Seconds: 12.5}
	kinds := []string{result.CleanImages}
	if attacked {
		e := 8. / 255
		s.Attack, s.Norm, s.Epsilon, s.Recipe = "pgd", "linf", &e, "pgd/1"
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

// studyFixture is the fixture's first suite with two studies, one of an awkward name.
func studyFixture() *result.File {
	f := fixture()
	f.Suites = slices.DeleteFunc(f.Suites, func(s result.Suite) bool { return s.Name != "real" })
	f.Cells = slices.DeleteFunc(f.Cells, func(c result.Cell) bool { return c.Suite != "real" })
	f.Solver = []result.SolverStudy{fixtureStudy("resnet-2b", true), fixtureStudy(scriptName, false)}
	return f
}
