package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"selfheal/internal/must"
	"selfheal/models/bounds"
	"selfheal/models/onnx"
)

// Imports go one way: models, attacks → control → harness → internal/cli → main. Reports import only results,
// statistics, comparisons, the theory and the table of attacks; the packages within harness and reports import those
// that they are built on; one package imports ONNX Runtime's binding. The helpers under internal serve all and import
// nothing else of ours.
func TestImportRules(t *testing.T) {
	module := strings.TrimSpace(string(must.Get(exec.Command("go", "list", "-m").Output())(t))) + "/"
	out := must.Get(exec.Command("go", "list", "-f", `{{.ImportPath}}:{{join .Imports " "}}`, "./...").Output())(t)
	allowed := map[string][]string{ // by top-level folder: what it may import of ours
		"models":   {"models"},
		"attacks":  {"attacks"},
		"control":  {"control", "models", "attacks"},
		"harness":  {"harness", "control", "models", "attacks"},
		"reports":  {"attacks", "harness/cell", "harness/result", "harness/stats", "harness/compare", "control/theory"},
		"internal": {},
	}
	rooms := map[string]string{ // which rooms of its folder a room may import; "harness" itself has the version
		"harness/cell": "", "harness/cluster": "", "harness/doctor": "", "harness/stats": "",
		"harness/vnnlib":           "folder",
		"harness/result/published": "", "harness/result": "cell stats", "harness/compare": "cell result stats",
		"harness/dataset": "result", "harness/config": "cell dataset result result/published",
		"harness/gate": "cell config result stats", "harness/plan": "cell config dataset result",
		"harness/progress": "cell config result", "harness/folder": "cell config plan result",
		"harness/planted": "config open plan result", "harness/signs": "cell config judge open result",
		"harness/open":    "cell harness config dataset folder plan progress result stats",
		"harness/certify": "cell folder judge open plan progress result stats",
		"harness/judge":   "cell config open plan result stats",
		"harness/picture": "dataset folder result",
		"harness/run": "cell harness certify config dataset folder judge open picture plan planted progress result " +
			"signs stats",
		"harness/forecast": "cell certify config dataset open plan planted result run stats",
		"harness/shard":    "cell cluster dataset folder open plan progress result run",
		"harness/fit":      "cell harness config dataset folder open plan progress result",
		"reports/words":    "", "reports/view": "words", "reports/table": "words view",
		"reports/figure/chart": "words", "reports/figure": "words view figure/chart",
		"reports": "words view table figure figure/chart",
	}
	helpers := []string{"internal/atomicfile", "internal/checksum", "internal/fault", "internal/filelock",
		"internal/input", "internal/jpeg", "internal/journal", "internal/lists", "internal/memory",
		"internal/must", "internal/normalised", "internal/npy", "internal/number", "internal/numbers",
		"internal/pickle",
		"internal/pillow", "internal/resample", "internal/sealed", "internal/setting", "internal/suggest",
		"internal/temporary", "internal/terminal",
		"internal/tree", "internal/vector", "internal/webp"}
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
			room, ok := strings.TrimPrefix(dep, top+"/"), false
			if (top == "harness" || top == "reports") && strings.HasPrefix(dep, top) {
				ok = slices.Contains(strings.Fields(rooms[own]), room)
			} else {
				ok = slices.ContainsFunc(allowed[top],
					func(a string) bool { return dep == a || strings.HasPrefix(dep, a+"/") })
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

// sources maps the paths of the repository's Go files, except generated ones, to their text.
func sources(t *testing.T) map[string]string {
	files := map[string]string{}
	must.Do(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".pb.go"):
			files[path] = read(t, path)
		}
		return nil
	}))
	if len(files) < 100 {
		t.Errorf("only %d Go files", len(files))
	}
	return files
}

// Lines have at most 120 columns, a tab counting 4, files 600 lines, the rooms of harness 3,600 without their tests.
func TestFilesAreShortAndNarrow(t *testing.T) {
	t.Parallel()
	rooms := map[string]int{}
	for name, text := range sources(t) {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > 600 {
			t.Errorf("%s has %d lines, more than 600", name, len(lines))
		}
		for i, line := range lines {
			if width := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); width > 120 {
				t.Errorf("%s:%d has %d columns, more than 120", name, i+1, width)
			}
		}
		if dir := filepath.Dir(name); strings.HasPrefix(dir, "harness") && !strings.HasSuffix(name, "_test.go") {
			rooms[dir] += len(lines)
		}
	}
	for room, lines := range rooms {
		if lines > 3700 {
			t.Errorf("%s has %d lines, more than 3,700", room, lines)
		}
	}
}

// No type has more than 30 methods.
func TestTypesAreSmall(t *testing.T) {
	t.Parallel()
	methods := map[string]int{}
	receiver := regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)(?:\[.*\])?\) `)
	for name, text := range sources(t) {
		for _, found := range receiver.FindAllStringSubmatch(text, -1) {
			methods[filepath.Dir(name)+"."+found[1]]++
		}
	}
	for name, n := range methods {
		if n > 30 {
			t.Errorf("%s has %d methods, more than 30", name, n)
		}
	}
	if len(methods) < 100 {
		t.Errorf("only %d types", len(methods))
	}
}

// docs/onnx.md lists the known operators, how each treats the batch, and those whose derivative is 0;
// docs/certificates.md lists those that have bounds. -update rewrites the lists.
func TestOperatorsDocumented(t *testing.T) {
	byRow := map[string][]string{}
	for _, op := range onnx.Operators() {
		row := "it works on constants alone"
		if batch := onnx.TraitsOf(op).Batch; batch != nil {
			row = batch.Doc
		}
		byRow[row] = append(byRow[row], op)
	}
	table := "| the batch | operators |\n|---|---|\n"
	for _, row := range slices.Sorted(maps.Keys(byRow)) {
		table += "| " + row + " | " + strings.Join(byRow[row], ", ") + " |\n"
	}
	generated(t, "docs/onnx.md", "operators", listed(onnx.Operators()))
	generated(t, "docs/onnx.md", "batch", table)
	generated(t, "docs/onnx.md", "derivative 0", listed(slices.DeleteFunc(onnx.Operators(), func(op string) bool {
		row := onnx.TraitsOf(op)
		return !row.Discrete() || row.Folded
	})))
	generated(t, "docs/certificates.md", "operators", listed(bounds.Operators()))
}

// listed writes operators in lines of one paragraph.
func listed(operators []string) string {
	var list strings.Builder
	width := 0
	for i, op := range operators {
		switch {
		case i == 0:
		case width+len(op)+2 > 88:
			list.WriteString(",\n")
			width = 0
		default:
			list.WriteString(", ")
			width += 2
		}
		list.WriteString(op)
		width += len(op)
	}
	return list.String() + ".\n"
}

// generated checks the text between a name's marks on a page; -update rewrites it.
func generated(t *testing.T, path, name, want string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(read(t, path), begin)
	list, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no part called %s", path, name)
	case *update:
		put(t, path, before+begin+want+end+after)
	case list != want:
		t.Errorf("%s: what is called %s differs (go test -update rewrites it):\n%swant\n%s", path, name, list, want)
	}
}

// Each line of code in docs/go.md occurs in an example.
func TestGoDocumented(t *testing.T) {
	var examples strings.Builder
	for _, name := range []string{"attacks", "control", "harness/open"} {
		examples.WriteString(read(t, name+"/example_test.go"))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "docs/go.md"), -1)
	if len(blocks) != 3 {
		t.Errorf("%d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			if !strings.Contains(examples.String(), strings.TrimSpace(line)) {
				t.Errorf("no example has %s", line)
			}
		}
	}
}

// Package cell declares the identity of a cell: no other struct has three or more of its fields, so that the meaning of
// "none", equality and order are defined once.
func TestOneIdentity(t *testing.T) {
	identity := []string{"suite", "dataset", "model", "defense", "mode", "attack", "epsilon", "source", "seed"}
	for path, text := range sources(t) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "harness/cell/") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, text, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			of, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			var has []string
			for _, f := range of.Fields.List {
				for _, name := range f.Names {
					if slices.Contains(identity, strings.ToLower(name.Name)) {
						has = append(has, name.Name)
					}
				}
			}
			if len(has) > 2 {
				t.Errorf("%s: a struct has %s of a cell: embed what package cell has", path, strings.Join(has, ", "))
			}
			return true
		})
	}
}
