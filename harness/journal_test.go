package harness

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/result"
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
		if err := os.MkdirAll(filepath.Join(dir, "adversarial"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"mine.txt", "junit.xml", "control-panel.png", "adversarial/a.npy"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f := &result.File{Schema: result.Schema}
		if c.results {
			if err := result.Write(filepath.Join(dir, "results.json"), f); err != nil {
				t.Fatal(err)
			}
		}
		j, err := newJournal(dir, f, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "junit.xml")); err != nil {
			t.Errorf("%s: removed before the first cell: %v", c.name, err)
		}
		if err := j.cell(f, nil); err != nil {
			t.Fatal(err)
		}
		if err := j.close(f); err != nil {
			t.Fatal(err)
		}
		var left []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
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
