package reports

import (
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

func writeTheory(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made")
	must.Do(t, WriteTheory(dir, theoryFixture()))
	return folder(t, dir)
}

func TestTheoryGolden(t *testing.T) {
	files := writeTheory(t)
	again := writeTheory(t)
	for name, content := range files {
		if again[name] != content {
			t.Errorf("%s differs between two runs", name)
		}
	}
	if len(files) != 3+2*2 {
		t.Errorf("%d files", len(files))
	}
	for _, name := range []string{"theory.md", "theory.html", "theory.json"} {
		golden(t, name, files[name])
	}
	fetchesNothing(t, files["theory.html"])
	if err := WriteTheory(t.TempDir(), nil); err == nil {
		t.Error("no error without a theory")
	}
}
