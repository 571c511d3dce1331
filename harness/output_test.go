package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A run's journal stays until its results are on the disk: here one of them can't be brought there.
func TestJournalOutlivesLostResults(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, small, 1, 8, "suites.small.attacks=[pgd-l2]", "datasets.test.limit=2", "save_adversarial=true",
		"suites.small.controls=[]", "suites.small.models=[standard]")
	out := t.TempDir()
	_, err := Run(context.Background(), p, Options{Out: out, Report: func(*result.File) error {
		return os.Remove(filepath.Join(out, "records.jsonl"))
	}})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its records the run ends with %v", err)
	}
	must.Have(t, continued(t, p, Options{Out: out, Resume: true}), "it continues")
	ended(t, out)
}

// Where the file system locks nothing, what the lock's file holds keeps others out while its process lives.
func TestLockByName(t *testing.T) {
	defer func() { tryLock = (*flock.Flock).TryLock }()
	tryLock = func(*flock.Flock) (bool, error) { return false, syscall.ENOLCK }
	dir := t.TempDir()
	l := must.Get(lockFolder(dir, "run"))(t)
	_, err := lockFolder(dir, "run")
	must.Refuse(t, err, fmt.Sprintf("another run (process %d on ", os.Getpid()))
	l.free()
	must.Get(lockFolder(dir, "run"))(t).free()
	host := must.Get(os.Hostname())(t)
	for owner, want := range map[string]string{
		"process 999999999 on " + host + ", since 2026": "", "process 1 on elsewhere, since 2026": "on elsewhere",
		"somebody": "somebody", "": "",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, lockFile), []byte(owner), 0o644))
		if l, err := lockFolder(dir, "run"); want != "" {
			must.Refuse(t, err, want)
		} else if err != nil || l.before != owner {
			t.Errorf("%q: %v", owner, err)
		} else {
			l.free()
		}
	}
}

// What an earlier run drew goes with its results.
func TestOldFiguresGo(t *testing.T) {
	dir, old := t.TempDir(), &result.File{Schema: result.Schema, Finished: new(time.Now())}
	must.Do(t, result.Write(filepath.Join(dir, "results.json"), old))
	drawn := []string{"radar-s.png", "curve-s.svg", "waterfall-s.png", "control-s.svg", "solver-s.png",
		"corruptions-s.png", "corruptions-s.svg", "certified-s.png", "certified-s.svg", "theory-margins.svg"}
	for _, name := range append(drawn, "mine-s.png") {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	o := must.Get(openOutput(dir, true))(t)
	defer o.unlock()
	must.Do(t, must.Get(o.begin(planned{Run: old}))(t).Close())
	must.Do(t, o.cell(old, nil))
	if done := must.Get(o.publish(old, nil))(t); !done {
		t.Fatal("the new results were not published")
	}
	for _, name := range drawn {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	must.Get(os.Stat(filepath.Join(dir, "mine-s.png")))(t)
}

// Nothing is kept of a run whose folder is removed meanwhile, and its error says so.
func TestRemovedFolder(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, small, 1, 8, "suites.small.attacks=[pgd-l2]", "datasets.test.limit=3",
		"models.robust.path="+tiny(t, 100))
	out := filepath.Join(t.TempDir(), "out")
	removed := false
	w := lineWriter(func(string) {
		if _, err := os.Stat(filepath.Join(out, workFolder)); err == nil && !removed {
			removed = true
			must.Do(t, os.RemoveAll(out))
		}
	})
	_, err := Run(t.Context(), p, Options{Out: out, Progress: NewProgress(w, TextLog, false)})
	if must.Refuse(t, err, "was removed while the run was at work"); errors.As(err, new(Unfinished)) {
		t.Error("it is said to be kept")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the folder is there again")
	}
}
