package harness

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/harness/stats"
)

// scoring is what makes a cell: a classifier, and images that were crafted.
type scoring struct {
	*bench
	who    classifier
	attack *PlannedAttack // nil for the clean images
	recipe attacks.Recipe
	made   *crafted
	clean  *judged // the classifier's on clean images; nil where these are the clean ones, or it has none
	seed   uint64
}

// own reports whether the attack was made on this very classifier.
func (s scoring) own() bool { return s.recipe.Certificate != nil || s.who.attacked(s.Suite.Mode) }

// key is the journal's, of the verdicts.
func (s scoring) key() string {
	key := fmt.Sprintf("verdicts %q %q %q", s.Suite.Name, s.Model.Name, s.who.defense())
	if s.attack != nil {
		key += fmt.Sprintf(" %q %v %d", s.attack.Name, s.attack.Epsilon, s.seed)
	}
	return key
}

// judged judges the classifier. Where an answer is not finite, it says so instead: that costs a cell,
// not the hours behind it.
func (r *run) judged(ctx context.Context, s scoring, sweeps bool, what string) (v *judged, failure string, err error) {
	if v, err = r.judge(ctx, s.key(), s.who, s.set, s.made, s.clean, sweeps); err == nil {
		return v, "", nil
	}
	if err = fmt.Errorf("%s: %w", what, err); errors.As(err, new(notFinite)) {
		return v, err.Error(), nil
	}
	return v, "", err
}

// noClean is why cells behind one of clean images that failed have no verdicts.
const noClean = "there are no verdicts on clean images"

// cell is one that has no verdicts yet.
func (s scoring) cell() result.Cell {
	cell := result.Cell{Suite: s.Suite.Name, Dataset: s.Suite.Dataset, Model: s.Model.Name, Defense: s.who.defense(),
		Mode: s.Suite.Mode, Attack: config.None, Recipe: s.recipe.Name, N: s.set.Len(),
		Steps: []result.Step{}, Warnings: []result.Warning{}}
	if s.attack != nil {
		cell.Attack = s.attack.Name
		cell.Norm, cell.Epsilon = s.attack.strength()
	}
	return cell
}

// fail makes a cell that says why it has no verdicts.
func (r *run) fail(s scoring, why string) error {
	if r.shard.N > 0 {
		return nil
	}
	cell := s.cell()
	cell.Error = why
	r.record.Cells = append(r.record.Cells, cell)
	r.progress.report(cellFailed{identity(cell), why})
	return r.out.cell(r.record, nil)
}

// score makes a cell and writes it with its records. It returns the verdicts; none where
// the cell has an error instead.
func (r *run) score(ctx context.Context, s scoring) (*judged, error) {
	if s.attack != nil && s.clean == nil {
		return nil, r.fail(s, noClean)
	}
	got, failure, err := r.judged(ctx, s, true, "suite "+s.Suite.Name)
	if err != nil {
		return nil, err
	}
	if failure != "" {
		return nil, r.fail(s, failure)
	}
	v := got.verdicts
	probed, err := r.probed(ctx, s, v)
	if err != nil {
		return nil, err
	}
	r.gallery.consider(s, v)
	var smoothed []result.Smoothed
	if s.attack != nil && s.attack.searches() {
		if smoothed, err = r.smoothed(ctx, s); err != nil {
			return nil, err
		}
	}
	disproved, err := r.disproved(ctx, s, v)
	if err != nil {
		return nil, err
	}
	if r.shard.N > 0 { // cells are the merge's
		return got, nil
	}
	cell := s.cell()
	cell.Seconds = got.seconds
	cell.Warnings = append(cell.Warnings, warnings(s, v)...)
	cell.Warnings = append(cell.Warnings, probed...)
	if s.attack == nil && s.who.Control == nil {
		cell.Warnings = append(cell.Warnings, leftOut(s.Suite.Dataset, r.record.Datasets[s.Suite.Dataset].LeftOut)...)
	}
	cell.Smoothed = smoothed
	cell.Warnings = append(cell.Warnings, r.contradicted(s, cell)...)
	for _, text := range disproved {
		cell.Warnings = append(cell.Warnings, result.WarnCertifiedBroken.New("%s", text))
		r.unproven(cell, s.who, text)
	}
	if s.own() {
		cell.Steps, cell.VerdictOnly, cell.Agreement = s.made.steps, s.made.verdictOnly, s.made.agreement
		cell.Seconds += s.made.seconds
	}
	if s.who.Control != nil {
		cell.Solver = got.loops.summary(s.who.Control)
	}
	if c := s.recipe.Corruption; c != nil && s.who.Classes == imagenetClasses && s.who.Shape.H >= imagenetSide {
		cell.AlexNetError = c.AlexNetError()
	}
	cell.Verdicts, cell.Correct = bits(v)
	cell.Accuracy = float64(cell.Correct) / float64(cell.N)
	cell.CI95 = stats.Wilson(cell.Correct, cell.N)
	for _, v := range v {
		cell.MaxNorm = max(cell.MaxNorm, v.Norm)
	}
	r.record.Cells = append(r.record.Cells, cell)
	crafted := s.attack != nil && s.who.Control == nil && s.recipe.Components != nil // which is told already
	r.progress.scored(cell, len(r.record.Cells), r.plan.Cells(), crafted)
	return got, r.out.cell(r.record, records(cell, s, v))
}

// records are a cell's, one an image.
func records(c result.Cell, s scoring, verdicts []verdict) iter.Seq[result.Record] {
	return func(yield func(result.Record) bool) {
		for i, v := range verdicts {
			made := s.made.at(i)
			record := result.Record{Suite: c.Suite, Model: c.Model, Defense: c.Defense, Mode: c.Mode, Attack: c.Attack,
				Epsilon: c.Epsilon, Image: s.set.ID(i), Label: s.set.Label(i), Verdict: int(c.Verdicts[i] - '0'),
				Predicted: v.Class, Margin: result.Margin(v.Margin), Norm: v.Norm}
			if made.First >= 0 {
				record.FirstSuccess = &made.First
				if s.own() {
					record.Queries = &made.Queries
				}
			}
			if made.Nearest > 0 && s.own() {
				record.Distance = &made.Nearest
			}
			if p := s.made.proof; p != nil {
				p.tell(i, &record)
			}
			if s.clean != nil {
				record.CleanMargin = new(float64(s.clean.verdicts[i].Margin))
			}
			if !yield(record) {
				return
			}
		}
	}
}

// A network of so many classes, for images of at least such a side, is taken for one of ImageNet's.
const imagenetClasses, imagenetSide = 1000, 224

// rescore scores what an attack made under another seed, where the first seed has made a cell.
func (r *run) rescore(ctx context.Context, s scoring) error {
	var cell *result.Cell // nil in a shard
	for i, c := range r.record.Cells {
		if c.Suite == s.Suite.Name && c.Model == s.Model.Name && c.Defense == s.who.defense() &&
			c.Attack == s.attack.Name && (c.Epsilon == nil || *c.Epsilon == s.attack.Epsilon) {
			cell = &r.record.Cells[i]
		}
	}
	if s.made == nil || s.clean == nil || cell != nil && cell.Error != "" {
		return nil
	}
	got, failure, err := r.judged(ctx, s, false, fmt.Sprintf("suite %s, seed %d", s.Suite.Name, s.seed))
	if err != nil {
		return err
	}
	var disproved []string
	if failure == "" {
		if disproved, err = r.disproved(ctx, s, got.verdicts); err != nil {
			return err
		}
	}
	if cell == nil {
		return nil
	}
	for _, text := range disproved {
		r.unproven(*cell, s.who, fmt.Sprintf("seed %d: %s", s.seed, text))
	}
	if failure != "" {
		r.record.Failed = append(r.record.Failed, failure)
		r.progress.report(seedFailed{identity(*cell), s.seed, failure})
		return nil
	}
	score := result.SeedScore{Seed: s.seed, Seconds: got.seconds}
	if s.own() {
		score.Seconds += s.made.seconds
	}
	score.Verdicts, score.Correct = bits(got.verdicts)
	score.Accuracy = float64(score.Correct) / float64(s.set.Len())
	if cell.Seeds == nil {
		cell.Seeds = []result.SeedScore{{Seed: r.cfg.Seed, Correct: cell.Correct, Accuracy: cell.Accuracy,
			Verdicts: cell.Verdicts, Seconds: cell.Seconds}}
	}
	cell.Seeds = append(cell.Seeds, score)
	r.progress.report(seedFinished{identity(*cell),
		scored{score.Accuracy, score.Correct, cell.N, score.Seconds}, s.seed})
	return r.out.cell(r.record, nil)
}

// bits writes verdicts as a cell does, and counts the right ones.
func bits(verdicts []verdict) (text string, correct int) {
	b := make([]byte, len(verdicts))
	for i, v := range verdicts {
		b[i] = '0'
		if v.Right {
			b[i] = '1'
			correct++
		}
	}
	return string(b), correct
}
