package harness

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

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
	timeless(t, out)
}
