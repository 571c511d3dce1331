package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"selfheal/attacks"
)

// certificate counts a certificate for a classifier: the samples, all of which are taken, or bounds.
func (e *estimate) certificate(ctx context.Context, a PlannedAttack, r attacks.Recipe, who classifier,
	v surveyed) error {
	samples, _ := r.Passes(who.Classes)
	seconds, seeds := v.judging().round(int(samples)*e.set.Len(), 0), e.seeds()
	if a.bounds() {
		each, err := e.bounding(ctx, a, r.Certificate.(attacks.Bounds), who)
		if err != nil {
			return err
		}
		seconds, seeds = each*float64(e.set.Len())*e.share, seeds[:1]
	}
	for _, seed := range seeds {
		if key := e.key(a, who.defense(), seed); e.made[key] == nil {
			e.made[key] = slices.Repeat([]outlook{{seconds: seconds}}, draws)
			e.fixed += seconds
		}
	}
	return nil
}

// bounding is about how long an image's bounds take when all cores are at work, 0 where there are none.
func (e *estimate) bounding(ctx context.Context, a PlannedAttack, how attacks.Bounds, who classifier) (float64, error) {
	known, _ := json.Marshal(e.record.Controls[who.defense()])
	key := fmt.Sprintf("bounds/1 %s %s %#v seed %d", e.net.ID, known, how, e.cfg.Seed) + e.machine
	sound := func(seconds float64) bool { return seconds >= 0 }
	return recalled(e.costs, key, sound, func() (float64, error) {
		n, err := e.bounder(who)
		if errors.As(err, new(unbounded)) {
			return 0, nil
		} else if err != nil {
			return 0, err
		}
		some := make([]int, min(e.set.Len(), e.cores()))
		for i := range some {
			some[i] = i
		}
		watch := newStopwatch()
		err = sideBySide(ctx, some, len(some), func(ctx context.Context, i int) error {
			im, err := e.set.image(i)
			if err == nil {
				_, err = a.bound(ctx, n, how, im)
			}
			return err
		})
		return e.idle(watch.read()) / float64(len(some)), err
	})
}
