package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// make module renames the module in every import: Go finds all packages of a copy under the new path and none under the
// old one.
func TestModuleRenames(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"make", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("there is no " + tool)
		}
	}
	root, dir := testinput.Root(t), t.TempDir()
	list := exec.Command("git", "ls-files", "-z", "*.go", "go.mod", "go.sum", "Makefile", "models/zoo/*", "config.yaml",
		"models/onnx/*.txt", "docs/schema/*", "reports/assets/*", "attacks/corruption/*", "harness/*", "models/ort/*")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		t.Skip("this is no checkout:", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(files), "\x00"), "\x00") {
		data := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
		to := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must.Do(t, os.WriteFile(to, data, 0o644))
	}
	in := func(name string, args ...string) string {
		c := exec.Command(name, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	const renamed = "example.org/owner/selfheal"
	in("make", "module", "MODULE="+renamed)
	const imports = `{{.ImportPath}}: {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`
	ours, imported := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(in("go", "list", "-f", imports, "./...")) {
		path, from, _ := strings.Cut(line, ":")
		ours[path] = true
		for _, path := range strings.Fields(from) {
			imported[path] = true
		}
	}
	for path := range imported {
		if strings.HasPrefix(path, "selfheal/") || strings.HasPrefix(path, renamed) && !ours[path] {
			t.Errorf("%s is imported, and no package", path)
		}
	}
	for path := range ours {
		if path != renamed && !strings.HasPrefix(path, renamed+"/") {
			t.Errorf("package %s has the old path", path)
		}
	}
	if len(ours) < 40 {
		t.Errorf("only %d packages have the new path", len(ours))
	}
	if left := in("gofmt", "-l", "."); left != "" {
		t.Errorf("not formatted: %s", left)
	}
}
