// Package run carries out a plan: it opens data, networks and controllers, attacks, judges what the attacks return, and
// writes the results.
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
	"selfheal/control/pca"
	"selfheal/harness"
	"selfheal/harness/certify"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/fault"
	"selfheal/internal/journal"
	"selfheal/models/ort"
)

// GCPercent is the value that programs which run suites give to debug.SetGCPercent. On a small network, garbage in Go
// is half of a run's memory. Collected twice as often it is a tenth less, and as much with many images as with few, for
// 1 % of the time.
const GCPercent = 50

// Options say where a run writes and how it computes. They never change a number.
type Options struct {
	Out      string
	Resume   bool // Out must hold this plan's run, finished or not
	Force    bool // start anew, whatever Out holds
	Progress *progress.Progress
	Cache    *pca.Cache // of fitted embeddings; nil for none
	Command  []string   // for the results to say how to repeat the run
	// Report, unless nil, is called when the results are in Out, while no other run may write there.
	Report func(*result.File) error
	// Part is the part of the plan to do; nil is all of it.
	Part *Part
}

// Part is one shard of a plan, whose results are its journal.
type Part struct {
	Shard plan.Shard
	Dir   string                     // the folder that it works in
	Known map[string]*dataset.Digest // of data sets that another shard has read whole
	// Read, unless nil, is given the data sets once all are open.
	Read func(map[string]*dataset.Dataset) error
}

// run is the state of one run over a plan's jobs: a visitor of it, and the maker of its trials.
type run struct {
	*open.Opener
	ctx     context.Context // of the walk
	plan    *plan.Plan
	part    *Part // nil for all of the plan
	out     *folder.Folder
	journal *folder.Journal
	source  Source
	cells   *cells        // nil in a part, whose cells the merge makes
	tally   *folder.Tally // nil but in a part
	gallery *gallery
	again   map[string]bool // keys whose images were freed too early
	uses    map[plan.Key]*use
	probes  map[plan.Key][]result.Warning

	// The state of the job and the group that the walk is in.
	job    *open.Job
	prover *certify.Prover
	oracle *open.Oracle
	clean  map[string]*judgement // by defense; nil where the clean images have no verdicts
}

// use is how a run needs the images of a key.
type use struct {
	left   int      // steps that still need them
	images bool     // some step needs the adversarial images, not the verdicts alone
	made   *crafted // nil before the first and after the last step
}

// Run carries out a plan and returns its results, which are also in o.Out: a run of the same plan that was ended there
// is continued, and a finished one left as it is. When it ends early, by an error or because ctx was cancelled, the
// cells that were finished are returned, and everything that was done is on disk. Another run's folder is an
// [folder.ErrOtherRun].
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
	r.expect()
	began := time.Now()
	r.Progress.Report(progress.RunStarted{Out: o.Out, ConfigSHA256: r.Record.ConfigSHA256, Cells: p.Cells()})
	err = r.walk(ctx)
	r.Record.Environment.Batch = r.Pool.Batch()
	if err = r.end(o, err); err == nil {
		r.Progress.Report(progress.RunFinished{Out: o.Out, Cells: len(r.Record.Cells), Took: time.Since(began)})
	}
	return r.Record, err
}

// Prepare holds that a plan can be carried out and that its results find room, and begins nothing.
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
	r = newRun(opener, p)
	r.part, r.source = o.Part, live{r}
	if err := r.describe(o.Command); err != nil {
		return r, nil, open.Wrong(err)
	}
	dir := o.Out
	if o.Part != nil {
		dir, r.Together, r.Known = o.Part.Dir, true, o.Part.Known
	}
	r.gallery = newGallery(r.Config, r.Record)
	if r.out, err = folder.Open(dir, o.Force); err != nil {
		return r, nil, err
	}
	if finished, err := r.compare(o); finished != nil || err != nil {
		return r, finished, err
	}
	if err := Preflight(ctx, opener, p); err != nil {
		return r, nil, err
	}
	if o.Part != nil && o.Part.Read != nil {
		err = o.Part.Read(r.Sets)
	}
	return r, nil, err
}

// close lets other runs into the folder, and closes all files.
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
	r.Opener.Close()
}

// newRun is a run that has done nothing yet, of a plan's whole.
func newRun(opener *open.Opener, p *plan.Plan) *run {
	return &run{Opener: opener, plan: p, uses: map[plan.Key]*use{}, probes: map[plan.Key][]result.Warning{},
		again: map[string]bool{}}
}

// Results makes the results of a plan out of a complete journal, and writes them to a folder.
func Results(ctx context.Context, p *plan.Plan, opener *open.Opener, out *folder.Folder, j *folder.Journal, s Source,
	report func(*result.File) error) error {
	r := newRun(opener, p)
	r.out, r.journal, r.source = out, j, s
	r.gallery = newGallery(r.Config, r.Record)
	if err := r.walk(ctx); err != nil {
		return err
	}
	return r.end(Options{Report: report}, nil)
}

// walk goes over the plan. Where the journal lacks what followed from images that are freed, it begins anew and makes
// these again.
func (r *run) walk(ctx context.Context) error {
	r.ctx = ctx
	if r.part == nil {
		r.cells = &cells{r.Record, r.out, r.Progress, r.plan.Cells()}
	}
	defer r.leave()
	for {
		r.reserve()
		err := r.plan.Walk(r)
		if !errors.Is(err, journal.ErrNoVector) || !r.startOver() {
			return err
		}
	}
}

// startOver prepares to go over the plan again, as the journal lacks what followed from images of the present job that
// are freed: they are made again. It returns false where they were.
func (r *run) startOver() bool {
	j := r.job.Job
	if r.again[studyKey(j).String()] {
		return false
	}
	r.again[studyKey(j).String()] = true
	r.plan.Each(func(s plan.Step) {
		for _, k := range s.Keys() {
			if s.Job == j {
				r.again[craftKey(k).String()] = true
			}
		}
	})
	r.leave()
	r.Record.Cells, r.Record.Solver, r.Record.Failed = []result.Cell{}, nil, nil
	r.gallery, r.uses = newGallery(r.Config, r.Record), map[plan.Key]*use{}
	return r.out.Close() == nil
}

// end writes the results, and adds to them what only all cells together tell. The most urgent of several errors is
// returned: something is not on disk.
func (r *run) end(o Options, err error) error {
	if err == nil {
		r.Record.Finished = new(time.Now().UTC().Truncate(time.Second))
	}
	if r.part != nil {
		r.tally.Write(nil)
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

// planned is what the work folder says about the run.
func (r *run) planned() folder.Planned {
	p := folder.Planned{Run: r.Record}
	if r.part != nil {
		p.Config, p.Shard = r.Config.Portable(), &r.part.Shard
	}
	return p
}

// compare holds that the output folder is empty or has a run of this plan, whose journal it opens if it is unfinished.
// It returns the results of a finished one.
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
	list, err := folder.Differ(held, r.Record)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s holds another run: %s; %w", out.Dir, result.SayFirst(list, "there", "here"),
			folder.ErrOtherRun)
	}
	if err == nil && out.Old != nil { // of another plan where a run with --force was stopped
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
	if held.Finished != nil { // of a shard
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

// describe begins the results: when, where and of what the run is made.
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
		f.Suites = append(f.Suites, result.Suite{Name: s.Name, Title: s.Title, Dataset: s.Dataset, Mode: s.Mode,
			Models: s.Models, Controls: append([]string{}, s.Controls...), Attacks: append([]string{}, s.Attacks...),
			Published: cfg.PublishedNumbers(&s)})
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

// Images says of the keys of a plan whether their images are needed, at an attack's full strength, or verdicts alone.
func Images(p *plan.Plan) map[plan.Key]bool {
	needed := map[plan.Key]bool{}
	p.Each(func(s plan.Step) {
		given := s.Oblivious() && len(s.Suite.Controls) > 0 // to every control
		asked := slices.ContainsFunc(s.Trials, func(t plan.Trial) bool { return t.Samples() > 0 })
		kept := s.Suite.SaveAdversarial || asked // on disk, or for smoothed classifiers
		for _, k := range s.Keys() {
			needed[k] = needed[k] || given || s.First && kept
		}
	})
	return needed
}

// reserve notes what the steps will ask for.
func (r *run) reserve() {
	images := Images(r.plan)
	r.plan.Each(func(s plan.Step) {
		for _, k := range s.Keys() {
			if r.uses[k] == nil {
				r.uses[k] = &use{images: images[k]}
			}
			r.uses[k].left++
		}
	})
	for _, j := range r.plan.Jobs { // studies take the images that are made anyway
		if u := r.studied(j); u != nil {
			u.left++
		}
	}
}

// expect has the progress tell the whole run's time left, and a part its status.
func (r *run) expect() {
	var all []progress.Expected
	images, own := 0, map[string]int{}
	if r.part != nil {
		for name := range r.Record.Datasets {
			if set, err := r.Scored(name); err == nil { // it is open
				own[name] = set.Share(r.part.Shard).Mine()
			}
		}
	}
	r.plan.EachMade(func(s plan.Step, k plan.Key) {
		recipe, err := s.Recipe(plan.AssumedClasses, attacks.AnyShape)
		if err != nil || recipe.Corruption != nil { // nothing is made
			return
		}
		f, b := recipe.Passes(plan.AssumedClasses)
		n := r.Record.Datasets[k.Dataset].N
		all = append(all, progress.Expected{Model: k.Model, Defense: k.Defense, Attack: k.Attack, Mode: k.Mode,
			Epsilon: k.Epsilon, Seed: k.Seed, Passes: float64(f+b) * float64(n)})
		if recipe.Certificate == nil {
			images += own[k.Dataset]
		}
	})
	var follow func(left *time.Duration)
	if r.part != nil {
		r.tally = r.out.Tally(images)
		follow = r.tally.Write
	}
	r.Progress.Expect(all, follow)
}
