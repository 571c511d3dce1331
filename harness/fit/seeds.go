package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"selfheal/control/train"
	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/harness/progress"
	"selfheal/internal/atomicfile"
	"selfheal/models/onnx/simplify"
)

// attempt is a training from one seed.
type attempt struct {
	config.Training
	id []byte // its identity
}

// attempts lists the trainings from so many seeds, from the training's own up.
func (f *fitter) attempts(layer int, t *config.Training, models []string, seeds int) ([]attempt, error) {
	var all []attempt
	for k := range seeds {
		one := attempt{Training: *t}
		one.Training.Seed += uint64(k)
		var err error
		if one.id, err = f.identify(layer, &one.Training, models); err != nil {
			return nil, open.Wrong(err)
		}
		all = append(all, one)
	}
	return all, nil
}

// chosen trains an embedding: from one seed after the other until one does not go astray, or from as many as the
// options say, to keep the best.
func (f *fitter) chosen(ctx context.Context, layer int, t *config.Training, done Fitted) (Fitted, error) {
	if f.o.Seeds <= 1 {
		all, err := f.attempts(layer, t, done.Models, 1+t.Restarts)
		if err != nil {
			return done, err
		}
		return f.trainOne(ctx, layer, all, done)
	}
	all, err := f.attempts(layer, t, done.Models, f.o.Seeds)
	if err != nil {
		return done, err
	}
	candidate := func(one attempt) string { return fmt.Sprintf("%s.seed-%d", done.Path, one.Training.Seed) }
	drop := func() error {
		for _, one := range all {
			for _, suffix := range []string{"", ".csv"} {
				err := os.Remove(candidate(one) + suffix)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		return nil
	}
	if t.Along != nil {
		return done, open.Wrong(errors.New("--seeds is for trainings of one embedding, not for joint ones"))
	}
	if there, err := trainedFrom(done.Path); err == nil && !f.o.Force && place(all, there) >= 0 {
		return f.kept(done), drop()
	}
	to := []atomicfile.File{f.log(done.Path), f.embedding(done.Path)} // it is finished when the embedding is there
	for _, file := range to {
		if err := file.May(); err != nil {
			return done, err
		}
	}
	best, start := done, time.Now()
	for _, one := range all {
		of := done
		of.Path = candidate(one)
		of, err := f.trainOne(ctx, layer, []attempt{one}, of)
		astray := errors.Is(err, errAstray)
		if err != nil && !astray {
			return done, err
		}
		done.Tried = append(done.Tried, Tried{one.Training.Seed, astray, of.Judged})
		if !astray && (best.Path == done.Path || of.Judged.Score(t.Objective) > best.Judged.Score(t.Objective)) {
			best = of
		}
	}
	if best.Path == done.Path {
		return done, f.allAstray(all)
	}
	for i, suffix := range []string{".csv", ""} {
		data, err := os.ReadFile(best.Path + suffix)
		if err == nil {
			err = to[i].WriteSynced(data)
		}
		if err != nil {
			return done, err
		}
	}
	best.Path, best.Tried, best.Kept, best.Seconds = done.Path, done.Tried, false, time.Since(start).Seconds()
	return best, drop()
}

// errAstray is returned by a training that was given up.
var errAstray = errors.New("the training has gone astray")

func (f *fitter) allAstray(all []attempt) error {
	return train.Fail("the training goes astray with every seed from %d to %d: after %.0f %% of its steps it has "+
		"fewer than half of the images right that the network alone has; raise weight or weight_start, or lower lr",
		all[0].Training.Seed, all[len(all)-1].Training.Seed, 100*train.Settled)
}

// kept returns an embedding that was finished before, with its judgement.
func (f *fitter) kept(done Fitted) Fitted {
	f.resumed, done.Kept = true, true
	f.Progress.Report(progress.EmbeddingKept{Path: done.Path})
	if g, _, err := simplify.Load(done.Path, simplify.Options{}); err == nil {
		done.Judged, _ = train.ReadJudged(g.Meta)
	}
	return done
}

// trainOne makes the first of some trainings that does not go astray, or continues it.
func (f *fitter) trainOne(ctx context.Context, layer int, all []attempt, done Fitted) (Fitted, error) {
	start := time.Now()
	w, at, saved, err := f.claim(done.Path, all)
	if err != nil {
		return done, err
	}
	if w == nil {
		return f.kept(done), nil
	}
	defer w.close()
	for _, file := range f.files(done.Path, &all[0].Training)[1:] { // no other fit writes it meanwhile
		also, err := openTraining(file.Path())
		if err != nil {
			return done, err
		}
		defer also.close()
	}
	for ; at < len(all); at++ {
		found, err := f.try(ctx, layer, all[at], w, saved, done)
		if !errors.Is(err, errAstray) {
			found.Seconds = time.Since(start).Seconds()
			return found, err
		}
		if err := w.clean(true); err != nil {
			return done, err
		}
		saved = nil
		f.Progress.Report(progress.TrainingAstray{Seed: all[at].Training.Seed, Again: at+1 < len(all)})
	}
	if len(all) == 1 {
		return done, errAstray
	}
	return done, f.allAstray(all)
}

// try makes a training.
func (f *fitter) try(ctx context.Context, layer int, one attempt, w *trainingFolder, saved *train.Checkpoint,
	done Fitted) (Fitted, error) {
	j, err := f.job(ctx, layer, &one.Training, done.Models)
	if err != nil {
		return done, err
	}
	defer j.trainer.Close()
	j.id = one.id
	if err := j.begin(w, saved, f.Progress); err != nil {
		return done, err
	}
	if err := j.run(ctx, w, f.Progress, done); errors.Is(err, errAstray) {
		return done, err
	} else if err != nil {
		return done, unfinished(err)
	}
	history := j.trainer.History()
	done.Steps, done.Loss = len(history), train.Mean(history[len(history)-j.trainer.PerEpoch():])
	if done.Judged, err = j.judge(ctx, done.Path); err != nil {
		return done, unfinished(err)
	}
	err = j.write(ctx, f.log(done.Path), f.files(done.Path, &one.Training), f.provenance(j, done, &one.Training))
	if err != nil {
		return done, unfinished(err)
	}
	return done, w.clean(true)
}

// place returns which of some trainings an identity is, or -1.
func place(all []attempt, id []byte) int {
	return slices.IndexFunc(all, func(one attempt) bool { return bytes.Equal(one.id, id) })
}

// claim opens the folder of a training from one of some seeds, and reads the checkpoint to continue from, or nil: at is
// its place. w is nil for a finished training. Files of another training are an error.
func (f *fitter) claim(path string, all []attempt) (w *trainingFolder, at int, saved *train.Checkpoint, err error) {
	var there, other []byte // of an embedding of another training, and of the checkpoints
	var taken string        // that embedding's file
	files := f.files(path, &all[0].Training)
	finished := func() bool {
		whole := true
		for _, file := range slices.Backward(files) {
			id, absent := trainedFrom(file.Path())
			if ours := absent == nil && place(all, id) >= 0; !ours {
				if whole = false; absent == nil {
					there, taken = id, file.Path()
				}
			}
		}
		return whole && !f.o.Force
	}
	if _, idle := os.Stat(path + trainingSuffix); errors.Is(idle, fs.ErrNotExist) && finished() {
		f.resumed = true
		return nil, 0, nil, nil
	}
	for _, to := range append([]atomicfile.File{f.log(path)}, files...) {
		may := to.May
		if f.o.Force { // continues without it
			may = to.Claim
		}
		if err = may(); err != nil {
			return nil, 0, nil, err
		}
	}
	if w, err = openTraining(path); err != nil {
		return nil, 0, nil, err
	}
	done := finished() // checks again, now that no other fit runs
	defer func() {
		if f.resumed = true; done || err != nil {
			w.close()
			w, saved = nil, nil
		}
	}()
	if err = w.clean(done); err != nil || done || f.o.Force {
		return w, 0, nil, err
	}
	saved, at, other, err = w.find(all, f.Progress)
	switch {
	case err != nil || saved != nil:
	case other != nil:
		err = anotherTraining(w.dir, other, all[0].id)
	case taken != "":
		err = anotherTraining(taken, there, all[0].id)
	case f.o.Resume && !f.resumed:
		err = open.Wrong(fmt.Errorf("--resume: there is no training of %s, neither begun nor finished", path))
	}
	return w, at, saved, err
}
