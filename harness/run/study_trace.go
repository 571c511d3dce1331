package run

import (
	"context"
	"math"

	"selfheal/control"
	"selfheal/harness/folder"
	"selfheal/harness/result"
	"selfheal/internal/number"
)

// reading is what one image's trace shows at a point.
type reading struct {
	objective     float64
	right, finite bool
}

// followed are a solver's curves and outcomes on every image of every kind.
type followed struct {
	Curves []result.SolverCurve
	Run    result.SolverRun
}

// follow traces a solver on every image of every kind: its curves, a point a reading, and its outcomes.
func (s *solverStudy) follow(with control.Solver, d control.Detail) ([]result.SolverCurve, result.SolverRun, error) {
	key := s.key
	key.Solver, key.Number = new(settings(with)), int(d)
	got, err := folder.OnceTimed(s.journal, key, func() (f followed, err error) {
		own, err := s.loop()
		if err != nil {
			return f, err
		}
		loop, err := own.WithSolver(with)
		if err != nil {
			return f, err
		}
		f.Run = result.SolverRun{Settings: settings(with), Passes: loop.Passes()}
		for _, sample := range s.samples {
			at, readings, err := s.trace(loop, 2*own.State, sample, d) // a point's look keeps as much as the loop
			if err != nil {
				return f, err
			}
			f.Curves = append(f.Curves, result.SolverCurve{Images: sample.kind, Settings: f.Run.Settings,
				Points: points(at, readings)})
			f.Run.Outcomes = append(f.Run.Outcomes, outcome(sample.kind, at, readings))
		}
		return f, nil
	})
	if err == nil {
		s.seconds += got.Seconds
		s.say(got.Value.Run)
	}
	return got.Value.Curves, got.Value.Run, err
}

// trace follows a loop on images, each of which keeps so much state, in bytes. It returns the points, which are alike
// for all images except for the numbers read there, and the readings by image and point.
func (s *solverStudy) trace(loop *control.Controller, state int64, of sample, d control.Detail) ([]control.Point,
	[][]reading, error) {
	var at []control.Point
	readings := make([][]reading, s.set.Len())
	err := s.ForEach(s.ctx, len(readings), state, func(ctx context.Context, i int) error {
		im, x, err := of.made.read(s.set, i)
		if err != nil {
			return err
		}
		return loop.Trace(ctx, x, d, func(p control.Point) error {
			v, finite := decide(p.Logits, im.Label)
			finite = finite && number.Finite(p.Objective)
			readings[i] = append(readings[i], reading{p.Objective, finite && v.Right, finite})
			if i == 0 {
				p.Controls, p.Logits = nil, nil // only numbers are kept
				at = append(at, p)
			}
			return nil
		})
	})
	return at, readings, err
}

// points sums up the readings over the images, point by point.
func points(at []control.Point, readings [][]reading) []result.SolverPoint {
	out := make([]result.SolverPoint, len(at))
	for k, p := range at {
		right := howMany(readings, func(image []reading) bool { return image[k].right })
		out[k] = result.SolverPoint{Sweep: p.Sweep, Layer: p.Layer, Step: p.Step, Done: p.Done, Passes: p.Passes,
			Mean: meanObjective(readings, k), Correct: right, Accuracy: float64(right) / float64(len(readings))}
	}
	return out
}

// meanObjective is the mean of the objective at a point, with its standard error.
func meanObjective(readings [][]reading, k int) result.Mean {
	n, sum, squares := float64(len(readings)), 0.0, 0.0
	for _, image := range readings {
		if !image[k].finite {
			return result.Mean{}
		}
		sum += image[k].objective
	}
	m := sum / n
	for _, image := range readings {
		squares += (image[k].objective - m) * (image[k].objective - m)
	}
	e := 0.0
	if n > 1 {
		e = math.Sqrt(squares / (n - 1) / n)
	}
	if !number.Finite(m) || !number.Finite(e) { // the sums overflow
		return result.Mean{}
	}
	return result.Mean{Objective: &m, StandardError: e}
}

// rounding is by how much, relatively, a sweep may raise an image's objective and still
// count as not raising it: what float32 states can't avoid.
const rounding = 1e-6

// outcome is a solver's over the images of a kind.
func outcome(kind string, at []control.Point, readings [][]reading) result.SolverOutcome {
	var o result.SolverOutcome
	var sweeps []int // the points at which one is complete
	for k, p := range at {
		if p.Done {
			sweeps = append(sweeps, k)
			o.Sweeps = append(o.Sweeps, meanObjective(readings, k))
		}
	}
	last := len(at) - 1
	share := func(holds func(image []reading) bool) float64 {
		return float64(howMany(readings, holds)) / float64(len(readings))
	}
	o.BelowGreedy = share(func(image []reading) bool {
		return image[last].finite && image[last].objective < image[0].objective
	})
	o.NonIncreasing = share(func(image []reading) bool {
		falls := image[0].finite
		for i, k := range sweeps[1:] {
			falls = falls && image[k].finite && image[k].objective <= image[sweeps[i]].objective*(1+rounding)
		}
		return falls
	})
	o.NotFinite = share(func(image []reading) bool { return !image[last].finite })
	o.Score = score(kind, howMany(readings, func(image []reading) bool { return image[last].right }), len(readings))
	return o
}
