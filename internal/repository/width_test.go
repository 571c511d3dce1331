package repository

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"selfheal/internal/testinput"
)

// Go files are at most 400 lines of at most 120 columns, a tab counting 4. Generated
// files (*.pb.go) are exempt.
func TestFilesAreShortAndNarrow(t *testing.T) {
	t.Parallel()
	root, files := testinput.Root(t), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		files++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if len(lines) > 400 {
			t.Errorf("%s has %d lines, more than 400", name, len(lines))
		}
		for i, line := range lines {
			if width := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); width > 120 {
				t.Errorf("%s:%d has %d columns, more than 120", name, i+1, width)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d Go files, %v", files, err)
	}
}
