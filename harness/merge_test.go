package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/run"
	"selfheal/harness/shard"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// sharded runs the shards of a plan, the last one first, and lists their folders.
func sharded(t *testing.T, p *plan.Plan, n int) (dir string, shards []string) {
	t.Helper()
	testinput.Runtime(t)
	dir = t.TempDir()
	for i := n; i > 0; i-- {
		must.Do(t, shard.Run(context.Background(), p, plan.Shard{I: i, N: n}, false, run.Options{Out: dir}))
	}
	return dir, must.Get(shard.Find(dir))(t)
}

// shardContinued continues a shard, and returns its lines of progress.
func shardContinued(t *testing.T, p *plan.Plan, s plan.Shard, attempt bool, dir string) string {
	t.Helper()
	var said bytes.Buffer
	must.Do(t, shard.Run(context.Background(), p, s, attempt, run.Options{Out: dir,
		Progress: progress.New(&said, progress.TextLog, false)}))
	return said.String()
}

// Shards of any number come to what one run comes to.
func TestMerge(t *testing.T) {
	p := testplan.Plan(t, resumed, 2, 8)
	whole := filepath.Join(t.TempDir(), "whole")
	testinput.Runtime(t)
	must.Get(run.Run(context.Background(), p, run.Options{Out: whole}))(t)
	for _, n := range []int{1, 2, 3, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			dir, shards := sharded(t, p, n)
			must.Get(shard.Merge(context.Background(), shards, run.Options{Out: dir}))(t)
			sameEnd(t, "merged", whole, dir)
		})
	}
}

// sparse is a run of a second: clean images, and an attack on two networks.
const sparse = testplan.Bundled + `
attacks: {pgd: {kind: pgd, norm: linf, epsilon: 1/255, steps: 2}}
suites: {some: {dataset: test, models: [robust, standard], attacks: [pgd]}}
`

// A merge names shards that are missing, double, foreign or damaged.
func TestMergeRefuses(t *testing.T) {
	dir, shards := sharded(t, testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6"), 3)
	other, foreign := sharded(t, testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6", "attacks.pgd.steps=3"), 3)
	refused := func(dirs []string, words ...string) {
		t.Helper()
		_, err := shard.Merge(context.Background(), dirs, run.Options{Out: filepath.Join(t.TempDir(), "out")})
		must.Refuse(t, err, words...)
	}
	refused(shards[:1], "of 3 shards there is no 2-3")
	refused([]string{shards[0], shards[1], shards[1]}, "are both shard 2/3")
	refused([]string{shards[0], foreign[1], shards[2]}, "different plans", "steps", "selfheal compare")
	refused(nil, "no shards")
	_, two := sharded(t, testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=6"), 2)
	refused([]string{shards[0], two[1]}, "such as DIR/shard-*-of-2")
	_, err := shard.Merge(context.Background(), shards, run.Options{Out: must.Get(filepath.Abs(done(t, other,
		foreign)))(t)})
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
	must.Get(shard.Merge(context.Background(), shards, run.Options{Out: dir}))(t)
}

// done merges shards into their folder.
func done(t *testing.T, dir string, shards []string) string {
	t.Helper()
	must.Get(shard.Merge(context.Background(), shards, run.Options{Out: dir}))(t)
	return dir
}

// Attempts at one shard, at once or one after the other, are one shard's.
func TestAttempts(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, sparse, 2, 8, "datasets.test.limit=8", "suites.some.save_adversarial=true",
		"attacks.pgd.steps=20")
	whole, dir := filepath.Join(t.TempDir(), "whole"), t.TempDir()
	must.Get(run.Run(context.Background(), p, run.Options{Out: whole}))(t)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			err := shard.Run(context.Background(), p, plan.Shard{I: 1, N: 2}, true, run.Options{Out: dir})
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	ctx, stop := context.WithCancel(context.Background())
	w := lineWriter(func(line string) {
		if strings.Contains(line, "attacked") {
			stop()
		}
	})
	err := shard.Run(ctx, p, plan.Shard{I: 2, N: 2}, true, run.Options{Out: dir,
		Progress: progress.New(w, progress.TextLog, false)})
	if !errors.Is(err, context.Canceled) || !errors.As(err, new(folder.Unfinished)) {
		t.Fatal(err)
	}
	_, err = shard.Merge(context.Background(), must.Get(shard.Find(dir))(t), run.Options{Out: dir})
	must.Refuse(t, err, "not finished: 2")
	must.Have(t, shardContinued(t, p, plan.Shard{I: 2, N: 2}, true, dir), "it continues")
	shards := must.Get(shard.Find(dir))(t)
	if len(shards) != 4 {
		t.Errorf("attempts %v", shards)
	}
	must.Get(shard.Merge(context.Background(), shards, run.Options{Out: dir}))(t)
	sameEnd(t, "attempts", whole, dir)

	// An attempt that says something else is no attempt at this shard.
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
	_, err = shard.Merge(context.Background(), shards, run.Options{Out: dir})
	must.Refuse(t, err, "image 0 is not as another attempt has it")
}

// The shards of a large table are merged as those of a small one: this splits what one shard has done of many images
// into as many shards. With SELFHEAL_TEST_LARGE these are 10,000.
func TestMergeOfManyShards(t *testing.T) {
	n := 120
	if os.Getenv("SELFHEAL_TEST_LARGE") != "" {
		n = 10_000
	}
	testinput.Runtime(t)
	p := many(t, n, sparse, "suites.some.models=[robust]")
	whole, dir := t.TempDir(), t.TempDir()
	must.Do(t, shard.Run(context.Background(), p, plan.Shard{I: 1, N: 1}, false, run.Options{Out: dir}))
	one := must.Get(shard.Find(dir))(t)
	must.Get(shard.Merge(context.Background(), one, run.Options{Out: whole}))(t)

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
	must.Get(shard.Merge(context.Background(), shards, run.Options{Out: merged}))(t)
	t.Logf("%d shards, of %d bytes each, are merged in %v with %d MiB allocated", n, size/int64(n), time.Since(start),
		(must.Allocated()-before)>>20)
	sameEnd(t, "many", whole, merged)
}
