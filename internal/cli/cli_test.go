package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/testinput"
)

// repository stands for those built into the program: the repository's own.
var repository fs.FS

// Tests run in the repository's folder, as a user does.
func TestMain(m *testing.M) {
	if _, err := os.Stat("go.mod"); err != nil { // a process that a test starts is there already
		if err := os.Chdir(filepath.Join("..", "..")); err != nil {
			panic(err)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	repository = os.DirFS(root)
	os.Exit(m.Run())
}

func bundledGlobals() *globals { return &globals{files: repository} }

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("internal/cli/testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it):\n--- got\n%s--- want\n%s", path, got, want)
	}
}

// The real program's words: help of every verb, and one clear line and the right
// exit code for what users get wrong.
func TestCommandLine(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.onnx")
	if err := os.WriteFile(broken, []byte("\x08\x07\x12\x07pytorch"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args string
	}{
		{"help", "--help"}, {"help-run", "run --help"}, {"help-inspect", "inspect --help"}, {"help-split", "split --help"},
		{"help-grad", "grad --help"}, {"help-doctor", "doctor --help"}, {"help-report", "report --help"},
		{"help-attack", "attack --help"}, {"help-verify", "verify --help"}, {"help-predict", "predict --help"}, {"help-export", "export --help"},
		{"help-fit", "fit --help"}, {"help-theory", "theory --help"},
		{"version", "--version"},
		{"unknown-command", "rnu"}, {"unknown-flag", "run --limt 3"}, {"bad-value", "run --limit many"}, {"negative", "run --limit -1"},
		{"no-config", "run --config absent.yaml"}, {"no-suite", "run --suite bundeld"}, {"misspelt-set", "run --set attacks.aa-linf.epsilom=3"},
		{"bad-parameter", "run --dry-run --set attacks.aa-linf.steps=7"},
		{"mode", "run --dry-run --set suites.bundled.mode=whitebox-through"},
		{"dry-run", "run --dry-run --limit 100"},
		{"inspect", "inspect models/zoo/preact_standard.onnx"}, {"inspect-json", "inspect --json --mean 0.5 --std 0.25 models/zoo/preact_robust.onnx"},
		{"no-model", "inspect absent.onnx"}, {"not-a-model", "inspect go.mod"}, {"folder", "inspect models"}, {"no-graph", "inspect " + broken},
		{"bad-mean", "inspect --mean 0.5,x models/zoo/preact_standard.onnx"}, {"mean-channels", "inspect --mean 0.5,0.5 models/zoo/preact_standard.onnx"},
		{"no-out", "split models/zoo/preact_standard.onnx"}, {"bad-cut", "split models/zoo/preact_standard.onnx --out OUT --at nowhere"},
		{"split", "split models/zoo/preact_standard.onnx --out OUT"}, {"grad", "grad models/zoo/preact_standard.onnx --out OUT/vjp.onnx"},
		{"no-results", "report OUT/absent --out OUT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := t.TempDir()
			var stdout, stderr bytes.Buffer
			code := run(context.Background(), repository, strings.Fields(strings.ReplaceAll(c.args, "OUT", out)), &stdout, &stderr)
			if n := strings.Count(stderr.String(), "\n"); code != 0 && n != 1 {
				t.Errorf("%d lines on stderr, want one", n)
			}
			text := fmt.Sprintf("$ selfheal %s\nexit %d\n%s%s", c.args, code, stdout.String(), prefixed("stderr: ", stderr.String()))
			text = strings.ReplaceAll(text, out, "OUT")
			text = strings.ReplaceAll(text, filepath.Dir(broken), "TMP")
			golden(t, filepath.Join("cli", c.name+".txt"), text)
		})
	}
}

func prefixed(prefix, text string) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		if line != "" {
			b.WriteString(prefix + line)
		}
	}
	return b.String()
}

// The whole job on a handful of bundled images, in an empty folder, with the
// config that is built into the program; then its report again.
func TestRunBundled(t *testing.T) {
	testinput.Runtime(t)
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	// Fewer images than the default, and no Square: half of the time.
	args := []string{"run", "--limit", "4", "--set", "suites.bundled.attacks=[aa-l2]"}
	if code := run(context.Background(), repository, args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr.String())
	}
	for _, name := range []string{"results.json", "records.jsonl", "report.html", "tables.md", "tables.tex", "tables.csv", "radar-bundled.png", "radar-bundled.svg"} {
		if info, err := os.Stat(filepath.Join("results", name)); err != nil || info.Size() == 0 {
			t.Errorf("results/%s: %v", name, err)
		}
	}
	if !strings.Contains(stderr.String(), "robust") || !strings.Contains(stderr.String(), "images attacked") {
		t.Errorf("no progress on stderr:\n%s", stderr.String())
	}
	if code := run(context.Background(), repository, []string{"report", "results", "--out", "again"}, &stdout, &stderr); code != 0 {
		t.Fatalf("report: exit %d\n%s", code, stderr.String())
	}
	for _, name := range []string{"report.html", "tables.md", "radar-bundled.png"} {
		a, err1 := os.ReadFile(filepath.Join("results", name))
		b, err2 := os.ReadFile(filepath.Join("again", name))
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs when rendered again (%v, %v)", name, err1, err2)
		}
	}
	t.Run("browser", func(t *testing.T) { openReport(t, filepath.Join("results", "report.html"), args) })
	stderr.Reset()
	if code := run(context.Background(), repository, []string{"run", "--limit", "3", "--set", "suites.bundled.attacks=[aa-l2]"}, &stdout, &stderr); code != exitUsage {
		t.Errorf("another config's results were overwritten: exit %d\n%s", code, stderr.String())
	}
}
