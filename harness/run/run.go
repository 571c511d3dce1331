// Package run carries out a plan: it opens data, networks and controllers, attacks, judges the images that attacks
// return, and writes the results. [Run] does all of it; [Prepare] only checks that a plan can be carried out;
// [Results] makes results out of a complete journal; [Verify] judges saved images again. A run that was stopped
// continues where it ended and reaches the same results. The tests of package harness run whole plans through it.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness"
	"selfheal/harness/cell"
	"selfheal/harness/certify"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/journal"
	"selfheal/internal/memory"
	"selfheal/models/bounds"
	"selfheal/models/ort"
)

// GCPercent is for debug.SetGCPercent in programs that run suites. On a small network, half of a run's memory is
// garbage in Go; collecting twice as often saves a tenth of it and costs 1 % of the time.
const GCPercent = 50

// Options say where a run writes and how it computes. They change no number.
type Options struct {
	Out             string
	Resume          bool // Out must hold this plan's run, finished or not
	atomicfile.Rule      // files that may be replaced; with Force the run starts anew, whatever Out holds
	Progress        *progress.Progress
	Cache           *pca.Cache // of fitted embeddings; may be nil
	Command         []string   // recorded in the results, to repeat the run
	KeepInputs      string     // see [folder.Folder.KeepInputs]
	// Report, unless nil, is called when the results are in Out, while no other run may write there.
	Report func(*result.File) error
	// Part is the part of the plan to do; nil is all of it.
	Part *Part
}

// Part is one shard of a plan. Its results are its journal.
type Part struct {
	Shard plan.Shard
	Dir   string                     // the shard's own folder
	Known map[string]*dataset.Digest // of data sets that another shard has read whole
	// Read, unless nil, is called with the data sets once all are open.
	Read func(map[string]*dataset.Dataset) error
}

// run is the state of one run over a plan's jobs. It is the plan's visitor and the maker of its trials.
type run struct {
	*open.Opener
	ctx     context.Context // of the walk
	plan    *plan.Plan
	part    *Part // nil for all of the plan
	out     *folder.Folder
	journal *folder.Journal
	source  Source
	cells   *cells        // nil in a part: the merge makes the cells
	tally   *folder.Tally // nil except in a part
	gallery *gallery
	images  *images
	probes  map[cell.Made][]result.Warning
	kept    map[*plan.Job]*open.Job // jobs that stay open from preflight on

	// The state of the present job and group.
	job    *open.Job
	prover *certify.Prover
	clean  map[string]*judgement // by defense; nil if the clean images have no verdicts
	target *target               // nil until images are made
}

// Run carries out a plan and returns its results, which it also writes to o.Out. If o.Out holds a run of the same
// plan, Run continues it, or returns its results if it is finished. After an error Run returns the finished cells,
// and all work done is on disk. The folder of another run is an [folder.ErrOtherRun].
func Run(ctx context.Context, p *plan.Plan, o Options) (*result.File, error) {
	r, finished, err := prepare(ctx, p, o)
	defer r.close()
	if finished != nil || err != nil {
		return finished, err
	}
	if r.journal == nil {
		if r.journal, err = r.out.Begin(r.planned()); err != nil {
			return nil, err
		}
	}
	r.Record.Environment.Batch = r.Pool.Batch() // with room for every network
	r.count()
	began := time.Now()
	r.Progress.Report(progress.RunStarted{Out: o.Out, ConfigSHA256: r.Record.ConfigSHA256, Cells: p.Cells()})
	err = r.walk(ctx)
	r.Record.Environment.Batch = r.Pool.Batch()
	if err = r.end(o, err); err == nil {
		r.Progress.Report(progress.RunFinished{Out: o.Out, Cells: len(r.Record.Cells), Took: time.Since(began)})
	}
	return r.Record, err
}

// Prepare returns an error unless a plan can be carried out and its results fit on the disk. It computes nothing.
func Prepare(ctx context.Context, p *plan.Plan, o Options) error {
	r, _, err := prepare(ctx, p, o)
	r.close()
	return err
}

// prepare opens the output folder and, unless that has a finished run of the plan, every file that the plan needs.
func prepare(ctx context.Context, p *plan.Plan, o Options) (r *run, finished *result.File, err error) {
	opener, err := open.New(p.Config, open.Options{Cache: o.Cache, Progress: o.Progress})
	if err != nil {
		return nil, nil, err
	}
	r = &run{Opener: opener, plan: p, part: o.Part}
	r.source = live{r}
	if err := r.describe(o.Command); err != nil {
		return r, nil, open.Wrong(err)
	}
	dir := o.Out
	if o.Part != nil {
		dir, r.Together, r.Known = o.Part.Dir, true, o.Part.Known
	}
	if r.out, err = folder.Open(dir, o.Rule); err != nil {
		return r, nil, err
	}
	r.out.KeepInputs = o.KeepInputs
	if finished, err := r.compare(o); finished != nil || err != nil {
		return r, finished, err
	}
	if err := r.out.Claim(); err != nil {
		return r, nil, err
	}
	if err := r.ready(ctx); err != nil {
		return r, nil, err
	}
	if o.Part != nil && o.Part.Read != nil {
		err = o.Part.Read(r.Sets)
	}
	return r, nil, err
}

func (r *run) close() {
	if r == nil {
		return
	}
	if r.journal != nil {
		_ = r.journal.Close()
	}
	if r.out != nil {
		r.out.Unlock()
	}
	for _, b := range r.kept {
		b.Close()
	}
	r.Opener.Close()
}

// Results makes the results of a plan from a complete journal and writes them to a folder.
func Results(ctx context.Context, p *plan.Plan, opener *open.Opener, out *folder.Folder, j *folder.Journal, s Source,
	report func(*result.File) error) error {
	r := &run{Opener: opener, plan: p, out: out, journal: j, source: s}
	if err := r.walk(ctx); err != nil {
		return err
	}
	return r.end(Options{Report: report}, nil)
}

// walk goes over the plan, again if the journal lacks results from images that are already freed.
func (r *run) walk(ctx context.Context) error {
	r.ctx = ctx
	if r.part == nil {
		r.cells = &cells{r.Record, r.out, r.Progress, r.plan.Cells()}
	}
	r.images = &images{plan: r.plan, whole: r.part == nil, journal: r.journal, again: map[folder.Key]bool{}}
	r.probes = map[cell.Made][]result.Warning{}
	defer r.leave()
	for {
		r.images.reserve()
		r.gallery = newGallery(r.Config, r.Record)
		err := r.plan.Walk(r)
		if !errors.Is(err, journal.ErrNoVector) || !r.images.lost(r.job.Job) {
			return err
		}
		r.leave()
		r.Record.Cells, r.Record.Solver, r.Record.Failed = []result.Cell{}, nil, nil
		if r.out.Close() != nil {
			return err
		}
	}
}

// end writes the results. It returns the most urgent of several errors: something is not on disk.
func (r *run) end(o Options, err error) error {
	if err == nil {
		r.Record.Finished = new(time.Now().UTC().Truncate(time.Second))
	}
	if r.part != nil {
		r.tally.Write()
		p := r.planned()
		if err = cmp.Or(r.journal.Close(), err); err == nil {
			p.Journal, err = r.out.JournalState()
		}
		if err == nil {
			if err = r.out.Write(p); err != nil {
				err = fmt.Errorf("%s: %w", r.out.Dir, fault.Reason(err))
			}
		}
		return r.out.Unfinish(err)
	}
	maskedByControl(r.Record.Cells, r.Progress)
	published, perr := r.out.Publish(r.Record, o.Report)
	perr = cmp.Or(perr, r.journal.Close())
	switch {
	case perr == nil && err == nil:
		return cmp.Or(r.out.Finish(), folder.Failures(r.Record))
	case perr == nil && !published && r.out.Old != nil:
		r.Progress.Report(progress.ResultsStay{Out: r.out.Dir})
	}
	return r.out.Unfinish(cmp.Or(perr, err))
}

func (r *run) planned() folder.Planned {
	p := folder.Planned{Run: r.Record}
	if r.part != nil {
		p.Config, p.Shard = r.Config.Portable(), &r.part.Shard
	}
	return p
}

// compare opens the journal of an unfinished run of this plan, or returns a finished run's results.
func (r *run) compare(o Options) (finished *result.File, err error) {
	out := r.out
	held := out.Old
	if out.Plan != nil {
		held = out.Plan.Run
	}
	switch {
	case o.Force:
		return nil, nil
	case held == nil && o.Resume:
		return nil, open.Wrong(fmt.Errorf("--resume: %s holds no run", out.Dir))
	case held == nil:
		return nil, nil
	}
	if err := r.Identify(held); err != nil {
		return nil, open.Wrong(err)
	}
	err = out.Holds(held, r.Record)
	if err == nil && out.Old != nil { // another plan's, if a run with --force was stopped
		var list []result.Difference
		list, err = folder.Differ(out.Old, r.Record)
		out.Same = len(list) == 0
	}
	switch {
	case err != nil:
		return nil, err
	case out.Plan == nil && out.Old.Finished != nil:
		r.Progress.Report(progress.RunIsThere{Out: out.Dir, Finished: *out.Old.Finished})
		return out.Old, folder.Failures(out.Old)
	case out.Plan == nil:
		return nil, nil
	}
	if held.Finished != nil { // a shard's
		if now, err := out.JournalState(); err == nil && now == out.Plan.Journal {
			r.Progress.Report(progress.RunIsThere{Out: out.Dir, Finished: *held.Finished})
			return held, nil
		}
	}
	r.Record.Created, r.Record.Command = held.Created, held.Command
	var damaged int
	if r.journal, damaged, err = out.Continue(); err == nil {
		r.Progress.Report(progress.RunContinues{Out: out.Dir, Begun: held.Created, Killed: out.Before,
			Damaged: damaged})
	}
	return nil, err
}

// describe begins the results with the run's time, machine and inputs.
func (r *run) describe(command []string) error {
	f, cfg := r.Record, r.Config
	f.Schema, f.Created, f.ConfigSHA256 = result.Schema, time.Now().UTC().Truncate(time.Second), cfg.Hash()
	if f.Seed, f.Command = cfg.Seed, command; len(cfg.OtherSeeds) > 0 {
		f.Seeds = r.plan.Seeds()
	}
	f.Environment = result.Environment{Selfheal: harness.Version, Go: runtime.Version(), ONNXRuntime: ort.Version(),
		Provider: r.Pool.Target(true).Provider, Precision: r.Pool.Target(true).Precision,
		Workers: r.Pool.Workers(), Threads: r.Pool.Threads(),
		Batch: r.Pool.Batch(), Winograd: cfg.Runtime.Winograd, CPU: cpuName()}
	for _, s := range cfg.Suites {
		f.Suites = append(f.Suites, result.Suite{Name: s.Name, Title: s.Title, Dataset: s.Dataset, Mode: s.Attacker(),
			Models: s.Models, Controls: append([]string{}, s.Controls...), Attacks: append([]string{}, s.Attacks...),
			Pairs: s.Pairs, Published: cfg.PublishedNumbers(&s)})
	}
	for _, a := range cfg.Attacks {
		trials, err := plan.Trials(&a)
		if err != nil {
			return err
		}
		if f.Attacks[a.Name], err = trials[0].Describe(); err != nil {
			return err
		}
	}
	if cfg.Theory {
		f.Theory = &result.Theory{Seed: cfg.Seed}
	}
	return nil
}

func cpuName() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}

// count begins the status of a part, with the number of images that it attacks, summed over attacks and networks.
func (r *run) count() {
	if r.part == nil {
		return
	}
	images, own := 0, map[string]int{}
	for name := range r.Record.Datasets {
		if set, err := r.Scored(name); err == nil { // it is open
			own[name] = set.Share(r.part.Shard).Mine()
		}
	}
	r.plan.EachMade(func(s plan.Step, k cell.Made) {
		recipe, err := s.Recipe(plan.AssumedClasses, attacks.AnyShape)
		if err == nil && recipe.Corruption == nil && recipe.Certificate == nil {
			images += own[k.Dataset]
		}
	})
	r.tally = r.out.Tally(images)
	r.Progress.Follow(r.tally.Write)
}

// preflight opens all that a run needs at its start, so that a missing file ends it before hours are spent.
type preflight struct {
	*open.Opener
	ctx      context.Context
	compared map[string]bool // models whose gradients were compared with the CPU provider's
}

// ready checks that a plan's files are there and fit each other. Networks stay open for their jobs as long as the
// process takes less than a fifth of the memory that was free.
func (r *run) ready(ctx context.Context) error {
	f := preflight{Opener: r.Opener, ctx: ctx, compared: map[string]bool{}}
	r.kept = map[*plan.Job]*open.Job{}
	for _, j := range r.plan.Jobs {
		err := r.check(f, j)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return open.Wrong(err)
		}
	}
	return nil
}

// check checks a job, and keeps it open if the memory allows it.
func (r *run) check(f preflight, j *plan.Job) error {
	b, err := f.Job(j)
	if err != nil {
		return err
	}
	if err := f.job(b); err != nil {
		b.Close()
		return err
	}
	if free, known := memory.Free(); !known || memory.Resident() >= free/4 {
		b.Close()
		return nil
	}
	if b.Provisional() {
		b.Undefend()
	}
	r.kept[j] = b
	return nil
}

// job closes a job's loops, and differentiates the loops that attacks will differentiate.
func (p preflight) job(b *open.Job) error {
	j := b.Job
	if err := p.comparable(b); err != nil {
		return err
	}
	if slices.ContainsFunc(j.Trials, plan.Trial.Exact) {
		if err := bounds.Provable(b.Net.Graph); err != nil {
			return fmt.Errorf("model %s: %w", b.Net.Name, err)
		}
	}
	if err := b.Defend(p.ctx, false); err != nil {
		return err
	}
	for _, c := range b.Classifiers {
		if c.Loop != nil && !j.Oblivious() && b.TakesGradients() {
			if err := differentiate(b, c); err != nil {
				return err
			}
		}
	}
	return p.study(j, b.Net)
}

func differentiate(b *open.Job, c open.Classifier) error {
	on, err := b.Oracle(c)
	if err != nil {
		return err
	}
	defer on.Close()
	return on.Prepare(attacks.CrossEntropy)
}

// study closes the loops of a job's study and checks that its attack can be made.
func (p preflight) study(j *plan.Job, net *control.Network) error {
	if !j.Studies() {
		return nil
	}
	if j.Studied != nil {
		if _, err := open.RecipeFor(j.Studied, net); err != nil {
			return err
		}
	}
	for _, name := range j.Suite.Solver.Controls {
		c, err := p.Controller(p.ctx, net, p.Config.Control(name), false)
		if err != nil {
			return err
		}
		c.Close()
	}
	return nil
}

// comparedImages is the number of images whose gradients are compared.
const comparedImages = 8

// comparable refuses a provider whose gradients differ from the CPU provider's, which judges. In place of a device's
// judge, a small pool on the CPU computes the same.
func (p preflight) comparable(b *open.Job) error {
	onCPU := !p.Pool.Target(true).Row().All
	if p.Pool.Target(true) == p.Pool.Target(false) && onCPU || p.compared[b.Model.Name] {
		return nil
	}
	reference := b.Net
	if !onCPU {
		pool := ort.NewPool(0, comparedImages)
		defer pool.Close()
		here, err := p.NetworkOn(pool, b.Model, b.Suite.Dataset)
		if err != nil {
			return err
		}
		defer here.Close()
		reference = here
	}
	p.compared[b.Model.Name] = true
	return compare(p.ctx, reference, b)
}

// compare returns an error if a job's gradients for attacks differ from those of a reference.
func compare(ctx context.Context, reference *control.Network, b *open.Job) error {
	apart, err := control.Apart(ctx, reference, b.Attacked, min(comparedImages, b.Set.Len()), b.Set.Read)
	if err == nil {
		err = apart.Check()
	}
	if err != nil {
		return fmt.Errorf("model %s: %w; take provider cpu", b.Model.Name, err)
	}
	return nil
}
