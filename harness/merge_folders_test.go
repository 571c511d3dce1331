package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A merge takes nothing from a folder that is still needed: a shard's own, or one with a run that was ended.
func TestMergeKeepsWhatIsNeeded(t *testing.T) {
	p := plan(t, sparse, 2, 8, "datasets.test.limit=4")
	dir, shards := sharded(t, p, 2)
	must.Get(Merge(context.Background(), shards, Options{Out: filepath.Join(dir, "before")}))(t)
	_, err := Merge(context.Background(), shards, Options{Out: shards[0], Force: true})
	must.Refuse(t, err, "is the folder of shard 1/2", "choose another --out")

	out := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	_, err = Run(ctx, plan(t, sparse, 2, 8, "datasets.test.limit=5"), Options{Out: out,
		Progress: NewProgress(lineWriter(func(line string) {
			if strings.Contains(line, "attacked") {
				stop()
			}
		}), TextLog, false)})
	if ctx.Err() == nil || err == nil {
		t.Fatal(err)
	}
	must.Do(t, os.Remove(filepath.Join(out, "results.json"))) // as if it had been killed
	_, err = Merge(context.Background(), shards, Options{Out: out})
	must.Refuse(t, err, "holds another run", "limit")
	must.Get(os.Stat(filepath.Join(out, workFolder, journal.File)))(t)

	// A merge that was killed before it had begun stands in nobody's way.
	must.Do(t, os.Mkdir(filepath.Join(dir, workFolder), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, workFolder, "."+planFile+"-1"), nil, 0o644))
	f := must.Get(Merge(context.Background(), shards, Options{Out: dir}))(t)
	if words := fmt.Sprint(f.Command); words != "[]" {
		t.Errorf("the command is %s", words)
	}
	words := wholly([]string{"selfheal", "run", "--shard", "1/2", "--attempt", "--shard=1/2", "-q"})
	if fmt.Sprint(words) != "[selfheal run -q]" {
		t.Errorf("the command is %s", words)
	}
}

// What a finished shard has lost it makes again, and what is not a shard's counts for nothing.
func TestDamagedShards(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, sparse, 2, 8, "datasets.test.limit=6", "save_adversarial=true")
	whole := filepath.Join(t.TempDir(), "whole")
	must.Get(Run(context.Background(), p, Options{Out: whole}))(t)
	dir, shards := sharded(t, p, 2)
	path := filepath.Join(shards[1], workFolder, journal.File)
	data := must.Get(os.ReadFile(path))(t)
	lines := bytes.SplitAfter(data, []byte("\n"))
	for what, text := range map[string][]byte{
		"cut":     bytes.Join(lines[:len(lines)/2], nil),
		"changed": bytes.Replace(data, []byte(`{"i":1`), []byte(`{"i":7`), 1),
	} {
		must.Do(t, os.WriteFile(path, text, 0o644))
		if _, err := Merge(context.Background(), shards, Options{Out: dir}); err == nil {
			t.Errorf("a journal that is %s is merged", what)
		}
		must.Have(t, continued(t, p, Options{Out: dir, Shard: Shard{2, 2}}), "it continues")
	}
	saved := must.Get(filepath.Glob(filepath.Join(shards[1], workFolder, "adversarial", "*.npy")))(t)[0]
	values := must.Get(os.ReadFile(saved))(t)
	flipped := slices.Clone(values)
	flipped[len(values)/2] ^= 1
	for _, harmed := range [][]byte{values[:len(values)-4], flipped} {
		must.Do(t, os.WriteFile(saved, harmed, 0o644))
		_, err := Merge(context.Background(), shards, Options{Out: dir})
		must.Refuse(t, err, saved, "damaged", "--force")
	}
	must.Get(Run(context.Background(), p, Options{Out: dir, Shard: Shard{2, 2}, Force: true}))(t)

	// An attempt beside the run by hand that has only just begun, another number of shards.
	attempt := filepath.Join(shards[1], attemptPrefix+"1", workFolder)
	must.Do(t, os.MkdirAll(attempt, 0o755))
	plan := must.Get(readPlan(filepath.Join(shards[1], workFolder, planFile)))(t)
	plan.Run.Finished = nil
	must.Do(t, (&output{dir: filepath.Dir(attempt)}).write(*plan))
	must.Get(Merge(context.Background(), must.Get(FindShards(dir))(t), Options{Out: dir}))(t)
	sameEnd(t, "mended", whole, dir)
}

// Shares are those of the plan, as they were written, or are made anew where that is asked for.
func TestSharesOfAnotherPlan(t *testing.T) {
	p := plan(t, sparse, 2, 8, "datasets.test.limit=4")
	dir, _ := sharded(t, p, 2)
	path := sharesPath(dir, 2)
	data := must.Get(os.ReadFile(path))(t)
	other := plan(t, sparse, 2, 8, "datasets.test.limit=5")
	run := func(p *Plan, force bool) error {
		_, err := Run(context.Background(), p, Options{Out: dir, Shard: Shard{1, 2}, Force: force})
		return err
	}
	must.Refuse(t, run(other, false), "shares-of-2.json is of another plan", "--limit", "add --force")
	must.Do(t, os.WriteFile(path, bytes.Replace(data, []byte(`"labels":[`), []byte(`"labels":[7,`), 1), 0o644))
	must.Refuse(t, run(p, false), "shares-of-2.json is damaged", "add --force")
	must.Do(t, run(other, true))
	if s, err := result.Read(filepath.Join(dir, "results.json")); err == nil {
		t.Errorf("a shard has results %v", s)
	}
	must.Do(t, run(other, false))
	must.Refuse(t, run(p, false), "is of another plan")
}
