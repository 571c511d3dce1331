// Package run carries out a plan: it opens data, networks and controllers, attacks, judges the images that attacks
// return, and writes the results. [Run] does all of it; [Prepare] only checks that a plan can be carried out;
// [Results] makes results out of a complete journal; [Verify] judges saved images again. A run that was stopped
// continues where it ended and reaches the same results. The tests of package harness run whole plans through it.
package run

import (
	"cmp"
	"context"
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
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/signs"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
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

// run is one run of a plan: where its inputs come from and where its results go.
type run struct {
	ctx      context.Context
	plan     *plan.Plan
	record   *result.File
	progress *progress.Progress
	out      *folder.Folder
	journal  *folder.Journal
	source   Source
	cells    *cells        // nil in a part: the merge makes the cells
	tally    *folder.Tally // nil except in a part
}

// computed is a run that computes its results. Its source is itself.
type computed struct {
	*run
	*open.Opener
	part *Part                   // nil for all of the plan
	kept map[*plan.Job]*open.Job // jobs that stay open from preflight on
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
	r.record.Environment.Batch = r.Pool.Batch() // with room for every network
	r.count()
	began := time.Now()
	r.progress.Report(progress.RunStarted{Out: o.Out, ConfigSHA256: r.record.ConfigSHA256, Cells: p.Cells()})
	if r.part == nil {
		r.cells = newCells(r.run)
	}
	err = r.walk()
	r.record.Environment.Batch = r.Pool.Batch()
	if r.part != nil {
		err = r.endPart(err)
	} else {
		err = r.end(o.Report, err)
	}
	if err == nil {
		r.progress.Report(progress.RunFinished{Out: o.Out, Cells: len(r.record.Cells), Took: time.Since(began)})
	}
	return r.record, err
}

// Prepare returns an error unless a plan can be carried out and its results fit on the disk. It computes nothing.
func Prepare(ctx context.Context, p *plan.Plan, o Options) error {
	r, _, err := prepare(ctx, p, o)
	r.close()
	return err
}

// prepare opens the output folder and, unless that has a finished run of the plan, every file that the plan needs.
func prepare(ctx context.Context, p *plan.Plan, o Options) (r *computed, finished *result.File, err error) {
	opener, err := open.New(p.Config, open.Options{Cache: o.Cache, Progress: o.Progress})
	if err != nil {
		return nil, nil, err
	}
	r = &computed{Opener: opener, part: o.Part,
		run: &run{ctx: ctx, plan: p, record: opener.Record, progress: opener.Progress}}
	r.source = r
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
	if err := r.ready(); err != nil {
		return r, nil, err
	}
	if o.Part != nil && o.Part.Read != nil {
		err = o.Part.Read(r.Opened())
	}
	return r, nil, err
}

func (r *computed) close() {
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

// Results makes the results of a plan from a complete journal, completes record by them and writes it to a folder.
func Results(ctx context.Context, p *plan.Plan, record *result.File, report *progress.Progress, out *folder.Folder,
	j *folder.Journal, s Source, written func(*result.File) error) error {
	r := &run{ctx: ctx, plan: p, record: record, progress: report, out: out, journal: j, source: s}
	r.cells = newCells(r)
	if err := r.walk(); err != nil {
		return err
	}
	return r.end(written, nil)
}

// end completes the results and writes them. It returns the most urgent of several errors: something is not on disk.
func (r *run) end(report func(*result.File) error, err error) error {
	if err == nil {
		r.record.Finished = new(now())
	}
	signs.Between(r.record.Cells, func(c *result.Cell, w result.Warning) {
		r.progress.Report(progress.CellWarned{ID: c.ID, Which: w.ID, Message: w.Message})
	})
	published, perr := r.out.Publish(r.record, report)
	perr = cmp.Or(perr, r.journal.Close())
	switch {
	case perr == nil && err == nil:
		return cmp.Or(r.out.Finish(), folder.Failures(r.record))
	case perr == nil && !published && r.out.Old != nil:
		r.progress.Report(progress.ResultsStay{Out: r.out.Dir})
	}
	return r.out.Unfinish(cmp.Or(perr, err))
}

// endPart writes that a part has ended. Its results are its journal.
func (r *computed) endPart(err error) error {
	if err == nil {
		r.record.Finished = new(now())
	}
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

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

func (r *computed) planned() folder.Planned {
	p := folder.Planned{Run: r.record}
	if r.part != nil {
		p.Config, p.Shard = r.Config.Portable(), &r.part.Shard
	}
	return p
}

// compare opens the journal of an unfinished run of this plan, or returns a finished run's results.
func (r *computed) compare(o Options) (finished *result.File, err error) {
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
	err = out.Holds(held, r.record)
	if err == nil && out.Old != nil { // another plan's, if a run with --force was stopped
		out.Same = len(folder.Differ(out.Old, r.record)) == 0
	}
	switch {
	case err != nil:
		return nil, err
	case out.Plan == nil && out.Old.Finished != nil:
		r.progress.Report(progress.RunIsThere{Out: out.Dir, Finished: *out.Old.Finished})
		return out.Old, folder.Failures(out.Old)
	case out.Plan == nil:
		return nil, nil
	}
	if held.Finished != nil { // a shard's
		if state, err := out.JournalState(); err == nil && state == out.Plan.Journal {
			r.progress.Report(progress.RunIsThere{Out: out.Dir, Finished: *held.Finished})
			return held, nil
		}
	}
	r.record.Created, r.record.Command = held.Created, held.Command
	var damaged int
	if r.journal, damaged, err = out.Continue(); err == nil {
		r.progress.Report(progress.RunContinues{Out: out.Dir, Begun: held.Created, Killed: out.Before,
			Damaged: damaged})
	}
	return nil, err
}

// describe begins the results with the run's time, machine and inputs.
func (r *computed) describe(command []string) error {
	f, cfg := r.record, r.Config
	f.Schema, f.Created, f.ConfigSHA256 = result.Schema, now(), cfg.Hash()
	if f.Seed, f.Command = cfg.Seed, command; len(cfg.OtherSeeds) > 0 {
		f.Seeds = r.plan.Seeds()
	}
	f.Environment = result.Environment{Selfheal: harness.Version, Go: runtime.Version(), ONNXRuntime: ort.Version(),
		Provider: r.Pool.Target(true).Provider, Precision: r.Pool.Target(true).Precision,
		Workers: r.Pool.Workers(), Threads: r.Pool.Threads(),
		Batch: r.Pool.Batch(), Winograd: cfg.Runtime.Winograd, CPU: cpuName()}
	for _, s := range cfg.Suites {
		f.Suites = append(f.Suites, result.Suite{Name: s.Name, Title: s.Title, Dataset: s.Dataset,
			Mode: s.Attackers()[0], Modes: s.Modes, Models: s.Models, Controls: append([]string{}, s.Controls...),
			Attacks: append([]string{}, s.Attacks...), Pairs: s.Pairs, Published: cfg.PublishedNumbers(&s)})
	}
	for name, trials := range r.plan.Trials {
		var err error
		if f.Attacks[name], err = trials[0].Describe(); err != nil {
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
func (r *computed) count() {
	if r.part == nil {
		return
	}
	images, own := 0, map[string]int{}
	for name := range r.record.Datasets {
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
	r.progress.Follow(r.tally.Write)
}

// ready opens all that a plan needs at its start, so that a missing file ends it before hours are spent. It checks that
// the files fit each other. Networks stay open for their jobs as long as the process takes less than a fifth of the
// memory that was free.
func (r *computed) ready() error {
	compared := map[string]bool{}
	r.kept = map[*plan.Job]*open.Job{}
	for _, j := range r.plan.Jobs {
		err := r.check(j, compared)
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if err != nil {
			return open.Wrong(err)
		}
	}
	return nil
}

// check checks a job, and keeps it open if the memory allows it. compared are the models whose gradients were compared
// with the CPU provider's.
func (r *computed) check(j *plan.Job, compared map[string]bool) error {
	b, err := r.Job(r.ctx, j)
	if err != nil {
		return err
	}
	if !compared[j.Model.Name] {
		compared[j.Model.Name] = true
		err = r.comparable(b)
	}
	if err == nil {
		err = r.preflight(b)
	}
	if free, known := memory.Free(); err != nil || !known || memory.Resident() >= free/4 {
		b.Close()
		return err
	}
	if b.Provisional() {
		b.Undefend()
	}
	r.kept[j] = b
	return nil
}

// preflight closes a job's loops, those of its study too, and differentiates the loops that attacks will differentiate.
func (r *computed) preflight(b *open.Job) error {
	j := b.Job
	if slices.ContainsFunc(j.Trials, plan.Trial.Exact) {
		if err := bounds.Provable(b.Net.Graph); err != nil {
			return fmt.Errorf("model %s: %w", b.Net.Name, err)
		}
	}
	if err := b.Defend(r.ctx, false); err != nil {
		return err
	}
	for _, c := range b.Classifiers {
		if c.Loop == nil || !b.TakesGradients() {
			continue
		}
		for _, mode := range j.Attackers(c.Defense()) {
			if err := differentiate(b, c, mode); err != nil {
				return err
			}
		}
	}
	if !j.Studies() {
		return nil
	}
	if j.Studied != nil {
		if _, err := open.RecipeFor(j.Studied, b.Net); err != nil {
			return err
		}
	}
	for _, name := range j.Suite.Solver.Controls {
		c, err := b.Controller(r.ctx, name, false)
		if err != nil {
			return err
		}
		c.Close()
	}
	return nil
}

func differentiate(b *open.Job, c open.Classifier, mode string) error {
	on, err := b.Oracle(c, mode)
	if err != nil {
		return err
	}
	defer on.Close()
	return on.Prepare(attacks.CrossEntropy)
}

// comparedImages is the number of images whose gradients are compared.
const comparedImages = 8

// comparable refuses a provider whose gradients differ from the CPU provider's, which judges. In place of a device's
// judge, a small pool on the CPU computes the same.
func (r *computed) comparable(b *open.Job) error {
	onCPU := !r.Pool.Target(true).Row().All
	if r.Pool.Target(true) == r.Pool.Target(false) && onCPU {
		return nil
	}
	if onCPU {
		return compare(r.ctx, b.Net, b)
	}
	pool := ort.NewPool(0, comparedImages)
	defer pool.Close()
	here, err := r.NetworkOn(r.ctx, pool, b.Model, b.Suite.Dataset)
	if err != nil {
		return err
	}
	defer here.Close()
	return compare(r.ctx, here, b)
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
