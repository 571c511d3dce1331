package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/harness/stats"
)

// score scores one set of images on a subject and writes the cell. It returns the
// verdicts; none where a controller's loop diverges, which costs its cell, not the
// hours behind it.
func (r *runner) score(ctx context.Context, j Job, net *control.Network, s subject, a *PlannedAttack, made *crafted, recipe attacks.Recipe, set []attacks.Image, clean []verdict) ([]verdict, error) {
	start := time.Now()
	v, err := r.judge(ctx, s.followed(), set, made.images, made.unbroken(clean))
	if err != nil {
		err = fmt.Errorf("suite %s: %w", j.Suite.Name, err)
		if !errors.As(err, new(notFinite)) || s.controller == nil {
			return nil, err
		}
		r.failed = append(r.failed, err)
		r.progress.Say("no cell: %v", err)
		return nil, nil
	}
	cell := result.Cell{Suite: j.Suite.Name, Dataset: j.Suite.Dataset, Model: net.Name, Defense: s.defense, Mode: j.Suite.Mode,
		Attack: config.None, Recipe: recipe.Name, N: len(set), Steps: []result.Step{}, Warnings: []result.Warning{}}
	if a != nil {
		norm, eps := a.Norm.String(), a.Epsilon
		cell.Attack, cell.Norm, cell.Epsilon = a.Name, &norm, &eps
	}
	cell.Seconds = time.Since(start).Seconds()
	cell.Warnings = append(cell.Warnings, warnings(j, net, s, made, recipe, v)...)
	probed, err := r.probed(ctx, j, s, set, v, a == nil)
	if err != nil {
		return nil, err
	}
	cell.Warnings = append(cell.Warnings, probed...)
	if s.attacked(j.Suite.Mode) {
		cell.Steps, cell.VerdictOnly = made.steps, made.verdictOnly
		cell.Seconds += made.seconds
	}
	if s.controller != nil {
		cell.Solver = summary(s.controller, v)
	}
	r.gallery.consider(j, s, a, made, set, v, clean)
	return v, r.cell(cell, s.attacked(j.Suite.Mode), set, made, v, clean)
}

// cell completes a cell from the verdicts, and writes it and its records. own says that
// its attack was on this very subject; clean are the subject's verdicts on the images as
// they were, where this cell has others.
func (r *runner) cell(c result.Cell, own bool, set []attacks.Image, made *crafted, verdicts, clean []verdict) error {
	records := make([]result.Record, len(set))
	c.Verdicts, c.Correct = bits(verdicts)
	for i, v := range verdicts {
		c.MaxNorm = math.Max(c.MaxNorm, made.norms[i])
		records[i] = result.Record{Suite: c.Suite, Model: c.Model, Defense: c.Defense, Mode: c.Mode, Attack: c.Attack, Epsilon: c.Epsilon,
			Image: set[i].ID, Label: set[i].Label, Verdict: int(c.Verdicts[i] - '0'), Margin: v.margin, Norm: made.norms[i]}
		if first := made.first[i]; first >= 0 {
			records[i].FirstSuccess = &first
			if own {
				records[i].Queries = &made.queries[i]
			}
		}
		if d := made.nearest[i]; d > 0 && own {
			records[i].Distance = &d
		}
		if clean != nil {
			records[i].CleanMargin = &clean[i].margin
		}
	}
	c.Accuracy = float64(c.Correct) / float64(c.N)
	c.CI95 = stats.Wilson(c.Correct, c.N)
	r.cells++
	r.file.Cells = append(r.file.Cells, c)
	if c.Attack == config.None || c.Defense != config.None {
		r.progress.Say("[%d/%d] %s, %s, %s: %.1f %% of %d, %.1f s", r.cells, r.planned, c.Model, c.Attack, defenseName(c.Defense), 100*c.Accuracy, c.N, c.Seconds)
	}
	return r.journal.cell(r.file, records)
}

func defenseName(d string) string {
	if d == config.None {
		return "undefended"
	}
	return "controlled by " + d
}

// summary reports how the closed loop did over a cell's images.
func summary(c *controller, verdicts []verdict) *result.Solver {
	s := &result.Solver{Method: c.Solver.Method.String(), PassesPerRun: c.Passes()}
	for _, v := range verdicts {
		s.Objective += v.outcome.Objective
		s.Greedy += v.outcome.Greedy
		s.ControlNorm += v.outcome.Norm
		if v.outcome.Objective < v.outcome.Greedy {
			s.BelowGreedy++
		}
	}
	n := float64(len(verdicts))
	s.Objective, s.Greedy, s.ControlNorm, s.BelowGreedy = s.Objective/n, s.Greedy/n, s.ControlNorm/n, s.BelowGreedy/n
	s.Layers = c.layers(verdicts[0].outcome.Layers)
	for i := range s.Layers {
		s.Layers[i].ControlNorm, s.Layers[i].Loss = 0, 0
		for _, v := range verdicts {
			s.Layers[i].ControlNorm += v.outcome.Layers[i].Norm / n
			s.Layers[i].Loss += v.outcome.Layers[i].Loss / n
		}
	}
	s.Sweeps, s.Traced = meanSweeps(verdicts)
	return s
}

// meanSweeps is the mean objective at the greedy start and after each sweep, over the
// images that were followed, and how many these are; nil where there are none, or where the
// solver did not stay finite on the way.
func meanSweeps(verdicts []verdict) (means []float64, n int) {
	for _, v := range verdicts {
		if v.outcome.Sweeps == nil {
			break
		}
		n++
		if means == nil {
			means = make([]float64, len(v.outcome.Sweeps))
		}
		for k, sweep := range v.outcome.Sweeps {
			means[k] += sweep.Objective
		}
	}
	for k := range means {
		if means[k] /= float64(n); means[k]-means[k] != 0 {
			return nil, 0
		}
	}
	return means, n
}
