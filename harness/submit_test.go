package harness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"selfheal/harness/cluster"
	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/run"
	"selfheal/harness/shard"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// inProcess is an engine that runs shards in this process. Those of a first job that it drops it never runs.
type inProcess struct {
	plan   *plan.Plan
	drops  map[int]bool
	mu     sync.Mutex
	jobs   [][]int
	states map[int]cluster.State
	silent int // how many times it gives no answer
	nodes  int

	submitted func(jobs int)
}

func (e *inProcess) Render(cluster.Job) (string, error) { return "", nil }
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

// A job that is followed, left, found again and partly lost comes to what one run comes to.
func TestSubmit(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6")
	whole, dir := filepath.Join(t.TempDir(), "whole"), t.TempDir()
	must.Get(run.Run(context.Background(), p, run.Options{Out: whole}))(t)
	e := &inProcess{plan: p, drops: map[int]bool{2: true}, states: map[int]cluster.State{}, silent: 2}
	var said bytes.Buffer
	o := shard.SubmitOptions{Options: run.Options{Out: dir, Progress: progress.New(&said, progress.TextLog, false)},
		Engine:     e,
		EngineName: "test", Shards: 3, Every: 20 * time.Millisecond}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := shard.Submit(ctx, p, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err) // before there is a job
	}
	ctx, stop = context.WithCancel(context.Background())
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
	for folder, want := range map[string]int{dir: 3, t.TempDir(): 8} { // that of the job that is there; four a node
		if n, err := shard.DefaultShards(t.Context(), folder, e); n != want || err != nil {
			t.Errorf("%d shards by default, %v, want %d", n, err, want)
		}
	}
	e.nodes = 0
	_, err := shard.DefaultShards(t.Context(), t.TempDir(), e)
	must.Refuse(t, err, "no node")
	other := o
	other.Shards = 4
	_, err = shard.Submit(context.Background(), p, other)
	must.Refuse(t, err, "another job", "3 shards")
	must.Get(shard.Submit(context.Background(), p, o))(t)
	sameEnd(t, "submitted", whole, dir)
	must.Have(t, said.String(), "submitted before to test: job 2", "shards 2 have ended unfinished",
		"1 shards submitted to test: job 2", "shards: 3 of 3 done", "images: 12 of 12 done")
	for i, status := range must.Get(filepath.Glob(filepath.Join(dir, "shard-*", "*", "*", "status.json")))(t) {
		if i == 0 { // it could not be written: that shards are finished stands in their plans
			must.Do(t, os.WriteFile(status, nil, 0o644))
		} else {
			must.Do(t, os.Remove(status))
		}
	}
	e.silent = 1000 // which finished shards need no answer of
	must.Get(shard.Submit(context.Background(), p, o))(t)
	if fmt.Sprint(e.jobs) != "[[1 2 3] [2]]" {
		t.Errorf("jobs %v", e.jobs)
	}

	// Files in the way of the results are found before anything is submitted.
	for _, out := range []string{whole, t.TempDir()} {
		other := o
		if other.Out = out; out != whole {
			must.Do(t, os.WriteFile(filepath.Join(out, "report.html"), nil, 0o644))
		}
		_, err = shard.Submit(context.Background(), testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=5"), other)
		must.Refuse(t, err, "choose another --out")
		if strings.Contains(err.Error(), "--force") {
			t.Errorf("it advises %v", err)
		}
	}
	job := filepath.Join(dir, "submit", "job.json")
	must.Do(t, os.WriteFile(job, []byte(`{"shards":3,"tries":[0,0,0]}`), 0o644))
	_, err = shard.Submit(context.Background(), p, o)
	must.Refuse(t, err, "job.json is damaged")

	// A shard that ends unfinished again and again is not submitted for ever.
	e = &inProcess{plan: p, states: map[int]cluster.State{}}
	o.Out, o.Engine = t.TempDir(), lost{e}
	_, err = shard.Submit(context.Background(), p, o)
	must.Refuse(t, err, "has ended 3 times without being finished", "the log of job lost says why")
	if strings.Count(said.String(), "have ended unfinished") != 3 {
		t.Errorf("said %s", &said)
	}
}

// lost is an engine that loses all it is given.
type lost struct{ *inProcess }

func (e lost) Submit(_ context.Context, j cluster.Job) (string, error) {
	e.jobs = append(e.jobs, j.Which)
	return "lost", nil
}
