package repository

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

// Imports go one way: models, attacks → control → harness → internal/cli → main; reports see results, statistics,
// comparisons, the theory and the table of attacks only, and their rooms each other from words up to formats; ONNX
// Runtime's binding has one importer. The helpers under internal serve all and import nothing else of ours.
func TestImportRules(t *testing.T) {
	module := strings.TrimSpace(string(must.Get(exec.Command("go", "list", "-m").Output())(t))) + "/"
	out := must.Get(exec.Command("go", "list", "-f", `{{.ImportPath}}:{{join .Imports " "}}`, "./...").Output())(t)
	allowed := map[string][]string{ // by top-level folder: what it may import of ours
		"models":   {"models"},
		"attacks":  {"attacks"},
		"control":  {"control", "models", "attacks"},
		"harness":  {"harness", "control", "models", "attacks"},
		"reports":  {"attacks", "harness/result", "harness/stats", "harness/compare", "control/theory"},
		"internal": {},
	}
	rooms := map[string]string{ // of reports: which of them each may import
		"reports": "words view table figure figure/chart", "reports/figure": "words view figure/chart",
		"reports/figure/chart": "words", "reports/table": "words view", "reports/view": "words", "reports/words": "",
	}
	helpers := []string{"internal/atomicfile", "internal/fault", "internal/input", "internal/jpeg", "internal/journal",
		"internal/memory", "internal/must", "internal/number", "internal/resample", "internal/setting",
		"internal/suggest", "internal/terminal", "internal/vector"}
	seen := 0
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, imports, _ := strings.Cut(line, ":")
		own, inModule := strings.CutPrefix(path, module)
		top, _, _ := strings.Cut(own, "/")
		for _, im := range strings.Fields(imports) {
			if im == "github.com/yalue/onnxruntime_go" && own != "models/ort" {
				t.Errorf("%s imports the runtime's binding; only models/ort may", path)
			}
			dep, ours := strings.CutPrefix(im, module)
			if !ours || !inModule || slices.Contains(helpers, dep) ||
				allowed[top] == nil || top == "internal" && !slices.Contains(helpers, own) {
				continue
			}
			seen++
			room, ok := strings.CutPrefix(dep, "reports/")
			ok = ok && slices.Contains(strings.Fields(rooms[own]), room)
			for _, a := range allowed[top] {
				ok = ok || dep == a || strings.HasPrefix(dep, a+"/")
			}
			if !ok {
				t.Errorf("%s imports %s", path, im)
			}
		}
		if own == "models/onnx" || own == "models/split" || own == "models/grad" {
			if strings.Contains(imports, module+"models/ort") {
				t.Errorf("%s imports the runtime", path)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d imports looked at", seen)
	}
}

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
		if len(lines) > 600 {
			t.Errorf("%s has %d lines, more than 600", name, len(lines))
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

// docs/onnx.md lists the operators that are known; -update rewrites the list.
func TestOperatorsDocumented(t *testing.T) {
	const begin, end = "<!-- operators -->\n", "<!-- /operators -->"
	path := "docs/onnx.md"
	before, rest, ok := strings.Cut(read(t, path), begin)
	list, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("no list of operators")
	}
	var want strings.Builder
	width := 0
	for i, op := range onnx.Operators() {
		switch {
		case i == 0:
		case width+len(op)+2 > 88:
			want.WriteString(",\n")
			width = 0
		default:
			want.WriteString(", ")
			width += 2
		}
		want.WriteString(op)
		width += len(op)
	}
	want.WriteString(".\n")
	switch {
	case *update:
		put(t, path, before+begin+want.String()+end+after)
	case list != want.String():
		t.Errorf("the list of operators differs (go test -update rewrites it):\n%swant\n%s", list, want.String())
	}
}
