package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/models/ort"
)

// Version is selfheal's.
const Version = "0.1.0"

// Options say where a run writes and how it computes. They never change a number.
type Options struct {
	Out      string
	Force    bool // overwrite another config's results
	Progress *Progress
	Cache    *control.Cache // of fitted embeddings; nil for none
}

// runner is the state of one run.
type runner struct {
	cfg      *config.Config
	pool     *ort.Pool
	cache    *control.Cache
	progress *Progress
	seed     uint64
	file     *result.File
	journal  *journal
	sets     map[string]*dataset.Dataset
	made     map[craftKey]*crafted // what a later job needs again
	uses     map[craftKey]int      // how many jobs still need it
	failed   []error               // cells that could not be scored
	cells    int                   // finished
	planned  int
}

// craftKey identifies what is crafted once in a run, whatever suites ask for it.
type craftKey struct {
	dataset, model, attack string
	epsilon                float64
}

func (j Job) key(a PlannedAttack) craftKey {
	return craftKey{j.Suite.Dataset, j.Model.Name, a.Name, a.Epsilon}
}

// Run carries out a plan and returns its results, which are also in o.Out. When
// it ends early, by an error or because ctx was cancelled, the cells that were
// finished are returned and on disk all the same.
func Run(ctx context.Context, plan *Plan, o Options) (*result.File, []result.Record, error) {
	cfg := plan.Config
	pool, err := newPool(cfg.Runtime)
	if err != nil {
		return nil, nil, ConfigError{err}
	}
	defer pool.Close()
	if pool.Provider() == ort.ProviderCPU {
		// Workers' threads are cores: what the attacks compute between passes stays on as many.
		before := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(min(before, pool.Workers()*pool.Threads()))
		defer runtime.GOMAXPROCS(before)
	}
	r := &runner{cfg: cfg, pool: pool, cache: o.Cache, progress: o.Progress, seed: cfg.Seed, sets: map[string]*dataset.Dataset{}, made: map[craftKey]*crafted{}, uses: map[craftKey]int{}, planned: plan.Cells()}
	r.file = &result.File{
		Schema: result.Schema, Created: time.Now().UTC().Truncate(time.Second), ConfigSHA256: cfg.Hash(), Seed: cfg.Seed,
		Environment: result.Environment{Selfheal: Version, Go: runtime.Version(), ONNXRuntime: ort.Version(), Provider: pool.Provider(),
			Workers: pool.Workers(), Threads: pool.Threads(), Batch: pool.Batch(), Winograd: cfg.Runtime.Winograd, CPU: cpuName()},
		Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}, Cells: []result.Cell{},
	}
	for _, s := range cfg.Suites {
		r.file.Suites = append(r.file.Suites, result.Suite{Name: s.Name, Title: s.Title, Dataset: s.Dataset, Mode: s.Mode,
			Models: s.Models, Controls: s.Controls, Attacks: s.Attacks})
	}
	if r.journal, err = newJournal(o.Out, r.file, o.Force); err != nil {
		return nil, nil, err
	}
	if err := r.preflight(ctx, plan); err != nil {
		return nil, nil, err
	}
	for _, j := range plan.Jobs {
		for _, a := range j.Attacks {
			r.uses[j.key(a)]++
		}
	}
	for _, j := range plan.Jobs {
		if err = r.job(ctx, j); err != nil {
			break
		}
	}
	if cerr := r.journal.close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = errors.Join(r.failed...)
	}
	return r.file, r.journal.records, err
}

// newPool makes the pool that a config asks for. A device that does not compute is
// an error, before an hour is spent on opening what would run on it.
func newPool(c config.Runtime) (*ort.Pool, error) {
	options := []ort.PoolOption{ort.Threads(c.Threads)}
	if c.Provider == config.CUDA {
		if err := ort.CheckCUDA(c.Device); err != nil {
			return nil, fmt.Errorf("runtime.provider %s: %w", c.Provider, err)
		}
		options = append(options, ort.CUDA(c.Device))
	}
	return ort.NewPool(c.Workers, c.Batch, options...), nil
}

// ConfigError is what is wrong with what a config names: a file that is absent
// or no model, images that don't fit it, a network without gradients, a device
// that does not compute.
type ConfigError struct{ error }

// Unwrap returns the error itself.
func (e ConfigError) Unwrap() error { return e.error }

// preflight opens everything that the run will need, before an hour is spent on
// the first model and the last one turns out to be missing.
func (r *runner) preflight(ctx context.Context, plan *Plan) error {
	for _, j := range plan.Jobs {
		if err := r.check(ctx, j); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return ConfigError{err}
		}
	}
	return nil
}

func (r *runner) check(ctx context.Context, j Job) error {
	_, net, _, err := r.prepare(j)
	if err != nil {
		return err
	}
	defer net.Close()
	for _, name := range j.Suite.Controls {
		c, err := r.controller(ctx, net, r.cfg.Control(name), false)
		if err != nil {
			return err
		}
		c.Close()
	}
	return ctx.Err()
}

// prepare opens a job's images and network and makes its recipes.
func (r *runner) prepare(j Job) ([]attacks.Image, *control.Network, []attacks.Recipe, error) {
	data, set, err := r.scored(j.Suite.Dataset)
	if err != nil {
		return nil, nil, nil, err
	}
	net, err := r.network(j.Model)
	if err != nil {
		return nil, nil, nil, err
	}
	recipes, err := recipesFor(j, data, net)
	if err != nil {
		net.Close()
		return nil, nil, nil, err
	}
	return set, net, recipes, nil
}

// recipesFor checks that the images fit the network and that every attack of the
// job can be made on it.
func recipesFor(j Job, data *dataset.Dataset, net *control.Network) ([]attacks.Recipe, error) {
	if err := fits(data, net); err != nil {
		return nil, fmt.Errorf("suite %s: dataset %s and model %s: %w", j.Suite.Name, j.Suite.Dataset, net.Name, err)
	}
	recipes := make([]attacks.Recipe, len(j.Attacks))
	for i, a := range j.Attacks {
		var err error
		if recipes[i], err = a.Recipe(net.Classes(), net.Shape()); err != nil {
			return nil, fmt.Errorf("model %s: %w", net.Name, err)
		}
		for _, c := range recipes[i].Components {
			if _, backward := c.Passes(net.Classes()); backward == 0 {
				continue
			}
			if err := net.Prepare(attacks.CrossEntropy); err != nil {
				return nil, fmt.Errorf("model %s, attack %s: %w", net.Name, a.Name, err)
			}
		}
	}
	return recipes, nil
}

// job runs one model of one suite.
func (r *runner) job(ctx context.Context, j Job) error {
	set, net, recipes, err := r.prepare(j)
	if err != nil {
		return err
	}
	defer net.Close()
	var controllers []*controller
	for _, name := range j.Suite.Controls {
		c, err := r.controller(ctx, net, r.cfg.Control(name), true)
		if err != nil {
			return err
		}
		defer c.Close()
		controllers = append(controllers, c)
	}
	clean := &crafted{images: make([][]float32, len(set)), norms: make([]float64, len(set)), first: make([]int, len(set)), steps: []result.Step{}}
	for i, im := range set {
		clean.images[i], clean.first[i] = im.Pixels, -1
	}
	undefended, err := r.score(ctx, j, net, controllers, nil, clean, "", set)
	if err != nil {
		return err
	}
	for i, a := range j.Attacks {
		label := fmt.Sprintf("[%d/%d] %s, %s", r.cells+1, r.planned, net.Name, a.Name)
		if len(a.Epsilons) > 1 {
			label += " " + fraction(a.Epsilon)
		}
		key := j.key(a)
		made := r.made[key]
		if made == nil {
			if made, err = r.craft(ctx, net, label, recipes[i], set, undefended); err != nil {
				return fmt.Errorf("suite %s, model %s, attack %s: %w", j.Suite.Name, net.Name, a.Name, err)
			}
			r.made[key] = made
		}
		if r.uses[key]--; r.uses[key] == 0 {
			delete(r.made, key) // the images of a whole run would fill the memory
		}
		if _, err := r.score(ctx, j, net, controllers, &a, made, recipes[i].Name, set); err != nil {
			return err
		}
		if j.Suite.SaveAdversarial {
			if err := r.journal.adversarial(j.Suite.Name, net.Name, a, net.Shape(), made.images); err != nil {
				return err
			}
		}
	}
	return nil
}

// fits checks that a data set is one that the network classifies.
func fits(d *dataset.Dataset, n *control.Network) error {
	s := d.Shape()
	if (attacks.Shape{C: s[0], H: s[1], W: s[2]}) != n.Shape() {
		return fmt.Errorf("the images have shape %v, the model takes %v", s, [3]int{n.Shape().C, n.Shape().H, n.Shape().W})
	}
	if d.Classes() > n.Classes() {
		return fmt.Errorf("the images have %d classes, the model %d", d.Classes(), n.Classes())
	}
	return nil
}

// score scores one set of images on the undefended network and under every
// controller, and writes those cells. It returns the undefended verdicts.
func (r *runner) score(ctx context.Context, j Job, net *control.Network, controllers []*controller, a *PlannedAttack, made *crafted, recipe string, set []attacks.Image) ([]verdict, error) {
	var undefended []verdict
	for k := -1; k < len(controllers); k++ {
		start := time.Now()
		defense, who, what := config.None, plain(net), "model "+net.Name
		if k >= 0 {
			defense = controllers[k].Name
			who, what = controlled(controllers[k]), fmt.Sprintf("control %s on model %s", defense, net.Name)
		}
		v, err := r.judge(ctx, who, what, set, made.images)
		if err != nil {
			err = fmt.Errorf("suite %s: %w", j.Suite.Name, err)
			if !errors.As(err, new(notFinite)) || k < 0 {
				return nil, err
			}
			// A loop that diverges costs its cell, not the hours behind it.
			r.failed = append(r.failed, err)
			r.progress.Say("no cell: %v", err)
			continue
		}
		cell := result.Cell{Suite: j.Suite.Name, Dataset: j.Suite.Dataset, Model: net.Name, Defense: defense, Mode: j.Suite.Mode,
			Attack: config.None, Recipe: recipe, N: len(set), Steps: []result.Step{}, Warnings: []result.Warning{}}
		if a != nil {
			norm, eps := a.Attack.Norm, a.Epsilon
			cell.Attack, cell.Norm, cell.Epsilon = a.Name, &norm, &eps
		}
		for _, notice := range net.Graph.Notices {
			cell.Warnings = append(cell.Warnings, result.Warning{ID: "converted", Message: fmt.Sprintf("model %s: %s", net.Name, notice)})
		}
		if k < 0 {
			undefended = v
			cell.Steps = made.steps
			if !slices.ContainsFunc(v, func(v verdict) bool { return !v.simplex }) && j.Model.Output != "probabilities" {
				cell.Warnings = append(cell.Warnings, result.Warning{ID: "probabilities",
					Message: fmt.Sprintf("model %s gives probabilities, not logits; losses on them have vanishing gradients: set output: probabilities", net.Name)})
			}
			if made.wrong > 0 {
				cell.Warnings = append(cell.Warnings, result.Warning{ID: "claim-refuted",
					Message: fmt.Sprintf("an attack claimed %d successes that the judge did not see again", made.wrong)})
			}
		}
		cell.Seconds = time.Since(start).Seconds()
		if k < 0 {
			cell.Seconds += made.seconds
		} else {
			cell.Solver = summary(controllers[k], v)
		}
		if err := r.cell(cell, set, made, v); err != nil {
			return nil, err
		}
	}
	return undefended, nil
}

// cell completes a cell from the verdicts, and writes it and its records.
func (r *runner) cell(c result.Cell, set []attacks.Image, made *crafted, verdicts []verdict) error {
	records := make([]result.Record, len(set))
	bits := make([]byte, len(set))
	for i, v := range verdicts {
		bits[i] = '0'
		if v.right {
			bits[i] = '1'
			c.Correct++
		}
		c.MaxNorm = math.Max(c.MaxNorm, made.norms[i])
		records[i] = result.Record{Suite: c.Suite, Model: c.Model, Defense: c.Defense, Mode: c.Mode, Attack: c.Attack, Epsilon: c.Epsilon,
			Image: set[i].ID, Label: set[i].Label, Verdict: int(bits[i] - '0'), Margin: v.margin, Norm: made.norms[i]}
		if first := made.first[i]; first >= 0 {
			records[i].FirstSuccess = &first
		}
	}
	c.Verdicts = string(bits)
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
	return s
}
