// Package repository tests what holds for the repository as a whole: its imports, its comments, its documentation, the
// files for CI. It has tests only.
package repository

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

var update = flag.Bool("update", false, "rewrite what is generated")

var root string // the repository's folder, in which tests run

func TestMain(m *testing.M) {
	var err error
	if root, err = filepath.Abs(filepath.Join("..", "..")); err == nil {
		err = os.Chdir(root)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// read reads a file by its absolute path. With a relative one, go test would not notice that the file changed and would
// answer from its cache, because the folder was changed before the tests began.
func read(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
	return string(data)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}
