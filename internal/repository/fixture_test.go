// Package repository holds what is true of the repository as a whole: its imports, its
// documentation, the files for CI. It has tests only.
package repository

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

var update = flag.Bool("update", false, "rewrite what is generated")

// Tests run in the repository's folder.
func TestMain(m *testing.M) {
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func read(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}
