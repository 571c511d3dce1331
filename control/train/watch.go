package train

import (
	"context"

	"selfheal/internal/lists"
)

// Epoch judges an adversarial training after an epoch, by images that were held back.
type Epoch struct {
	Epoch int // from 1
	Judged
	// Back says that the training forgot how to withstand PGD and went back to the epoch before: so-called catastrophic
	// overfitting (Wong et al. 2020, section 5.3).
	Back bool
}

const (
	forgotten = 0.5  // fraction of the best epoch's accuracy under PGD below which a training goes back
	shorter   = 0.75 // factor of the search's steps after that
	mostBack  = 5    // times
)

// Due reports whether an epoch has ended that [Trainer.Watch] is to judge: of an adversarial training, whose search of
// few steps may fail unnoticed.
func (t *Trainer) Due() bool {
	done := t.Done()
	return t.settings.Objective == Adversarial && done > 0 && done%t.PerEpoch() == 0 &&
		(t.good == nil || len(t.good.History) != done)
}

// Watch judges the training after an epoch by held-back images. If the accuracy under PGD has fallen below half of the
// best epoch's, the training goes back to the last good epoch, and the search's steps become shorter.
func (t *Trainer) Watch(ctx context.Context, held Data) (Epoch, error) {
	es, err := t.Embeddings(ctx)
	if err != nil {
		return Epoch{}, err
	}
	now := Epoch{Epoch: t.Done() / t.PerEpoch()}
	if now.Judged, err = t.Judge(ctx, es, held, false); err != nil {
		return now, err
	}
	best := 0.0
	for _, e := range t.epochs {
		best = max(best, e.Through)
	}
	t.epochs = append(t.epochs, now)
	if t.good == nil || now.Through >= forgotten*best {
		good := t.state()
		t.good = &good
		return now, nil
	}
	t.epochs[len(t.epochs)-1].Back = true
	if lists.Count(t.epochs, func(e Epoch) bool { return e.Back }) > mostBack {
		return now, Fail("after epoch %d PGD leaves %.1f %% of the images held back, it left %.1f %%, for the %dth "+
			"time: search with more steps or a smaller epsilon", now.Epoch, 100*now.Through, 100*best, mostBack+1)
	}
	t.restore(*t.good)
	good := t.state()
	t.good = &good
	now.Back = true
	return now, nil
}

// stepSize returns the length of the search's steps.
func (t *Trainer) stepSize() float64 {
	size := t.settings.StepSize
	for _, e := range t.epochs {
		if e.Back {
			size *= shorter
		}
	}
	return size
}

// Astray reports whether a training of objective clean has gone astray. It looks right after [Settled] of the steps, if
// these are a hundred or more. A training that is astray has fewer than half of the images right that the networks
// alone have.
func (t *Trainer) Astray(ctx context.Context, held Data) (bool, error) {
	const least, last = 100, 20 // steps
	done := t.Done()
	if t.settings.Objective.perturbed() || done < least || done != int(Settled*float64(t.Steps())) ||
		len(held.Labels) == 0 {
		return false, nil
	}
	alone := 0.0
	for _, f := range t.networks {
		right, err := asked(t, held).right(ctx, f, nil, whole(held))
		if err != nil {
			return false, err
		}
		alone += float64(right) / float64(len(held.Labels)*len(t.networks))
	}
	return Mean(t.history[done-last:]).Accuracy < alone/2, nil
}
