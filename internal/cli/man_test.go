package cli

import (
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

// A page for each command, with its flags and examples; the same bytes at the same date.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	pages := func() map[string]string {
		dir, read := filepath.Join(t.TempDir(), "man1"), map[string]string{}
		done(t, "man", dir)
		for _, e := range must.Get(os.ReadDir(dir))(t) {
			read[e.Name()] = string(must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t))
		}
		return read
	}
	first := pages()
	for page, holds := range map[string]string{"selfheal.1": "AutoAttack", "selfheal-attack.1": "apgd-ce",
		"selfheal-check.1": "baseline.json", "selfheal-fit.1": "Jan 1970"} {
		must.Have(t, first[page], holds, `.TH "SELFHEAL`)
	}
	if again := pages(); len(again) != len(first) || again["selfheal-run.1"] != first["selfheal-run.1"] {
		t.Error("pages differ from one time to the next")
	}
	if code, _, stderr := call("man", filepath.Join(os.DevNull, "man1")); code != exitUsage {
		t.Errorf("exit %d\n%s", code, stderr)
	}
}
