package harness

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// A run takes away what an earlier one has left, whatever the folder is called, and
// nothing of a folder that holds no results.
func TestWhatARunRemoves(t *testing.T) {
	for _, c := range []struct {
		name    string
		results bool
		left    []string
	}{
		{"plain", true, []string{lockFile, "mine.txt", "records.jsonl", "results.json"}},
		{"gl[1", true, []string{lockFile, "mine.txt", "records.jsonl", "results.json"}},
		{"other", false, []string{lockFile, "control-panel.png", "junit.xml", "mine.txt", "records.jsonl",
			"results.json"}},
	} {
		dir := filepath.Join(t.TempDir(), c.name)
		must.Do(t, os.MkdirAll(filepath.Join(dir, "adversarial"), 0o755))
		for _, name := range []string{"mine.txt", "junit.xml", "control-panel.png", "adversarial/a.npy"} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
		f := &result.File{Schema: result.Schema}
		if c.results {
			must.Do(t, result.Write(filepath.Join(dir, "results.json"), f))
		}
		j := must.Get(newJournal(dir, f, false))(t)
		if _, err := os.Stat(filepath.Join(dir, "junit.xml")); err != nil {
			t.Errorf("%s: removed before the first cell: %v", c.name, err)
		}
		must.Do(t, j.cell(f, nil))
		must.Do(t, j.close(f))
		var left []string
		entries := must.Get(os.ReadDir(dir))(t)
		for _, e := range entries {
			if !e.IsDir() {
				left = append(left, e.Name())
			}
		}
		if !slices.Equal(left, c.left) {
			t.Errorf("%s: %q are left, want %q", c.name, left, c.left)
		}
		saved, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*", "adversarial", "*.npy"))
		if len(saved) == 1 == c.results {
			t.Errorf("%s: adversarial images %q", c.name, saved)
		}
	}
}
