package shard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selfheal/harness/cluster"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/harness/shard"
	"selfheal/internal/atomicfile"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/sameend"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// sameEnd fails the test unless two runs have the same results.
func sameEnd(t *testing.T, name, want, got string) {
	t.Helper()
	if err := sameend.Check(want, got); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// attacking returns a context that ends when a run whose progress it receives has attacked images.
func attacking(t *testing.T) (context.Context, *progress.Progress) {
	ctx, stop := context.WithCancel(t.Context())
	return ctx, progress.New(lineWriter(func(line string) {
		if strings.Contains(line, "attacked") {
			stop()
		}
	}), progress.TextLog, false)
}

type lineWriter func(string)

func (w lineWriter) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

// sharded runs the shards of a plan, the last one first, and lists their folders.
func sharded(t *testing.T, p *plan.Plan, n int) (dir string, shards []string) {
	t.Helper()
	testinput.Runtime(t)
	dir = t.TempDir()
	for i := n; i > 0; i-- {
		must.Do(t, shard.Run(t.Context(), p, plan.Shard{I: i, N: n}, false, run.Options{Out: dir,
			Command: []string{"selfheal", "run", "--shard", "1/2", "--attempt", "--shard=1/2", "-q"}}))
	}
	return dir, shard.Find(dir)
}

// shardContinued continues a shard, and returns its lines of progress.
func shardContinued(t *testing.T, p *plan.Plan, s plan.Shard, attempt bool, dir string) string {
	t.Helper()
	var said bytes.Buffer
	must.Do(t, shard.Run(t.Context(), p, s, attempt, run.Options{Out: dir,
		Progress: progress.New(&said, progress.TextLog, false)}))
	return said.String()
}

// sparse is a run of a second: clean images, and an attack on a network or, with both, two.
const sparse = testplan.Bundled + `
attacks: {pgd: {kind: pgd, norm: linf, epsilon: 1/255, steps: 2}}
suites: {some: {dataset: test, models: [robust], attacks: [pgd]}}
`

const both = "suites.some.models=[robust, standard]"

// A merge names shards that are missing, double, foreign or damaged.
func TestMergeRefuses(t *testing.T) {
	dir, shards := sharded(t, testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6"), 3)
	other, foreign := sharded(t, testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6", "attacks.pgd.steps=3"), 3)
	refused := func(dirs []string, words ...string) {
		t.Helper()
		_, err := shard.Merge(t.Context(), dirs, run.Options{Out: filepath.Join(t.TempDir(), "out")})
		must.Refuse(t, err, words...)
	}
	refused(shards[:1], "of 3 shards there is no 2-3")
	refused([]string{shards[0], shards[1], shards[1]}, "are both shard 2/3")
	refused([]string{shards[0], foreign[1], shards[2]}, "different plans", "steps", "selfheal compare")
	refused(nil, "no shards")
	_, two := sharded(t, testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6"), 2)
	refused([]string{shards[0], two[1]}, "such as DIR/shard-*-of-2")
	must.Get(shard.Merge(t.Context(), foreign, run.Options{Out: other}))(t)
	_, err := shard.Merge(t.Context(), shards, run.Options{Out: other})
	must.Refuse(t, err, "holds another run")

	edit := func(name string, to func(text string) string) func() {
		t.Helper()
		path := filepath.Join(shards[1], folder.WorkFolder, name)
		data := must.Get(os.ReadFile(path))(t)
		must.Do(t, os.WriteFile(path, []byte(to(string(data))), 0o644))
		return func() { must.Do(t, os.WriteFile(path, data, 0o644)) }
	}
	back := edit("journal.jsonl", func(text string) string { return strings.ReplaceAll(text, `{"i":`, `{"i":1`) })
	refused(shards, "run them again, they continue")
	back()
	back = edit(folder.PlanFile, func(text string) string { return text })
	work := filepath.Join(shards[1], folder.WorkFolder)
	planned := must.Get(folder.ReadPlan(filepath.Join(work, folder.PlanFile)))(t)
	planned.Run.Finished = nil
	must.Do(t, folder.WriteSummed(work, folder.PlanFile, planned))
	refused(shards, "not finished: 2", "they continue")
	back()
	back = edit(folder.PlanFile, func(text string) string { return strings.Replace(text, "robust", "robusd", 1) })
	refused(shards, "damaged")
	back()
	must.Get(shard.Merge(t.Context(), shards, run.Options{Out: dir}))(t)
}

// Several attempts at one shard, at once or one after another, count as one shard.
func TestAttempts(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=8", both, "suites.some.save_adversarial=true",
		"attacks.pgd.steps=20")
	whole, dir := filepath.Join(t.TempDir(), "whole"), t.TempDir()
	must.Get(run.Run(t.Context(), p, run.Options{Out: whole}))(t)
	var attempts sync.WaitGroup
	for range 2 {
		attempts.Go(func() {
			err := shard.Run(t.Context(), p, plan.Shard{I: 1, N: 2}, true, run.Options{Out: dir})
			if err != nil {
				t.Error(err)
			}
		})
	}
	attempts.Wait()
	ctx, said := attacking(t)
	err := shard.Run(ctx, p, plan.Shard{I: 2, N: 2}, true, run.Options{Out: dir, Progress: said})
	if !errors.Is(err, context.Canceled) || !errors.As(err, new(folder.Unfinished)) {
		t.Fatal(err)
	}
	_, err = shard.Merge(t.Context(), shard.Find(dir), run.Options{Out: dir})
	must.Refuse(t, err, "not finished: 2")
	must.Have(t, shardContinued(t, p, plan.Shard{I: 2, N: 2}, true, dir), "it continues")
	shards := shard.Find(dir)
	if len(shards) != 4 {
		t.Errorf("attempts %v", shards)
	}
	must.Get(shard.Merge(t.Context(), shards, run.Options{Out: dir}))(t)
	sameEnd(t, "attempts", whole, dir)

	// An attempt with other results does not belong to this shard.
	for _, attempt := range shards[:2] {
		path := filepath.Join(attempt, folder.WorkFolder, journal.File)
		j, _, err := journal.Open(filepath.Dir(path))
		must.Do(t, err)
		for _, block := range j.Blocks() {
			if k := must.Get(folder.ParseKey(block.Key))(t); k.Of == "verdicts" {
				must.Do(t, block.Append(map[string]any{"i": 0, "t": 0, "v": map[string]any{"class": 77}}))
			}
		}
		must.Do(t, j.Close())
	}
	_, err = shard.Merge(t.Context(), shards, run.Options{Out: dir})
	must.Refuse(t, err, "verdicts, suite some, model robust, defense none: ",
		"image 0 is not as another attempt has it")
}

// The shards of a large table are merged like those of a small one: this splits one shard's work on many images into
// as many shards. With SELFHEAL_TEST_LARGE there are 10,000.
func TestMergeOfManyShards(t *testing.T) {
	n := 120
	if os.Getenv("SELFHEAL_TEST_LARGE") != "" {
		n = 10_000
	}
	testinput.Runtime(t)
	p := testplan.Many(t, n, sparse)
	whole, dir := t.TempDir(), t.TempDir()
	must.Do(t, shard.Run(t.Context(), p, plan.Shard{I: 1, N: 1}, false, run.Options{Out: dir}))
	one := shard.Find(dir)
	must.Get(shard.Merge(t.Context(), one, run.Options{Out: whole}))(t)

	planned := must.Get(folder.ReadPlan(filepath.Join(one[0], folder.WorkFolder, folder.PlanFile)))(t)
	from, _, err := journal.Read(filepath.Join(one[0], folder.WorkFolder))
	must.Do(t, err)
	lines := make([][]func(*journal.Journal) error, n) // of each image
	for _, block := range from.Blocks() {
		must.Do(t, block.Read(func(text []byte) error {
			text = slices.Clone(text)
			add := func(j *journal.Journal) error { return j.Block(block.Key).Append(json.RawMessage(text)) }
			var of struct{ I *int }
			if json.Unmarshal(text, &of) == nil && of.I != nil {
				lines[*of.I] = append(lines[*of.I], add)
				return nil
			}
			for i := range lines {
				lines[i] = append(lines[i], add)
			}
			return nil
		}))
	}
	var shards []string
	var size int64
	for i := range lines {
		planned.Shard = &plan.Shard{I: i + 1, N: n}
		out := &folder.Folder{Dir: filepath.Join(dir, planned.Shard.Folder())}
		must.Do(t, os.MkdirAll(out.Dir, 0o755))
		j := must.Get(out.Begin(*planned))(t)
		for _, add := range lines[i] {
			must.Do(t, add(j.Journal))
		}
		must.Do(t, j.Close())
		shards = append(shards, out.Dir)
		for _, name := range []string{folder.PlanFile, journal.File} {
			size += must.Get(os.Stat(out.Work(name)))(t).Size()
		}
	}
	merged, start, before := t.TempDir(), time.Now(), must.Allocated()
	must.Get(shard.Merge(t.Context(), shards, run.Options{Out: merged}))(t)
	t.Logf("%d shards, of %d bytes each, are merged in %v with %d MiB allocated", n, size/int64(n), time.Since(start),
		(must.Allocated()-before)>>20)
	sameEnd(t, "many", whole, merged)
}

// A merge removes nothing that is still needed: a shard's own folder, or one with an unfinished run.
func TestMergeKeepsWhatIsNeeded(t *testing.T) {
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=4")
	dir, shards := sharded(t, p, 2)
	must.Get(shard.Merge(t.Context(), shards, run.Options{Out: filepath.Join(dir, "before")}))(t)
	_, err := shard.Merge(t.Context(), shards, run.Options{Out: shards[0], Rule: atomicfile.Rule{Force: true}})
	must.Refuse(t, err, "is the folder of shard 1/2", "choose another --out")

	out := t.TempDir()
	ctx, said := attacking(t)
	_, err = run.Run(ctx, testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=5"), run.Options{Out: out,
		Progress: said})
	if ctx.Err() == nil || err == nil {
		t.Fatal(err)
	}
	must.Do(t, os.Remove(filepath.Join(out, "results.json"))) // as if it had been killed
	_, err = shard.Merge(t.Context(), shards, run.Options{Out: out})
	must.Refuse(t, err, "holds another run", "limit")
	must.Get(os.Stat(filepath.Join(out, folder.WorkFolder, journal.File)))(t)

	// A merge that was killed before it began blocks nothing.
	must.Do(t, os.Mkdir(filepath.Join(dir, folder.WorkFolder), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, folder.WorkFolder, "."+folder.PlanFile+"-1"), nil, 0o644))
	f := must.Get(shard.Merge(t.Context(), shards, run.Options{Out: dir}))(t)
	if words := fmt.Sprint(f.Command); words != "[selfheal run -q]" {
		t.Errorf("the command is %s", words) // a shard's without the shard's flags
	}
}

// A finished shard makes lost work again, and files that belong to no shard are ignored.
func TestDamagedShards(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6", "save_adversarial=true", both)
	whole := filepath.Join(t.TempDir(), "whole")
	must.Get(run.Run(t.Context(), p, run.Options{Out: whole}))(t)
	dir, shards := sharded(t, p, 2)
	path := filepath.Join(shards[1], folder.WorkFolder, journal.File)
	data := must.Get(os.ReadFile(path))(t)
	lines := bytes.SplitAfter(data, []byte("\n"))
	for what, text := range map[string][]byte{
		"cut":     bytes.Join(lines[:len(lines)/2], nil),
		"changed": bytes.Replace(data, []byte(`{"i":`), []byte(`{"i":7`), 1),
	} {
		must.Do(t, os.WriteFile(path, text, 0o644))
		if _, err := shard.Merge(t.Context(), shards, run.Options{Out: dir}); err == nil {
			t.Errorf("a journal that is %s is merged", what)
		}
		must.Have(t, shardContinued(t, p, plan.Shard{I: 2, N: 2}, false, dir), "it continues")
	}
	saved := must.Get(filepath.Glob(filepath.Join(shards[1], folder.WorkFolder, "adversarial", "*.npy")))(t)[0]
	values := must.Get(os.ReadFile(saved))(t)
	flipped := slices.Clone(values)
	flipped[len(values)/2] ^= 1
	for _, harmed := range [][]byte{values[:len(values)-4], flipped} {
		must.Do(t, os.WriteFile(saved, harmed, 0o644))
		_, err := shard.Merge(t.Context(), shards, run.Options{Out: dir})
		must.Refuse(t, err, saved, "damaged", "--force")
	}
	must.Do(t, shard.Run(t.Context(), p, plan.Shard{I: 2, N: 2}, false,
		run.Options{Out: dir, Rule: atomicfile.Rule{Force: true}}))

	// An attempt beside the manual run that has only just begun, with another number of shards.
	attempt := filepath.Join(shards[1], "attempt-1", folder.WorkFolder)
	must.Do(t, os.MkdirAll(attempt, 0o755))
	planned := must.Get(folder.ReadPlan(filepath.Join(shards[1], folder.WorkFolder, folder.PlanFile)))(t)
	planned.Run.Finished = nil
	must.Do(t, (&folder.Folder{Dir: filepath.Dir(attempt)}).Write(*planned))
	must.Get(shard.Merge(t.Context(), shard.Find(dir), run.Options{Out: dir}))(t)
	sameEnd(t, "mended", whole, dir)
}

// Digests of data sets are the plan's, as they were written, or are made anew if that is asked for.
func TestDigestsOfAnotherPlan(t *testing.T) {
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=4")
	dir, _ := sharded(t, p, 2)
	path := filepath.Join(dir, "datasets.json")
	data := must.Get(os.ReadFile(path))(t)
	other := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=5")
	again := func(p *plan.Plan, force bool) error {
		return shard.Run(t.Context(), p, plan.Shard{I: 1, N: 2}, false,
			run.Options{Out: dir, Rule: atomicfile.Rule{Force: force}})
	}
	must.Refuse(t, again(other, false), "datasets.json is of another plan", "--limit", "add --force")
	must.Do(t, os.WriteFile(path, bytes.Replace(data, []byte(`"labels":[`), []byte(`"labels":[7,`), 1), 0o644))
	must.Refuse(t, again(p, false), "datasets.json is damaged", "add --force")
	must.Do(t, again(other, true))

	// Digests of other images are not mixed with the plan's, as when the data have changed between two shards.
	digests := func() (all struct {
		Config   string                     `json:"config_sha256"`
		Datasets map[string]*dataset.Digest `json:"datasets"`
	}) {
		must.Do(t, folder.ReadSummed(path, &all))
		return all
	}
	changed := digests()
	for _, d := range changed.Datasets {
		d.SHA256, d.Labels[0] = "of others", 1-min(d.Labels[0], 1)
	}
	must.Do(t, folder.WriteSummed(dir, "datasets.json", changed))
	must.Do(t, os.RemoveAll(filepath.Join(dir, plan.Shard{I: 1, N: 2}.Folder())))
	must.Refuse(t, again(other, false), "datasets.json is of other images of data set test", "add --force")
	must.Do(t, again(other, true))
	for key, d := range digests().Datasets {
		if d.SHA256 == "of others" {
			t.Errorf("with --force the digest of %s stays", key)
		}
	}
	if s, err := result.Read(filepath.Join(dir, "results.json")); err == nil {
		t.Errorf("a shard has results %v", s)
	}
}

// inProcess is an engine that runs shards in this process. It never runs the shards of a first job that are in drops.
type inProcess struct {
	plan   *plan.Plan
	drops  map[int]bool
	mu     sync.Mutex
	jobs   [][]int
	states map[int]cluster.State
	silent int // number of times that it gives no answer
	nodes  int

	submitted func(jobs int)
}

func (e *inProcess) Ready() error                       { return nil }
func (e *inProcess) Nodes(context.Context) (int, error) { return e.nodes, nil }
func (e *inProcess) Cancelling(id string) string        { return "cancel " + id }
func (e *inProcess) Logs(id, _ string) string           { return "the log of job " + id }

func (e *inProcess) Submit(_ context.Context, j cluster.Job) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs = append(e.jobs, j.Which)
	if e.submitted != nil {
		e.submitted(len(e.jobs))
	}
	for _, i := range j.Which {
		if len(e.jobs) == 1 && e.drops[i] {
			continue
		}
		e.states[i] = cluster.Running
		go func() {
			err := shard.Run(context.Background(), e.plan, plan.Shard{I: i, N: j.Shards}, true, run.Options{Out: j.Dir})
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.states[i] = cluster.Gone; err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
	return fmt.Sprint(len(e.jobs)), nil
}

func (e *inProcess) States(context.Context, string) (map[int]cluster.State, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silent--; e.silent >= 0 {
		return nil, errors.New("the controller is away")
	}
	return maps.Clone(e.states), nil
}

// A job that is followed, left, found again and partly lost gives the results of one run.
func TestSubmit(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6")
	whole, dir := filepath.Join(t.TempDir(), "whole"), t.TempDir()
	must.Get(run.Run(t.Context(), p, run.Options{Out: whole}))(t)
	e := &inProcess{plan: p, drops: map[int]bool{2: true}, states: map[int]cluster.State{}, silent: 2}
	var said bytes.Buffer
	o := shard.SubmitOptions{Options: run.Options{Out: dir, Progress: progress.New(&said, progress.TextLog, false)},
		Engine: e, EngineName: "test", Shards: 3, Every: 20 * time.Millisecond}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := shard.Submit(ctx, p, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err) // before there is a job
	}
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	e.submitted = func(n int) {
		if n == 2 {
			stop()
		}
	}
	if _, err := shard.Submit(ctx, p, o); !errors.As(err, new(folder.Unfinished)) {
		t.Fatal(err)
	}
	must.Have(t, said.String(), "3 shards submitted to test: job 1", "of test goes on; cancel 1",
		"the engine does not answer: the controller is away")
	e.nodes = 2
	// the existing job's number; else four for each node
	for folder, want := range map[string]int{dir: 3, t.TempDir(): 8} {
		if n, err := shard.DefaultShards(t.Context(), folder, e); n != want || err != nil {
			t.Errorf("%d shards by default, %v, want %d", n, err, want)
		}
	}
	e.nodes = 0
	_, err := shard.DefaultShards(t.Context(), t.TempDir(), e)
	must.Refuse(t, err, "no node")
	other := o
	other.Shards = 4
	_, err = shard.Submit(t.Context(), p, other)
	must.Refuse(t, err, "another job", "3 shards")
	must.Get(shard.Submit(t.Context(), p, o))(t)
	sameEnd(t, "submitted", whole, dir)
	must.Have(t, said.String(), "submitted before to test: job 2", "shards 2 have ended unfinished",
		"1 shards submitted to test: job 2", "shards: 3 of 3 done", "images: 6 of 6 done")
	for i, status := range must.Get(filepath.Glob(filepath.Join(dir, "shard-*", "*", "*", "status.json")))(t) {
		if i == 0 { // it could not be written: the shards' plans say that they are finished
			must.Do(t, os.WriteFile(status, nil, 0o644))
		} else {
			must.Do(t, os.Remove(status))
		}
	}
	e.silent = 1000 // finished shards need no answer
	must.Get(shard.Submit(t.Context(), p, o))(t)
	if fmt.Sprint(e.jobs) != "[[1 2 3] [2]]" {
		t.Errorf("jobs %v", e.jobs)
	}

	// Files in the way of the results are found before anything is submitted.
	for _, out := range []string{whole, t.TempDir()} {
		other := o
		if other.Out = out; out != whole {
			must.Do(t, os.WriteFile(filepath.Join(out, "report.html"), nil, 0o644))
		}
		_, err = shard.Submit(t.Context(), testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=5"), other)
		must.Refuse(t, err, "choose another --out")
		if strings.Contains(err.Error(), "--force") {
			t.Errorf("it advises %v", err)
		}
	}
	job := filepath.Join(dir, "submit", "job.json")
	must.Do(t, os.WriteFile(job, []byte(`{"shards":3,"tries":[0,0,0]}`), 0o644))
	_, err = shard.Submit(t.Context(), p, o)
	must.Refuse(t, err, "job.json is damaged")

	// A shard that ends unfinished again and again is not submitted for ever.
	e = &inProcess{plan: p, states: map[int]cluster.State{}}
	o.Out, o.Engine = t.TempDir(), lost{e}
	_, err = shard.Submit(t.Context(), p, o)
	must.Refuse(t, err, "has ended 3 times without being finished", "the log of job lost says why")
	if strings.Count(said.String(), "have ended unfinished") != 3 {
		t.Errorf("said %s", &said)
	}
}

// lost is an engine that loses all its jobs.
type lost struct{ *inProcess }

func (e lost) Submit(_ context.Context, j cluster.Job) (string, error) {
	e.jobs = append(e.jobs, j.Which)
	return "lost", nil
}
