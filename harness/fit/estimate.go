package fit

import (
	"context"
	"time"

	"selfheal/control/train"
	"selfheal/harness/config"
	"selfheal/harness/plan"
)

// Estimated is a training whose embedding is absent, with the steps and seconds left.
type Estimated struct {
	Fitted
	Why string // why it could not be timed; "" if it was
}

// timed is how long the steps of a training are timed, after a first step.
const timed = 2 * time.Second

// Estimate times a few steps of every training of a control whose embedding is absent. It subtracts the steps that a
// checkpoint has, and writes nothing.
func Estimate(ctx context.Context, cfg *config.Config, name string) ([]Estimated, error) {
	f, err := newFitter(ctx, cfg, Options{Control: name})
	if err != nil {
		return nil, err
	}
	defer f.close()
	f.timing = true
	var all []Estimated
	for i, l := range f.control.Layers {
		t := l.Embedding.Training
		if t == nil || t.IsAlong ||
			!f.absent(l.Embedding) && (t.Along == nil || !plan.Absent(f.Config.Files, t.Along.Path)) {
			continue
		}
		groups, err := f.groups(i, l.Embedding.Training)
		for _, g := range groups {
			e := Estimated{Fitted: g}
			if err := f.estimate(ctx, i, l.Embedding.Training, &e); err != nil {
				e.Why = err.Error()
			}
			if all = append(all, e); ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		if err != nil {
			all = append(all, Estimated{Fitted: Fitted{Path: l.Embedding.Path}, Why: err.Error()})
		}
	}
	return all, nil
}

// absent reports whether an embedding is to be trained and its file is missing.
func (f *fitter) absent(e config.Embedding) bool {
	return e.Training != nil && plan.Absent(f.Config.Files, e.Path)
}

// estimate times a training. Embeddings before its own that are not fitted yet are left out.
func (f *fitter) estimate(ctx context.Context, layer int, t *config.Training, e *Estimated) error {
	j, err := f.job(ctx, layer, t, e.Models)
	if err != nil {
		return err
	}
	defer j.trainer.Close()
	whole, calm := j.trainer.Steps(), min(j.trainer.Calm(), j.trainer.Steps())
	pace := func(from int) (seconds float64, err error) { // of a step, from one on
		j.trainer.Skip(from)
		if _, err := j.trainer.Step(ctx); err != nil { // without the work that is done once
			return 0, err
		}
		start, steps := time.Now(), 0
		for ; steps == 0 || time.Since(start) < timed && j.trainer.Done() < whole; steps++ {
			if _, err := j.trainer.Step(ctx); err != nil {
				return 0, err
			}
		}
		return time.Since(start).Seconds() / float64(steps), nil
	}
	paces := [2]float64{}
	for i, from := range []int{0, calm + 1} { // without a search, and with one
		if i == 0 && calm == 0 || i == 1 && calm == whole {
			continue
		}
		if paces[i], err = pace(max(0, min(from, whole-2))); err != nil {
			return err
		}
	}
	done := 0
	if id, err := f.identify(layer, t, e.Models); err == nil {
		for i := range 2 {
			c, err := train.ReadCheckpoint((&trainingFolder{dir: e.Path + trainingSuffix}).checkpoint(i))
			if err == nil && string(c.About) == string(id) {
				done = max(done, c.Done())
			}
		}
	}
	e.Steps = whole - done
	e.Seconds = paces[0]*float64(max(0, calm-done)) + paces[1]*float64(whole-max(calm, done))
	return nil
}
