package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
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
	"selfheal/internal/atomicfile"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/sameend"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// ended reads the results of a finished run.
func ended(t *testing.T, dir string) *result.File {
	t.Helper()
	f := must.Get(result.Read(filepath.Join(dir, "results.json")))(t)
	if f.Finished == nil {
		t.Errorf("%s is not finished", dir)
	}
	return f
}

// sameEnd fails the test unless two runs have the same results.
func sameEnd(t *testing.T, name, want, got string) {
	t.Helper()
	if err := sameend.Check(want, got); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// merged runs a plan in shards and merges them. It returns the folder.
func merged(t *testing.T, p *plan.Plan, shards int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := range shards {
		must.Do(t, shard.Run(t.Context(), p, plan.Shard{I: i + 1, N: shards}, false, run.Options{Out: dir}))
	}
	must.Get(shard.Merge(t.Context(), shard.Find(dir), run.Options{Out: dir}))(t)
	return dir
}

// continued runs a plan in a folder and returns its progress.
func continued(t *testing.T, p *plan.Plan, o run.Options) string {
	t.Helper()
	var said bytes.Buffer
	o.Progress = progress.New(&said, progress.TextLog, false)
	must.Get(run.Run(context.Background(), p, o))(t)
	return said.String()
}

// state is a run's folder at a line of its progress, as a kill would leave it then.
type state struct{ dir, line string }

// states returns the states of a run, and its folder at the end.
func states(t *testing.T, p *plan.Plan) (all []state, end string) {
	t.Helper()
	testinput.Runtime(t)
	end = filepath.Join(t.TempDir(), "end")
	w := lineWriter(func(line string) {
		if _, err := os.Stat(filepath.Join(end, folder.WorkFolder)); err == nil {
			all = append(all, state{filepath.Join(filepath.Dir(end), fmt.Sprint(len(all))), line})
			must.Do(t, os.CopyFS(all[len(all)-1].dir, os.DirFS(end)))
		}
	})
	must.Get(run.Run(context.Background(), p, run.Options{Out: end, Progress: progress.New(w, progress.TextLog,
		false)}))(t)
	return all, end
}

// copied returns a copy of the folder, to be damaged, and the path of its journal.
func (s state) copied(t *testing.T) (dir, path string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	must.Do(t, os.CopyFS(dir, os.DirFS(s.dir)))
	return dir, filepath.Join(dir, folder.WorkFolder, journal.File)
}

// journal returns the lines of the state's journal, and the kind of block that each belongs to.
func (s state) journal(t *testing.T) (lines [][]byte, kinds []string) {
	t.Helper()
	all := must.Get(os.ReadFile(filepath.Join(s.dir, folder.WorkFolder, journal.File)))(t)
	byNumber := map[string]string{}
	for line := range bytes.Lines(all) {
		block, value, _ := strings.Cut(string(line[9:]), " ")
		if value[0] == '"' {
			var text string
			must.Do(t, json.Unmarshal([]byte(value), &text))
			byNumber[block] = must.Get(folder.ParseKey(text))(t).Of
		}
		lines, kinds = append(lines, line), append(kinds, byNumber[block])
	}
	return lines, kinds
}

// unaltered takes a control of [testplan.Resumed] that is built in no time.
const unaltered = "controls.msa.layers=[{at: input, embedding: {kind: identity}}]"

// A run that is ended anywhere reaches the results of an undisturbed one when its command is given again, and so
// do shards.
func TestEndedRunsContinue(t *testing.T) {
	p := testplan.Plan(t, testplan.Resumed, 2, 8, "datasets.test.limit=4", "models.robust.path="+tiny(t, 100),
		"models.standard.path="+tiny(t, 400), "datasets.test.path=models/zoo/shapes10/train.bin", unaltered)
	all, end := states(t, p)
	t.Run("killed", func(t *testing.T) { killed(t, p, all, end) })
	t.Run("damaged", func(t *testing.T) { damaged(t, p, all[len(all)-1], end) })
	sameEnd(t, "3 shards", end, merged(t, p, 3))
}

// killed continues from the first block of each kind in the journal, and from the last states. Finished work is not
// repeated, unless the journal was damaged.
func killed(t *testing.T, p *plan.Plan, all []state, end string) {
	rng := rand.New(rand.NewPCG(1, 2))
	seen, done, tried := map[string]bool{}, []string(nil), 0
	for k, s := range all {
		if component, _, ok := strings.Cut(s.line, " images attacked"); ok {
			done = append(done, component)
		}
		_, kinds := s.journal(t)
		try := k >= len(all)-2
		for _, kind := range kinds {
			try, seen[kind] = try || !seen[kind], true
		}
		if !try {
			continue
		}
		tried++
		dir, path := s.copied(t)
		lines := must.Get(os.ReadFile(path))(t)
		name, harmed := fmt.Sprintf("state %d of %d", k, len(all)), tried%3 == 1
		switch tried % 3 {
		case 1: // the disk was at fault
			name += ", damaged"
			lines[len(lines)/2] ^= 0x10
		case 2: // inside a write
			name += ", torn"
			lines = append(lines, lines[:1+rng.IntN(15)]...)
		}
		must.Do(t, os.WriteFile(path, lines, 0o644))
		said := continued(t, p, run.Options{Out: dir, Resume: true})
		if strings.Contains(said, "damaged") != harmed {
			t.Errorf("%s: %s", name, said)
		}
		for _, component := range done {
			if !harmed && strings.Contains(said, component+" images attacked") {
				t.Errorf("%s: attacked again: %s", name, component)
			}
		}
		sameEnd(t, name, end, dir)
	}
	if tried < 6 || len(done) < 8 {
		t.Errorf("%d states tried, %d components attacked", tried, len(done))
	}
}

// damaged removes lines of two kinds of blocks at once from the journal, until each kind has lost one, also after
// images were freed.
func damaged(t *testing.T, p *plan.Plan, last state, end string) {
	lines, kinds := last.journal(t)
	for pair := range slices.Chunk([]string{"verdicts", "gallery", "component", "saved", "freed", "study"}, 2) {
		dir, path := last.copied(t)
		harmed := slices.Clone(lines)
		for _, kind := range pair {
			i := len(kinds) - 1
			for ; i >= 0 && kinds[i] != kind; i-- {
			}
			if i < 0 {
				t.Fatalf("no block %q in %v", kind, kinds)
			}
			harmed[i] = bytes.Replace(lines[i], []byte(" "), []byte("!"), 1)
		}
		must.Do(t, os.WriteFile(path, bytes.Join(harmed, nil), 0o644))
		must.Have(t, continued(t, p, run.Options{Out: dir, Resume: true}), "2 lines of the journal are damaged")
		sameEnd(t, fmt.Sprint(pair), end, dir)
	}
}

// Images that the journal has lost are made again, and saved ones that a disk has damaged are saved again.
func TestDamagedImages(t *testing.T) {
	p := testplan.Plan(t, testplan.Resumed, 2, 8, "datasets.test.limit=4", "default_suites=[given]",
		"suites.given.models=[standard]", "suites.given.solver=null", unaltered)
	all, end := states(t, p)
	last := all[len(all)-1]
	half := func(data []byte) []byte { return data[:len(data)/2] }
	for name, c := range map[string]struct {
		at    state
		files string
		harm  func(data []byte) []byte
		said  string
	}{
		"empty": {all[len(all)-2], "*.f32", func([]byte) []byte { return nil }, "damaged and made again"},
		"cut":   {all[len(all)-3], "*.f32", half, "damaged and made again"},
		"changed": {all[len(all)-4], "*.f32", func(data []byte) []byte {
			if len(data) > 0 {
				data[len(data)/2]++
			}
			return data
		}, "damaged and made again"},
		"saved, cut":    {last, "adversarial/*.npy", half, ""},
		"saved, longer": {last, "adversarial/*.npy", func(data []byte) []byte { return append(data, 0) }, ""},
		"saved, flipped": {last, "adversarial/*.npy", func(data []byte) []byte {
			data[len(data)-5] ^= 4
			return data
		}, ""},
	} {
		dir, _ := c.at.copied(t)
		files := must.Get(filepath.Glob(filepath.Join(dir, folder.WorkFolder, c.files)))(t)
		if len(files) == 0 {
			t.Fatalf("%s: there are no images", name)
		}
		for _, path := range files {
			must.Do(t, os.WriteFile(path, c.harm(must.Get(os.ReadFile(path))(t)), 0o644))
		}
		must.Have(t, continued(t, p, run.Options{Out: dir, Resume: true}), c.said)
		sameEnd(t, name, end, dir)
	}
}

// A finished run is left as it is, to the bit, and nothing is attacked; --force makes it anew, and
// its results stay until there are others.
func TestFinishedRunStays(t *testing.T) {
	testinput.Runtime(t)
	sets := []string{"suites.small.attacks=[pgd-l2]", "datasets.test.limit=3", "models.robust.path=" + tiny(t, 100)}
	p := testplan.Plan(t, testplan.Small, 1, 8, sets...)
	_, _, out := runFor(t, p)
	before := must.Get(os.ReadFile(filepath.Join(out, "results.json")))(t)
	for _, resume := range []bool{false, true} {
		if said := continued(t, p, run.Options{Out: out, Resume: resume}); strings.Count(said, "\n") != 1 {
			t.Errorf("it says %s", said)
		}
		if after := must.Get(os.ReadFile(filepath.Join(out, "results.json")))(t); !bytes.Equal(before, after) {
			t.Error("its results are other ones")
		}
	}
	other := testplan.Plan(t, testplan.Small, 1, 8, append(sets, "seed=9")...)
	anew := run.Options{Out: out, Rule: atomicfile.Rule{Force: true}}
	cancelled(t, other, anew, "none, controlled by auto-encoder", nil)
	must.Have(t, continued(t, other, run.Options{Out: out, Resume: true}), "it continues")
	if again := ended(t, out); again.Seed != 9 {
		t.Errorf("seed %d", again.Seed)
	}
	continued(t, p, anew)
	before = must.Get(os.ReadFile(filepath.Join(out, "results.json")))(t)
	f := cancelled(t, p, anew, "none, controlled by auto-encoder", nil)
	if after := must.Get(os.ReadFile(filepath.Join(out, "results.json")))(t); !bytes.Equal(before, after) {
		t.Errorf("its results went for a run of %d cells", len(f.Cells))
	}
	must.Have(t, continued(t, p, run.Options{Out: out}), "it continues")
	if again := ended(t, out); len(again.Cells) != 6 {
		t.Errorf("%d cells", len(again.Cells))
	}
}

// A run that was stopped leaves the cells that are done, and as many when it is stopped again earlier.
func TestStoppedAgainEarlier(t *testing.T) {
	out := t.TempDir()
	p := testplan.Plan(t, testplan.Small, 1, 8, "attacks.apgd-l1.steps=100000", "models.robust.path="+tiny(t, 100))
	cells := func() int { return len(must.Get(result.Read(filepath.Join(out, "results.json")))(t).Cells) }
	f := cancelled(t, p, run.Options{Out: out, Rule: atomicfile.Rule{Force: true}}, "apgd-linf, controlled by pca", nil)
	first := cells()
	cancelled(t, p, run.Options{Out: out}, "[2/", nil)
	if again := cells(); len(f.Cells) != 6 || first != 6 || again != 6 {
		t.Errorf("%d cells, %d of them written, and %d when it was stopped again", len(f.Cells), first, again)
	}
}

// Each difference that makes another run of a plan is refused by name, whether the run in the folder is finished or
// not.
func TestOtherRunsAreRefused(t *testing.T) {
	testinput.Runtime(t)
	sets := []string{"suites.small.attacks=[pgd-l2]", "datasets.test.limit=3",
		"suites.small.controls=[auto-encoder]"}
	p := testplan.Plan(t, testplan.Small, 1, 8, sets...)
	all, out := states(t, p)
	for _, where := range []string{out, all[len(all)-1].dir} {
		for set, words := range map[string]string{
			"seed=9":                 "seed: there 3, here 9",
			"datasets.test.limit=2":  "datasets.test.limit: there 3, here 2",
			"attacks.pgd-l2.steps=7": "attacks.pgd-l2.parameters.steps: there 6, here 7",
			"models.robust.path=models/zoo/preact_standard.onnx": "models.robust.sha256: there ",
			"datasets.test.path=models/zoo/shapes10/train.bin":   "datasets.test.sha256: there ",
			"suites.small.mode=whitebox-through":                 "mode: there oblivious, here whitebox-through",
			"controls.auto-encoder.solver={method: greedy}":      "solver.method: there msa, here greedy",
			"seeds=2": "seeds: there none, here [3, 4]",
		} {
			for _, resume := range []bool{false, true} {
				_, err := run.Run(context.Background(), testplan.Plan(t, testplan.Small, 1, 8,
					append(slices.Clone(sets), set)...),
					run.Options{Out: where, Resume: resume})
				must.Refuse(t, err, words, "choose another --out or add --force")
				if !errors.Is(err, folder.ErrOtherRun) {
					t.Errorf("%s: %v", set, err)
				}
			}
		}
	}
	_, err := run.Run(context.Background(), p, run.Options{Out: t.TempDir(), Resume: true})
	misconfigured(t, err, "holds no run")
	for _, f := range []func(f *result.File){
		func(f *result.File) { f.Environment.ONNXRuntime = "1.0" },
		func(f *result.File) { f.Environment.Provider = "openvino" },
		func(f *result.File) { f.Attacks["pgd-l2"] = result.Attack{Recipe: "pgd/0"} },
	} {
		old := must.Get(result.Read(filepath.Join(out, "results.json")))(t)
		f(old)
		where := t.TempDir()
		must.Do(t, result.Write(filepath.Join(where, "results.json"), old))
		_, err := run.Run(context.Background(), p, run.Options{Out: where})
		must.Refuse(t, err, "there ", "here ")
	}
}

// A run's journal stays until its results are on the disk: here one of them can't be brought there.
func TestJournalOutlivesLostResults(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Small, 1, 8, "suites.small.attacks=[pgd-l2]", "datasets.test.limit=2",
		"save_adversarial=true",
		"suites.small.controls=[]", "suites.small.models=[standard]")
	out := t.TempDir()
	_, err := run.Run(context.Background(), p, run.Options{Out: out, Report: func(*result.File) error {
		return os.Remove(filepath.Join(out, "records.jsonl"))
	}})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its records the run ends with %v", err)
	}
	must.Have(t, continued(t, p, run.Options{Out: out, Resume: true}), "it continues")
	ended(t, out)
}

// Nothing is kept of a run whose folder is removed meanwhile, and its error says so.
func TestRemovedFolder(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Small, 1, 8, "suites.small.attacks=[pgd-l2]", "datasets.test.limit=3",
		"models.robust.path="+tiny(t, 100))
	out := filepath.Join(t.TempDir(), "out")
	removed := false
	w := lineWriter(func(string) {
		if _, err := os.Stat(filepath.Join(out, folder.WorkFolder)); err == nil && !removed {
			removed = true
			must.Do(t, os.RemoveAll(out))
		}
	})
	_, err := run.Run(t.Context(), p, run.Options{Out: out, Progress: progress.New(w, progress.TextLog, false)})
	if must.Refuse(t, err, "was removed while the run was at work"); errors.As(err, new(folder.Unfinished)) {
		t.Error("it is said to be kept")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the folder is there again")
	}
}

// sameAnywhere fails the test unless a plan, in two shards, and its other form, with other workers and batches, give
// the results of a run.
func sameAnywhere(t *testing.T, p, other *plan.Plan, want string) {
	t.Helper()
	_, _, out := runFor(t, other)
	identical(t, "another batch", want, out)
	sameEnd(t, "merged", want, merged(t, p, 2))
}
