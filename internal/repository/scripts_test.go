package repository

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// A script's description is its docstring, a command's package comment, or the comment below the line that names the
// shell.
var (
	docstring = regexp.MustCompile(`(?s)^(?:#![^\n]*\n)?"""(.+?)"""`)
	comment   = regexp.MustCompile(`^(?:#!.*\n)?((?:(?://|#) .*\n)+)`)
	sentence  = regexp.MustCompile(`(?s)^(.+?)(?:[.:]?$|[.:]\n|\.\s)`)
	runnable  = regexp.MustCompile(`\.(py|go|sh)$`)
	fromRoom  = regexp.MustCompile(`(?m)^ *from (goldens|zoo|paper|bench|verify|release)[. ]`)
	ownLine   = "\nsys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])"
)

// scripts/README.md lists every script but the Python package's and tests, by the first sentence of its description;
// -update rewrites the list. A script that is started and imports from a room has the line that lets it.
func TestScriptsListed(t *testing.T) {
	table := "| script | what it does |\n|---|---|\n"
	must.Do(t, filepath.WalkDir("scripts", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "scripts/python" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !runnable.MatchString(d.Name()) || strings.HasPrefix(d.Name(), "test_"):
			return nil
		}
		text := read(t, path)
		if text == "" { // of a room, which makes it a package
			return nil
		}
		found := docstring.FindStringSubmatch(text)
		if found == nil {
			if found = comment.FindStringSubmatch(text); found == nil {
				t.Errorf("%s does not say what it does", path)
				return nil
			}
			found[1] = regexp.MustCompile(`(?m)^(//|#) `).ReplaceAllString(found[1], "")
		}
		said := strings.Join(strings.Fields(sentence.FindStringSubmatch(strings.TrimSpace(found[1]))[1]), " ")
		table += "| `" + strings.TrimPrefix(path, "scripts/") + "` | " + said + " |\n"
		started := strings.Contains(text, `__name__ == "__main__"`)
		if started && fromRoom.MatchString(text) != strings.Contains(text, ownLine) {
			t.Errorf("%s imports from a room without the line %q, or has the line for nothing", path, ownLine[1:])
		}
		return nil
	}))
	generated(t, "scripts/README.md", "scripts", table)
}

// Scripts and their files that pages, comments and commands name are there.
func TestScriptsNamed(t *testing.T) {
	text := regexp.MustCompile(`(\.(md|go|py|ya?ml|toml|txt|sh)|^(Makefile|run))$`)
	named := regexp.MustCompile(`scripts/[\w/]+\.(py|jsonl|sh|go|txt)\b`)
	files := 0
	must.Do(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && len(name) > 1 && name[0] == '.' && name != ".ci":
			return fs.SkipDir
		case d.IsDir() || path == "CHANGELOG.md" || !text.MatchString(name):
			return nil
		}
		files++
		for _, script := range named.FindAllString(read(t, path), -1) {
			if _, err := os.Stat(script); err != nil {
				t.Errorf("%s names %s, which is not there", path, script)
			}
		}
		return nil
	}))
	if files < 500 {
		t.Errorf("only %d files", files)
	}
}
