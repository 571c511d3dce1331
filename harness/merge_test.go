package harness

import (
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

	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// sharded runs the shards of a plan, the last one first, and lists their folders.
func sharded(t *testing.T, p *Plan, n int) (dir string, shards []string) {
	t.Helper()
	testinput.Runtime(t)
	dir = t.TempDir()
	for i := n; i > 0; i-- {
		must.Get(Run(context.Background(), p, Options{Out: dir, Shard: Shard{i, n}}))(t)
	}
	return dir, must.Get(FindShards(dir))(t)
}

// Shards of any number come to what one run comes to.
func TestMerge(t *testing.T) {
	p := plan(t, resumed, 2, 8)
	whole := filepath.Join(t.TempDir(), "whole")
	testinput.Runtime(t)
	must.Get(Run(context.Background(), p, Options{Out: whole}))(t)
	for _, n := range []int{1, 2, 3, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			dir, shards := sharded(t, p, n)
			must.Get(Merge(context.Background(), shards, Options{Out: dir}))(t)
			sameEnd(t, "merged", whole, dir)
		})
	}
}

// sparse is a run of a second: clean images, and an attack on two networks.
const sparse = bundled + `
attacks: {pgd: {kind: pgd, norm: linf, epsilon: 1/255, steps: 2}}
suites: {some: {dataset: test, models: [robust, standard], attacks: [pgd]}}
`

// What is missing, double, foreign or damaged among the shards is named.
func TestMergeRefuses(t *testing.T) {
	dir, shards := sharded(t, plan(t, sparse, 2, 8, "datasets.test.limit=6"), 3)
	other, foreign := sharded(t, plan(t, sparse, 2, 8, "datasets.test.limit=6", "attacks.pgd.steps=3"), 3)
	refused := func(dirs []string, words ...string) {
		t.Helper()
		_, err := Merge(context.Background(), dirs, Options{Out: filepath.Join(t.TempDir(), "out")})
		must.Refuse(t, err, words...)
	}
	refused(shards[:1], "of 3 shards there is no 2-3")
	refused([]string{shards[0], shards[1], shards[1]}, "are both shard 2/3")
	refused([]string{shards[0], foreign[1], shards[2]}, "different plans", "steps", "selfheal compare")
	refused(nil, "no shards")
	_, two := sharded(t, plan(t, sparse, 2, 8, "datasets.test.limit=6"), 2)
	refused([]string{shards[0], two[1]}, "such as DIR/shard-*-of-2")
	_, err := Merge(context.Background(), shards, Options{Out: must.Get(filepath.Abs(done(t, other, foreign)))(t)})
	must.Refuse(t, err, "holds another run")

	edit := func(name string, to func(text string) string) func() {
		t.Helper()
		path := filepath.Join(shards[1], workFolder, name)
		data := must.Get(os.ReadFile(path))(t)
		must.Do(t, os.WriteFile(path, []byte(to(string(data))), 0o644))
		return func() { must.Do(t, os.WriteFile(path, data, 0o644)) }
	}
	back := edit("journal.jsonl", func(text string) string { return strings.ReplaceAll(text, `{"i":`, `{"i":1`) })
	refused(shards, "run them again, they continue")
	back()
	back = edit(planFile, func(text string) string {
		var p planned
		text, _, _ = strings.Cut(text, "\n")
		must.Do(t, json.Unmarshal([]byte(text), &p))
		p.Run.Finished = nil
		data := must.Get(json.Marshal(p))(t)
		return string(withSum(data))
	})
	refused(shards, "not finished: 2", "they continue")
	back()
	back = edit(planFile, func(text string) string { return strings.Replace(text, "robust", "robusd", 1) })
	refused(shards, "damaged")
	back()
	must.Get(Merge(context.Background(), shards, Options{Out: dir}))(t)
}

// done merges shards into their folder.
func done(t *testing.T, dir string, shards []string) string {
	t.Helper()
	must.Get(Merge(context.Background(), shards, Options{Out: dir}))(t)
	return dir
}

// Attempts at one shard, at once or one after the other, are one shard's.
func TestAttempts(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, sparse, 2, 8, "datasets.test.limit=8", "suites.some.save_adversarial=true", "attacks.pgd.steps=20")
	whole, dir := filepath.Join(t.TempDir(), "whole"), t.TempDir()
	must.Get(Run(context.Background(), p, Options{Out: whole}))(t)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			_, err := Run(context.Background(), p, Options{Out: dir, Shard: Shard{1, 2}, Attempt: true})
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
	_, err := Run(ctx, p, Options{Out: dir, Shard: Shard{2, 2}, Attempt: true,
		Progress: NewProgress(w, TextLog, false)})
	if !errors.Is(err, context.Canceled) || !errors.As(err, new(Unfinished)) {
		t.Fatal(err)
	}
	_, err = Merge(context.Background(), must.Get(FindShards(dir))(t), Options{Out: dir})
	must.Refuse(t, err, "not finished: 2")
	said := continued(t, p, Options{Out: dir, Shard: Shard{2, 2}, Attempt: true})
	must.Have(t, said, "it continues")
	shards := must.Get(FindShards(dir))(t)
	if len(shards) != 4 {
		t.Errorf("attempts %v", shards)
	}
	must.Get(Merge(context.Background(), shards, Options{Out: dir}))(t)
	sameEnd(t, "attempts", whole, dir)

	// An attempt that says something else is no attempt at this shard.
	for _, attempt := range shards[:2] {
		path := filepath.Join(attempt, workFolder, journal.File)
		j, _, err := journal.Open(filepath.Dir(path))
		must.Do(t, err)
		for key, block := range j.Blocks() {
			if strings.HasPrefix(key, "verdicts") {
				must.Do(t, block.Append(unit[verdict]{Image: 0, Value: verdict{Class: 77}}))
			}
		}
		must.Do(t, j.Close())
	}
	_, err = Merge(context.Background(), shards, Options{Out: dir})
	must.Refuse(t, err, "image 0 is not as another attempt has it")
}

// Shards have about the same to do, whatever an image costs.
func TestSharesAreEven(t *testing.T) {
	p := plan(t, sparse, 2, 8, "datasets.test.limit=60", "attacks.pgd.steps=40", "attacks.pgd.epsilon=3/255")
	_, shards := sharded(t, p, 4)
	var spent []float64
	sum := 0.0
	for _, dir := range shards {
		passes := 0.0
		data := must.Get(os.ReadFile(filepath.Join(dir, workFolder, "journal.jsonl")))(t)
		for line := range strings.Lines(string(data)) {
			var one unit[aftermath]
			_, text, _ := strings.Cut(line, "{")
			if json.Unmarshal([]byte("{"+text), &one) == nil {
				passes += float64(one.Value.Logits + 3*one.Value.Gradients)
			}
		}
		spent, sum = append(spent, passes), sum+passes
	}
	for i, s := range spent {
		if mean := sum / 4; s < 0.85*mean || s > 1.15*mean {
			t.Errorf("shard %d makes %v passes, all of them %v", i+1, s, spent)
		}
	}
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
	must.Get(Run(context.Background(), p, Options{Out: dir, Shard: Shard{1, 1}}))(t)
	one := must.Get(FindShards(dir))(t)
	must.Get(Merge(context.Background(), one, Options{Out: whole}))(t)

	plan := must.Get(readPlan(filepath.Join(one[0], workFolder, planFile)))(t)
	from, _, err := journal.Read(filepath.Join(one[0], workFolder))
	must.Do(t, err)
	lines := make([][]func(*journal.Journal) error, n) // of each image
	for key, block := range from.Blocks() {
		must.Do(t, block.Read(func(text []byte) error {
			text = slices.Clone(text)
			add := func(j *journal.Journal) error { return j.Block(key).Append(json.RawMessage(text)) }
			var of line
			if json.Unmarshal(text, &of) == nil && of.Image != nil {
				lines[*of.Image] = append(lines[*of.Image], add)
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
		out := &output{dir: filepath.Join(dir, Shard{i + 1, n}.folder())}
		must.Do(t, os.MkdirAll(out.dir, 0o755))
		plan.Shard = &Shard{i + 1, n}
		j := must.Get(out.begin(*plan))(t)
		for _, add := range lines[i] {
			must.Do(t, add(j))
		}
		must.Do(t, j.Close())
		shards = append(shards, out.dir)
		for _, name := range []string{planFile, journal.File} {
			size += must.Get(os.Stat(out.work(name)))(t).Size()
		}
	}
	merged, start, before := t.TempDir(), time.Now(), must.Allocated()
	must.Get(Merge(context.Background(), shards, Options{Out: merged}))(t)
	t.Logf("%d shards, of %d bytes each, are merged in %v with %d MiB allocated", n, size/int64(n), time.Since(start),
		(must.Allocated()-before)>>20)
	sameEnd(t, "many", whole, merged)
}
