package harness

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/models/ort"
)

// Version is selfheal's.
const Version = "0.1.0"

// Options say where a run writes and how it computes. They never change a number.
type Options struct {
	Out      string
	Force    bool // overwrite another config's results
	Progress *Progress
	Cache    *pca.Cache // of fitted embeddings; nil for none
	Command  []string   // for the results to say how to repeat the run
}

// runner is the state of one run.
type runner struct {
	cfg      *config.Config
	pool     *ort.Pool
	cache    *pca.Cache
	progress *Progress
	seed     uint64
	file     *result.File
	journal  *journal
	gallery  *gallery
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
	seed                   uint64
}

func (j Job) key(a PlannedAttack, defense string, seed uint64) craftKey {
	k := craftKey{j.Suite.Dataset, j.Model.Name, a.Name, a.Epsilon, defense, "", seed}
	if defense != config.None {
		k.mode = j.Suite.Mode
	}
	return k
}

// targets are the defenses that a job attacks: the undefended network, and in a
// white-box suite every controlled one.
func (j Job) targets() []string {
	if j.Suite.Mode == result.Oblivious {
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
		Schema: result.Schema, Created: time.Now().UTC().Truncate(time.Second), ConfigSHA256: cfg.Hash(), Seed: cfg.Seed, Command: o.Command,
		Environment: result.Environment{Selfheal: Version, Go: runtime.Version(), ONNXRuntime: ort.Version(), Provider: pool.Provider(),
			Workers: pool.Workers(), Threads: pool.Threads(), Batch: pool.Batch(), Winograd: cfg.Runtime.Winograd, CPU: cpuName()},
		Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}, Cells: []result.Cell{},
	}
	for _, s := range cfg.Suites {
		numbers, err := cfg.PublishedNumbers(&s)
		if err != nil {
			return nil, nil, ConfigError{err}
		}
		r.file.Suites = append(r.file.Suites, result.Suite{Name: s.Name, Title: s.Title, Dataset: s.Dataset, Mode: s.Mode,
			Models: s.Models, Controls: append([]string{}, s.Controls...), Attacks: append([]string{}, s.Attacks...), Published: numbers})
	}
	if cfg.Theory {
		r.file.Theory = &result.Theory{Seed: cfg.Seed}
	}
	r.gallery = newGallery(cfg, r.file.ConfigSHA256)
	r.file.Gallery = r.gallery.file
	if r.journal, err = newJournal(o.Out, r.file, o.Force); err != nil {
		return nil, nil, err
	}
	if err := r.preflight(ctx, plan); err != nil {
		return nil, nil, err
	}
	for _, j := range plan.Jobs {
		for _, a := range j.Attacks {
			for _, defense := range j.targets() {
				// Controllers are given the images of an oblivious suite.
				given := j.Suite.Mode == result.Oblivious && len(j.Suite.Controls) > 0
				r.need(j.key(a, defense, cfg.Seed), given || j.Suite.SaveAdversarial)
				for _, seed := range cfg.OtherSeeds {
					r.need(j.key(a, defense, seed), given)
				}
			}
		}
	}
	r.reserve(plan)
	for _, j := range plan.Jobs {
		if err = r.job(ctx, j); err != nil {
			break
		}
		if err = r.study(ctx, j); err != nil {
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

// need notes that a job will ask for what is crafted under k, and whether for the images.
func (r *runner) need(k craftKey, images bool) {
	if r.uses[k] == nil {
		r.uses[k] = &use{}
	}
	r.uses[k].left++
	r.uses[k].images = r.uses[k].images || images
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
	if err := r.checkStudy(ctx, j, net); err != nil {
		return err
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
	if j.Suite.Mode == result.Oblivious || !slices.ContainsFunc(recipes, climbs) {
		return nil
	}
	t, err := defended(controlled(net, c), j.Suite.Mode)
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
