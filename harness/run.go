package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"selfheal/attacks"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/journal"
	"selfheal/models/ort"
)

// GCPercent is what programs that run suites give to debug.SetGCPercent: of a small network, what images leave
// behind in Go is half of a run's memory. Collected twice as often it is a tenth less, and as much with many
// images as with few, for 1 % of the time.
const GCPercent = 50

// Version is selfheal's.
const Version = "0.1.0"

// Options say where a run writes and how it computes. They never change a number.
type Options struct {
	Out      string
	Resume   bool  // Out must hold this plan's run, finished or not
	Force    bool  // start anew, whatever Out holds
	Shard    Shard // the part to do, in a folder of Out; the zero value is all
	Attempt  bool  // work on the shard beside whoever else does, in a folder of one's own
	Progress *Progress
	Cache    *pca.Cache // of fitted embeddings; nil for none
	Costs    *CostCache // a forecast in it helps to tell the time left; nil for none
	Command  []string   // for the results to say how to repeat the run
	// Report, unless nil, is called when the results are in Out, while no other run may write
	// there.
	Report func(*result.File) error
}

// run is the state of one run over a plan's jobs.
type run struct {
	*opener
	plan    *Plan
	shard   Shard               // the zero value where it does all of the plan
	parts   [][]shardWork       // of a merge: attempts, by the shard's number
	sums    map[string]checksum // of files that shards have saved, by their paths
	merging bool                // all is in the journal, and nothing is opened
	out     *output
	journal *journal.Journal
	again   map[string]bool // keys of crafting whose images were freed too early
	gallery *gallery
	tally   *tally // nil but in shards
	uses    map[craftKey]*use
	probes  map[probeKey][]result.Warning
	near    map[string]bool // models whose gradients are those of the judge where attacks run
}

// craftKey identifies what is crafted once in a run, whatever suites ask for it.
type craftKey struct {
	dataset, model, attack string
	epsilon                float64
	defense, mode          string // "none" and "" where the undefended network is attacked
	seed                   uint64
}

// String is the key in the journal.
func (k craftKey) String() string {
	return fmt.Sprintf("%q %q %q %v %q %q %d", k.dataset, k.model, k.attack, k.epsilon, k.defense, k.mode, k.seed)
}

func (j Job) key(a PlannedAttack, defense string, seed uint64) craftKey {
	k := craftKey{j.Suite.Dataset, j.Model.Name, a.Name, a.Epsilon, defense, "", seed}
	if a.proves() { // of every attacker
		if attacks.Smooths(a.Kind) { // for all epsilons at once
			k.epsilon = a.Epsilons[0]
		}
	} else if defense != config.None {
		k.mode = j.Suite.Mode
	}
	return k
}

// attacked are the defenses that a job attacks: the undefended network, and in a
// white-box suite every controlled one.
func (j Job) attacked() []string {
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

// Run carries out a plan and returns its results, which are also in o.Out: a run of the same plan
// that was ended there is continued, and a finished one left as it is. When it ends early, by an
// error or because ctx was cancelled, the cells that were finished are returned, and everything
// that was done is on disk. Another run's folder is an [ErrOtherRun].
func Run(ctx context.Context, plan *Plan, o Options) (*result.File, error) {
	r, err := newRun(plan, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	dir := o.Out
	if r.shard = o.Shard; r.shard.N > 0 {
		// What is fitted goes to all shards: fits on several kinds of processor differ in their last digits.
		r.cache, r.together = &pca.Cache{Dir: filepath.Join(dir, "fits")}, true
		if err := r.findShares(o.Out, o.Force); err != nil {
			return nil, err
		}
		for _, name := range []string{"fits", r.shard.folder()} {
			if _, there := os.Lstat(filepath.Join(dir, name)); there == nil { // it may be a link
				if err := atomicfile.In(dir).Make(name); err != nil {
					return nil, fmt.Errorf("output folder %s: %w", filepath.Join(dir, name), err)
				}
			}
		}
		dir = filepath.Join(dir, r.shard.folder())
	}
	if o.Attempt {
		if dir, err = newAttempt(dir); err != nil {
			return nil, err
		}
	}
	if r.out, err = openOutput(dir, o.Force); err != nil {
		return nil, err
	}
	defer r.out.unlock()
	defer func() {
		if r.journal != nil {
			_ = r.journal.Close()
		}
	}()
	if finished, err := r.compare(o); finished != nil || err != nil {
		return finished, err
	}
	if err := r.preflight(ctx); err != nil {
		return nil, err
	}
	r.reserve()
	if r.shard.N > 0 {
		if err := r.share(ctx, o.Out, o.Force); err != nil {
			return nil, err
		}
	}
	if r.journal == nil {
		if r.journal, err = r.out.begin(r.planned()); err != nil {
			return nil, err
		}
	}
	r.record.Environment.Batch = r.pool.Batch() // with room for every network
	r.expect(o.Costs)
	if r.shard.N > 0 {
		r.tally = r.expecting()
		r.progress.status = func(left *time.Duration) { r.tally.write(left) }
	}
	began := time.Now()
	r.progress.report(runStarted{o.Out, r.record.ConfigSHA256, plan.Cells()})
	for i := 0; i < len(plan.Jobs) && err == nil; i++ {
		err = r.job(ctx, plan.Jobs[i])
		if errors.Is(err, journal.ErrNoVector) && r.startOver(plan.Jobs[i]) {
			i, err = -1, nil
		}
	}
	r.record.Environment.Batch = r.pool.Batch()
	if err = r.end(o, err); err == nil {
		r.progress.report(runFinished{o.Out, len(r.record.Cells), time.Since(began)})
	}
	return r.record, err
}

// newRun is a run that has opened nothing yet. Close it.
func newRun(plan *Plan, o Options) (*run, error) {
	opener, err := newOpener(plan.Config, o.Cache, o.Progress)
	if err != nil {
		return nil, err
	}
	r := &run{opener: opener, plan: plan, uses: map[craftKey]*use{}, probes: map[probeKey][]result.Warning{},
		near: map[string]bool{}, again: map[string]bool{}}
	if err := r.describe(o.Command); err != nil {
		opener.close()
		return nil, ConfigError{err}
	}
	r.gallery = newGallery(r.cfg, r.record.ConfigSHA256)
	r.record.Gallery = r.gallery.file
	return r, nil
}

// Unfinished is the error that ended a run or a training whose finished part is on disk: the same one continues.
type Unfinished struct{ error }

// Unwrap returns the error itself.
func (e Unfinished) Unwrap() error { return e.error }

// unfinished is an [Unfinished] where the journal is still there, with what was done in it.
func (o *output) unfinished(err error) error {
	if _, gone := os.Lstat(o.work(journal.File)); errors.Is(gone, fs.ErrNotExist) {
		return fmt.Errorf("output folder %s was removed while the run was at work; nothing of it is kept", o.dir)
	}
	return Unfinished{err}
}

// end writes the results, and what only all cells together tell. Of several errors it returns the
// most urgent first: something is not on disk.
func (r *run) end(o Options, err error) error {
	maskedByControl(r.record.Cells, r.progress)
	if err == nil {
		r.record.Finished = new(time.Now().UTC().Truncate(time.Second))
	}
	if r.shard.N > 0 {
		r.tally.write(nil)
		p := r.planned()
		if err = cmp.Or(r.journal.Close(), err); err == nil {
			p.Journal, err = r.out.journalState()
		}
		if err == nil {
			if err = r.out.write(p); err != nil {
				err = fmt.Errorf("%s: %w", r.out.dir, fault.Reason(err))
			}
		}
		if err != nil {
			err = r.out.unfinished(err)
		}
		return err
	}
	published, perr := r.out.publish(r.record, o.Report)
	perr = cmp.Or(perr, r.journal.Close())
	switch {
	case perr == nil && err == nil:
		return cmp.Or(r.out.finish(), failures(r.record))
	case perr == nil && !published && r.out.old != nil:
		r.progress.report(resultsStay{r.out.dir})
	}
	return r.out.unfinished(cmp.Or(perr, err))
}

// planned is what the work folder says of the run.
func (r *run) planned() planned {
	p := planned{Run: r.record}
	if r.shard.N > 0 {
		p.Config, p.Shard, p.Shares = r.cfg.Portable(), &r.shard, r.shares.sum
	}
	return p
}

// startOver prepares to go through the jobs again, as the journal lacks what followed from images of one
// that are freed: they are made again. It returns false where they were.
func (r *run) startOver(j Job) bool {
	if r.again[studyKey(j)] {
		return false
	}
	r.again[studyKey(j)] = true
	for k := range j.needs(r.seeds()) {
		r.again[k.String()] = true
	}
	r.record.Cells, r.record.Solver, r.record.Failed = []result.Cell{}, nil, nil
	r.gallery = newGallery(r.cfg, r.record.ConfigSHA256)
	r.record.Gallery, r.uses = r.gallery.file, map[craftKey]*use{}
	r.reserve()
	return r.out.close() == nil
}

// describe begins the results: when, where and of what the run is made.
func (r *run) describe(command []string) error {
	f, cfg := r.record, r.cfg
	f.Schema, f.Created, f.ConfigSHA256 = result.Schema, time.Now().UTC().Truncate(time.Second), cfg.Hash()
	if f.Seed, f.Command = cfg.Seed, command; len(cfg.OtherSeeds) > 0 {
		f.Seeds = r.seeds()
	}
	f.Environment = result.Environment{Selfheal: Version, Go: runtime.Version(), ONNXRuntime: ort.Version(),
		Provider: r.pool.Provider(), Precision: r.pool.Precision(),
		Workers: r.pool.Workers(), Threads: r.pool.Threads(),
		Batch: r.pool.Batch(), Winograd: cfg.Runtime.Winograd, CPU: cpuName()}
	for _, s := range cfg.Suites {
		f.Suites = append(f.Suites, result.Suite{Name: s.Name, Title: s.Title, Dataset: s.Dataset, Mode: s.Mode,
			Models: s.Models, Controls: append([]string{}, s.Controls...), Attacks: append([]string{}, s.Attacks...),
			Published: cfg.PublishedNumbers(&s)})
	}
	for _, a := range cfg.Attacks {
		known, err := (PlannedAttack{Attack: &a}).describe()
		if err != nil {
			return err
		}
		f.Attacks[a.Name] = known
	}
	if cfg.Theory {
		f.Theory = &result.Theory{Seed: cfg.Seed}
	}
	return nil
}

// cpuName names the processor, as far as the system tells.
func cpuName() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}

// seeds are those that every attack is made under, the cells' own first.
func (p *Plan) seeds() []uint64 { return append([]uint64{p.Config.Seed}, p.Config.OtherSeeds...) }

func (r *run) seeds() []uint64 { return r.plan.seeds() }

// reserve notes what the jobs will ask for, and whether for the images.
func (r *run) reserve() {
	for _, j := range r.plan.Jobs {
		given := j.Suite.Mode == result.Oblivious && len(j.Suite.Controls) > 0 // images, to every control
		kept := j.Suite.SaveAdversarial || j.polls() > 0                       // on disk, for smoothed classifiers
		for k := range j.needs(r.seeds()) {
			if r.uses[k.craftKey] == nil {
				r.uses[k.craftKey] = &use{}
			}
			u := r.uses[k.craftKey]
			u.left++
			u.images = u.images || given || k.n == 0 && kept // of a certificate there are none
		}
	}
	for _, j := range r.plan.Jobs { // studies take the images that are made anyway
		if u := r.studied(j); u != nil {
			u.left++
		}
	}
}

// preflight opens everything that the run will need, before an hour is spent on
// the first model and the last one turns out to be missing.
func (r *run) preflight(ctx context.Context) error {
	for _, j := range r.plan.Jobs {
		err := r.check(ctx, j)
		if ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return ConfigError{err}
		}
	}
	return nil
}

func (r *run) check(ctx context.Context, j Job) error {
	b, err := r.prepare(j)
	if err != nil {
		return err
	}
	defer b.close()
	if err := r.comparable(ctx, b); err != nil {
		return err
	}
	if slices.ContainsFunc(j.Attacks, func(a PlannedAttack) bool { return a.bounds() || a.Prove }) {
		if err := proves(b.net.Graph); err != nil {
			return fmt.Errorf("model %s: %w", b.net.Name, err)
		}
	}
	climbs := j.Suite.Mode != result.Oblivious &&
		slices.ContainsFunc(b.recipes, func(r attacks.Recipe) bool { return takesGradients(r, b.net.Classes()) })
	for _, name := range j.Suite.Controls {
		if err := r.checkControl(ctx, b, name, climbs); err != nil {
			return err
		}
	}
	return r.checkStudy(ctx, j, b.net)
}

// checkControl closes the loop of a control, and differentiates it where attacks will.
func (r *run) checkControl(ctx context.Context, b *bench, name string, climbs bool) error {
	loop, err := r.controller(ctx, b.net, r.cfg.Control(name), false)
	if err != nil {
		return err
	}
	defer loop.Close()
	if !climbs {
		return nil
	}
	on, err := b.oracle(under(loop, b.net))
	if err != nil {
		return err
	}
	defer on.close()
	return on.prepare(attacks.CrossEntropy)
}
