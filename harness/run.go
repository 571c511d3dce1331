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
	uses     map[craftKey]*use
	probes   map[probeKey][]result.Warning
	failed   []error // cells that could not be scored
	cells    int     // finished
	planned  int
}

// craftKey identifies what is crafted once in a run, whatever suites ask for it.
type craftKey struct {
	dataset, model, attack string
	epsilon                float64
	defense, mode          string // "none" and "" where the undefended network is attacked
}

func (j Job) key(a PlannedAttack, defense string) craftKey {
	k := craftKey{j.Suite.Dataset, j.Model.Name, a.Name, a.Epsilon, defense, ""}
	if defense != config.None {
		k.mode = j.Suite.Mode
	}
	return k
}

// targets are the defenses that a job attacks: the undefended network, and in a
// white-box suite every controlled one.
func (j Job) targets() []string {
	if j.Suite.Mode == config.Oblivious {
		return []string{config.None}
	}
	return append([]string{config.None}, j.Suite.Controls...)
}

// use is how a run needs what is crafted under a key.
type use struct {
	left   int      // jobs that still need it
	images bool     // some job needs the adversarial images, not the verdicts alone
	made   *crafted // nil before the first and after the last job
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
	r := &runner{cfg: cfg, pool: pool, cache: o.Cache, progress: o.Progress, seed: cfg.Seed, sets: map[string]*dataset.Dataset{}, uses: map[craftKey]*use{}, probes: map[probeKey][]result.Warning{}, planned: plan.Cells()}
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
			for _, defense := range j.targets() {
				k := j.key(a, defense)
				if r.uses[k] == nil {
					r.uses[k] = &use{}
				}
				r.uses[k].left++
				// Controllers are given the images of an oblivious suite.
				given := j.Suite.Mode == config.Oblivious && len(j.Suite.Controls) > 0
				r.uses[k].images = r.uses[k].images || given || j.Suite.SaveAdversarial
			}
		}
	}
	for _, j := range plan.Jobs {
		if err = r.job(ctx, j); err != nil {
			break
		}
	}
	maskedByControl(r.file.Cells)
	if cerr := r.journal.close(r.file); err == nil {
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
	_, net, recipes, err := r.prepare(j)
	if err != nil {
		return err
	}
	defer net.Close()
	for _, name := range j.Suite.Controls {
		if err := r.checkControl(ctx, j, net, r.cfg.Control(name), recipes); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// checkControl closes the loop of a control, and in a white-box suite differentiates it.
func (r *runner) checkControl(ctx context.Context, j Job, net *control.Network, control *config.Control, recipes []attacks.Recipe) error {
	c, err := r.controller(ctx, net, control, false)
	if err != nil {
		return err
	}
	defer c.Close()
	climbs := func(r attacks.Recipe) bool { return takesGradients(r, net.Classes()) }
	if j.Suite.Mode == config.Oblivious || !slices.ContainsFunc(recipes, climbs) {
		return nil
	}
	t, err := defended(net, c, j.Suite.Mode)
	if err != nil {
		return err
	}
	defer t.close()
	return t.prepare(attacks.CrossEntropy)
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
		if takesGradients(recipes[i], net.Classes()) {
			if err := net.Prepare(attacks.CrossEntropy); err != nil {
				return nil, fmt.Errorf("model %s, attack %s: %w", net.Name, a.Name, err)
			}
		}
	}
	return recipes, nil
}

// takesGradients reports whether any component does.
func takesGradients(r attacks.Recipe, classes int) bool {
	return slices.ContainsFunc(r.Components, func(c attacks.Attack) bool {
		_, backward := c.Passes(classes)
		return backward > 0
	})
}

// job runs one model of one suite.
func (r *runner) job(ctx context.Context, j Job) error {
	set, net, recipes, err := r.prepare(j)
	if err != nil {
		return err
	}
	defer net.Close()
	subjects := []subject{plain(net)}
	for _, name := range j.Suite.Controls {
		c, err := r.controller(ctx, net, r.cfg.Control(name), true)
		if err != nil {
			return err
		}
		defer c.Close()
		subjects = append(subjects, controlled(net, c))
	}
	if j.Suite.Mode == config.Oblivious {
		return r.oblivious(ctx, j, net, subjects, recipes, set)
	}
	return r.whitebox(ctx, j, net, subjects, recipes, set)
}

// oblivious attacks the undefended network and gives the same images to every subject.
func (r *runner) oblivious(ctx context.Context, j Job, net *control.Network, subjects []subject, recipes []attacks.Recipe, set []attacks.Image) error {
	clean := untouched(set)
	before := make([][]verdict, len(subjects)) // on clean images
	for i, s := range subjects {
		var err error
		if before[i], err = r.score(ctx, j, net, s, nil, clean, attacks.Recipe{}, set, nil); err != nil {
			return err
		}
	}
	for i, a := range j.Attacks {
		made, err := r.crafted(ctx, j, undefended(net), a, recipes[i], set, before[0])
		if err != nil {
			return err
		}
		for k, s := range subjects {
			if _, err := r.score(ctx, j, net, s, &a, made, recipes[i], set, before[k]); err != nil {
				return err
			}
		}
		if err := r.save(j, net, config.None, a, made); err != nil {
			return err
		}
	}
	return nil
}

// whitebox attacks every subject on its own.
func (r *runner) whitebox(ctx context.Context, j Job, net *control.Network, subjects []subject, recipes []attacks.Recipe, set []attacks.Image) error {
	clean := untouched(set)
	for _, s := range subjects {
		at := undefended(net)
		if s.controller != nil {
			var err error
			if at, err = defended(net, s.controller, j.Suite.Mode); err != nil {
				return fmt.Errorf("suite %s: %w", j.Suite.Name, err)
			}
		}
		err := r.attackEach(ctx, j, net, at, clean, recipes, set)
		at.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// attackEach scores a target on clean images and under every attack on it.
func (r *runner) attackEach(ctx context.Context, j Job, net *control.Network, at *target, clean *crafted, recipes []attacks.Recipe, set []attacks.Image) error {
	before, err := r.score(ctx, j, net, at.subject, nil, clean, attacks.Recipe{}, set, nil)
	if err != nil || before == nil {
		return err // a loop that diverges on clean images is not attacked
	}
	for i, a := range j.Attacks {
		made, err := r.crafted(ctx, j, at, a, recipes[i], set, before)
		if err != nil {
			return err
		}
		if _, err := r.score(ctx, j, net, at.subject, &a, made, recipes[i], set, before); err != nil {
			return err
		}
		if err := r.save(j, net, at.subject.defense, a, made); err != nil {
			return err
		}
	}
	return nil
}

// untouched are the clean images as if an attack had made them.
func untouched(set []attacks.Image) *crafted {
	n := len(set)
	c := &crafted{images: make([][]float32, n), norms: make([]float64, n), first: make([]int, n), queries: make([]int, n), nearest: make([]float64, n), steps: []result.Step{}}
	for i, im := range set {
		c.images[i], c.first[i], c.queries[i] = im.Pixels, -1, -1
	}
	return c
}

// crafted runs an attack on a target, unless the run has done so before.
func (r *runner) crafted(ctx context.Context, j Job, at *target, a PlannedAttack, recipe attacks.Recipe, set []attacks.Image, before []verdict) (*crafted, error) {
	key := j.key(a, at.subject.defense)
	use := r.uses[key]
	made := use.made
	if made == nil {
		label := fmt.Sprintf("[%d/%d] %s, %s", r.cells+1, r.planned, j.Model.Name, a.Name)
		if len(a.Epsilons) > 1 {
			label += " " + fraction(a.Epsilon)
		}
		if at.subject.controller != nil {
			label += ", " + j.Suite.Mode + " " + at.subject.defense
		}
		verdictOnly := !use.images && !recipe.Minimises()
		var err error
		if made, err = r.craft(ctx, at, label, recipe, verdictOnly, set, before); err != nil {
			return nil, fmt.Errorf("suite %s, %s, attack %s: %w", j.Suite.Name, at.subject.what, a.Name, err)
		}
		use.made = made
	}
	if use.left--; use.left == 0 {
		use.made = nil // the images of a whole run would fill the memory
	}
	return made, nil
}

// save writes the images of an attack where the suite asks for them.
func (r *runner) save(j Job, net *control.Network, defense string, a PlannedAttack, made *crafted) error {
	if !j.Suite.SaveAdversarial {
		return nil
	}
	return r.journal.adversarial(j, defense, a, net.Shape(), made.images)
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

// score scores one set of images on a subject and writes the cell. It returns the
// verdicts; none where a controller's loop diverges, which costs its cell, not the
// hours behind it.
func (r *runner) score(ctx context.Context, j Job, net *control.Network, s subject, a *PlannedAttack, made *crafted, recipe attacks.Recipe, set []attacks.Image, clean []verdict) ([]verdict, error) {
	start := time.Now()
	v, err := r.judge(ctx, s, set, made.images)
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
		norm, eps := a.Attack.Norm, a.Epsilon
		cell.Attack, cell.Norm, cell.Epsilon = a.Name, &norm, &eps
	}
	cell.Warnings = append(cell.Warnings, warnings(j, net, s, made, recipe, v)...)
	probed, err := r.probed(ctx, j, s, set, v, a == nil)
	if err != nil {
		return nil, err
	}
	cell.Warnings = append(cell.Warnings, probed...)
	cell.Seconds = time.Since(start).Seconds()
	if s.controller == nil || j.Suite.Mode != config.Oblivious { // the attack was on this very subject
		cell.Steps, cell.VerdictOnly = made.steps, made.verdictOnly
		cell.Seconds += made.seconds
	}
	if s.controller != nil {
		cell.Solver = summary(s.controller, v)
	}
	return v, r.cell(cell, set, made, v, clean)
}

// cell completes a cell from the verdicts, and writes it and its records. clean are
// the subject's verdicts on the images as they were, where this cell has others.
func (r *runner) cell(c result.Cell, set []attacks.Image, made *crafted, verdicts, clean []verdict) error {
	own := c.Defense == config.None || c.Mode != config.Oblivious // the attack was on this very subject
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
