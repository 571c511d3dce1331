package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"selfheal/attacks"
	"selfheal/harness/result"
)

// otherSeeds makes a job's attacks on a target again under the run's other seeds, and
// scores what comes of it on subjects: the target itself, and in an oblivious suite all
// others too. clean are the subjects' verdicts on the images as they were, the target's
// own first. It adds to cells that the first seed has made.
func (r *runner) otherSeeds(ctx context.Context, j Job, at *target, recipes []attacks.Recipe, set []attacks.Image, subjects []subject, clean [][]verdict) error {
	for _, seed := range r.cfg.OtherSeeds {
		for i, a := range j.Attacks {
			made, err := r.crafted(ctx, j, at, a, seed, recipes[i], set, clean[0])
			if err != nil {
				return err
			}
			for k, s := range subjects {
				if err := r.rescore(ctx, j, s, a, seed, made, set, clean[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// rescore scores what an attack made under another seed, where the first seed has made a cell.
func (r *runner) rescore(ctx context.Context, j Job, s subject, a PlannedAttack, seed uint64, made *crafted, set []attacks.Image, clean []verdict) error {
	cell := r.cellOf(j, s, a)
	if cell == nil {
		return nil // its loop diverged
	}
	start := time.Now()
	verdicts, err := r.judge(ctx, s, set, made.images, made.unbroken(clean))
	if err != nil {
		err = fmt.Errorf("suite %s, seed %d: %w", j.Suite.Name, seed, err)
		if !errors.As(err, new(notFinite)) || s.controller == nil {
			return err
		}
		r.failed = append(r.failed, err)
		r.progress.Say("%v", err)
		return nil
	}
	score := result.SeedScore{Seed: seed, Seconds: time.Since(start).Seconds()}
	if s.attacked(j.Suite.Mode) {
		score.Seconds += made.seconds
	}
	score.Verdicts, score.Correct = bits(verdicts)
	score.Accuracy = float64(score.Correct) / float64(len(set))
	if cell.Seeds == nil {
		cell.Seeds = []result.SeedScore{{Seed: r.seed, Correct: cell.Correct, Accuracy: cell.Accuracy, Verdicts: cell.Verdicts, Seconds: cell.Seconds}}
	}
	cell.Seeds = append(cell.Seeds, score)
	r.progress.Say("seed %d: %s, %s, %s: %.1f %% of %d, %.1f s", seed, cell.Model, cell.Attack, defenseName(cell.Defense), 100*score.Accuracy, cell.N, score.Seconds)
	return r.journal.cell(r.file, nil)
}

// cellOf is the cell that a job has of a subject under an attack; nil where it has none.
func (r *runner) cellOf(j Job, s subject, a PlannedAttack) *result.Cell {
	for i := range r.file.Cells {
		c := &r.file.Cells[i]
		if c.Suite == j.Suite.Name && c.Model == j.Model.Name && c.Defense == s.defense && c.Attack == a.Name && c.Epsilon != nil && *c.Epsilon == a.Epsilon {
			return c
		}
	}
	return nil
}

// bits writes verdicts as a cell does, and counts the right ones.
func bits(verdicts []verdict) (text string, correct int) {
	b := make([]byte, len(verdicts))
	for i, v := range verdicts {
		b[i] = '0'
		if v.right {
			b[i] = '1'
			correct++
		}
	}
	return string(b), correct
}
