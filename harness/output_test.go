package harness_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"selfheal/harness/folder"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

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
