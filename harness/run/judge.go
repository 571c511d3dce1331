package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/number"
)

// verdicts asks a classifier of a job about the images made of a set. It leaves out those that the journal holds under
// key. clean are the classifier's verdicts on the clean images, which it uses for images that no attack broke; nil if
// there are none. If sweeps are asked for, it follows the first images from sweep to sweep.
func (r *run) verdicts(b *open.Job, key folder.Key, who open.Classifier, set open.Images, made *crafted,
	clean *judgement, sweeps bool) (*judgement, error) {
	out := newJudgement(set.Len(), who.Info)
	untried := func(i int) bool { return clean != nil && made.Untried(i) }
	for i := range out.verdicts {
		if untried(i) {
			out.same(i, clean)
		}
	}
	images := set.Places(func(i int) bool { return !untried(i) })
	work, todo, err := folder.Recall(r.journal, key, set, images, func(i int, v judge.Verdict) bool {
		fits := out.fits(v)
		if fits {
			out.take(i, v)
		}
		return fits
	})
	if err != nil {
		return out, err
	}
	ask := func(ctx context.Context, im attacks.Image, i int) (v judge.Verdict, err error) {
		want := judge.WithCosts
		if sweeps && i < traced {
			want = judge.WithSweeps
		}
		x, err := made.Image(im, i)
		if err == nil {
			v, err = judge.Judge(ctx, who, im, x, made.within, want)
		}
		switch {
		case errors.As(err, new(plan.Outside)):
			err = fmt.Errorf("image %d: %w", set.ID(i), err)
		case v.Broken: // its numbers cannot be written
			v = judge.Verdict{Broken: true}
		}
		return v, err
	}
	err = work.Do(r.ctx, todo, b.Over(who.State()), ask)
	out.seconds = work.Seconds()
	if i := slices.IndexFunc(out.verdicts, func(v judge.Verdict) bool { return v.Broken }); i >= 0 && err == nil {
		err = open.NotFinite{Who: who.Info, Image: set.ID(i)}
	}
	return out, err
}

// traced is how many images of each cell have the solver's sweeps recorded. Each sweep costs such an image one more
// pass.
const traced = 8

// judgement is a classifier's verdicts on images, and how long it took to get them.
type judgement struct {
	verdicts []judge.Verdict // without their Loop
	seconds  float64

	// The numbers of a closed loop, kept in memory for all images.
	stages []int       // of the layers
	rows   [][]float64 // by image: objective, greedy, norm, and each layer's norm and loss
	sweeps [traced][]number.Any
}

func newJudgement(n int, who open.Info) *judgement {
	j := &judgement{verdicts: make([]judge.Verdict, n)}
	if c := who.Control; c != nil {
		j.stages, j.rows = slices.Sorted(maps.Keys(c.Places)), make([][]float64, n)
	}
	return j
}

// fits reports whether a verdict has the numbers of the loop.
func (j *judgement) fits(v judge.Verdict) bool {
	return v.Broken || j.rows == nil || v.Loop != nil && len(v.Loop.Layers) == len(j.stages)
}

func (j *judgement) take(i int, v judge.Verdict) {
	if s := v.Loop; s != nil && j.rows != nil {
		row := append(make([]float64, 0, 3+2*len(s.Layers)), s.Objective, s.Greedy, s.Norm)
		for _, l := range s.Layers {
			row = append(row, l.Norm, l.Loss)
		}
		if j.rows[i] = row; i < traced {
			j.sweeps[i] = s.Sweeps
		}
	}
	v.Loop = nil
	j.verdicts[i] = v
}

func (j *judgement) same(i int, as *judgement) {
	if j.verdicts[i] = as.verdicts[i]; j.rows != nil {
		j.rows[i] = as.rows[i]
	}
	if i < traced {
		j.sweeps[i] = as.sweeps[i]
	}
}

// summary returns the closed loop's means over a cell's images.
func (j *judgement) summary(c *open.ControlInfo) *result.Solver {
	s := &result.Solver{Method: c.Solver.Method.String(), PassesPerRun: c.Passes}
	n := float64(len(j.rows))
	costs := make([]control.LayerCost, len(j.stages))
	for _, row := range j.rows {
		objective, greedy := row[0], row[1]
		s.Objective += objective
		s.Greedy += greedy
		s.ControlNorm += row[2]
		if objective < greedy {
			s.BelowGreedy++
		}
		for i := range costs {
			costs[i].Norm += row[3+2*i] / n
			costs[i].Loss += row[4+2*i] / n
		}
	}
	s.Objective, s.Greedy, s.ControlNorm, s.BelowGreedy = s.Objective/n, s.Greedy/n, s.ControlNorm/n, s.BelowGreedy/n
	for i, t := range j.stages {
		costs[i].T = t
	}
	s.Layers = c.Layers(costs)
	s.Sweeps, s.Traced = j.meanSweeps()
	return s
}

// meanSweeps returns the mean objective at the greedy start and after each sweep over the n images that were
// followed. It is nil if there are none, or if the solver became infinite on the way.
func (j *judgement) meanSweeps() (means []float64, n int) {
	for _, sweeps := range j.sweeps {
		if sweeps == nil {
			break
		}
		n++
		if means == nil {
			means = make([]float64, len(sweeps))
		}
		for k, sweep := range sweeps {
			means[k] += float64(sweep)
		}
	}
	for k := range means {
		if means[k] /= float64(n); !number.Finite(means[k]) {
			return nil, 0
		}
	}
	return means, n
}
