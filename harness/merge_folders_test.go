package harness_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/harness/shard"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// A merge takes nothing from a folder that is still needed: a shard's own, or one with a run that was ended.
func TestMergeKeepsWhatIsNeeded(t *testing.T) {
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=4")
	dir, shards := sharded(t, p, 2)
	must.Get(shard.Merge(context.Background(), shards, run.Options{Out: filepath.Join(dir, "before")}))(t)
	_, err := shard.Merge(context.Background(), shards, run.Options{Out: shards[0], Force: true})
	must.Refuse(t, err, "is the folder of shard 1/2", "choose another --out")

	out := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	_, err = run.Run(ctx, testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=5"), run.Options{Out: out,
		Progress: progress.New(lineWriter(func(line string) {
			if strings.Contains(line, "attacked") {
				stop()
			}
		}), progress.TextLog, false)})
	if ctx.Err() == nil || err == nil {
		t.Fatal(err)
	}
	must.Do(t, os.Remove(filepath.Join(out, "results.json"))) // as if it had been killed
	_, err = shard.Merge(context.Background(), shards, run.Options{Out: out})
	must.Refuse(t, err, "holds another run", "limit")
	must.Get(os.Stat(filepath.Join(out, folder.WorkFolder, journal.File)))(t)

	// A merge that was killed before it had begun stands in nobody's way.
	must.Do(t, os.Mkdir(filepath.Join(dir, folder.WorkFolder), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, folder.WorkFolder, "."+folder.PlanFile+"-1"), nil, 0o644))
	f := must.Get(shard.Merge(context.Background(), shards, run.Options{Out: dir}))(t)
	if words := fmt.Sprint(f.Command); words != "[]" {
		t.Errorf("the command is %s", words)
	}
}

// A finished shard makes lost work again, and files that are no shard's count for nothing.
func TestDamagedShards(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6", "save_adversarial=true")
	whole := filepath.Join(t.TempDir(), "whole")
	must.Get(run.Run(context.Background(), p, run.Options{Out: whole}))(t)
	dir, shards := sharded(t, p, 2)
	path := filepath.Join(shards[1], folder.WorkFolder, journal.File)
	data := must.Get(os.ReadFile(path))(t)
	lines := bytes.SplitAfter(data, []byte("\n"))
	for what, text := range map[string][]byte{
		"cut":     bytes.Join(lines[:len(lines)/2], nil),
		"changed": bytes.Replace(data, []byte(`{"i":`), []byte(`{"i":7`), 1),
	} {
		must.Do(t, os.WriteFile(path, text, 0o644))
		if _, err := shard.Merge(context.Background(), shards, run.Options{Out: dir}); err == nil {
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
		_, err := shard.Merge(context.Background(), shards, run.Options{Out: dir})
		must.Refuse(t, err, saved, "damaged", "--force")
	}
	must.Do(t, shard.Run(context.Background(), p, plan.Shard{I: 2, N: 2}, false, run.Options{Out: dir, Force: true}))

	// An attempt beside the run by hand that has only just begun, another number of shards.
	attempt := filepath.Join(shards[1], "attempt-1", folder.WorkFolder)
	must.Do(t, os.MkdirAll(attempt, 0o755))
	planned := must.Get(folder.ReadPlan(filepath.Join(shards[1], folder.WorkFolder, folder.PlanFile)))(t)
	planned.Run.Finished = nil
	must.Do(t, (&folder.Folder{Dir: filepath.Dir(attempt)}).Write(*planned))
	must.Get(shard.Merge(context.Background(), must.Get(shard.Find(dir))(t), run.Options{Out: dir}))(t)
	sameEnd(t, "mended", whole, dir)
}

// Digests of data sets are those of the plan, as they were written, or are made anew where that is asked for.
func TestDigestsOfAnotherPlan(t *testing.T) {
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=4")
	dir, _ := sharded(t, p, 2)
	path := filepath.Join(dir, "datasets.json")
	data := must.Get(os.ReadFile(path))(t)
	other := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=5")
	again := func(p *plan.Plan, force bool) error {
		return shard.Run(context.Background(), p, plan.Shard{I: 1, N: 2}, false, run.Options{Out: dir, Force: force})
	}
	must.Refuse(t, again(other, false), "datasets.json is of another plan", "--limit", "add --force")
	must.Do(t, os.WriteFile(path, bytes.Replace(data, []byte(`"labels":[`), []byte(`"labels":[7,`), 1), 0o644))
	must.Refuse(t, again(p, false), "datasets.json is damaged", "add --force")
	must.Do(t, again(other, true))
	if s, err := result.Read(filepath.Join(dir, "results.json")); err == nil {
		t.Errorf("a shard has results %v", s)
	}
}
