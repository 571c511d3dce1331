package repository

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// Imports go one way: models, attacks → control → harness → internal/cli → main; reports see
// results and those of the theory only, and ONNX Runtime's binding has one importer. The helpers under internal
// serve all and import nothing else of ours.
func TestImportRules(t *testing.T) {
	out := must.Get(exec.Command("go", "list", "-f", `{{.ImportPath}}:{{join .Imports " "}}`, "./...").Output())(t)
	allowed := map[string][]string{ // by top-level folder: what it may import of ours
		"models":   {"models"},
		"attacks":  {"attacks"},
		"control":  {"control", "models", "attacks"},
		"harness":  {"harness", "control", "models", "attacks"},
		"reports":  {"harness/result", "control/theory"},
		"internal": {},
	}
	helpers := []string{"internal/atomicfile", "internal/fault", "internal/must", "internal/number", "internal/setting",
		"internal/terminal", "internal/vector"}
	seen := 0
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, imports, _ := strings.Cut(line, ":")
		own, inModule := strings.CutPrefix(path, "selfheal/")
		top, _, _ := strings.Cut(own, "/")
		for _, im := range strings.Fields(imports) {
			if im == "github.com/yalue/onnxruntime_go" && own != "models/ort" {
				t.Errorf("%s imports the runtime's binding; only models/ort may", path)
			}
			dep, ours := strings.CutPrefix(im, "selfheal/")
			if !ours || !inModule || slices.Contains(helpers, dep) ||
				allowed[top] == nil || top == "internal" && !slices.Contains(helpers, own) {
				continue
			}
			seen++
			ok := false
			for _, a := range allowed[top] {
				ok = ok || dep == a || strings.HasPrefix(dep, a+"/")
			}
			if !ok {
				t.Errorf("%s imports %s", path, im)
			}
		}
		if own == "models/onnx" || own == "models/split" || own == "models/grad" {
			if strings.Contains(imports, "selfheal/models/ort") {
				t.Errorf("%s imports the runtime", path)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d imports looked at", seen)
	}
}
