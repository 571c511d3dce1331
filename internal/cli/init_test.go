package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A config that init writes runs as it is, and takes the model as it was trained.
func TestInit(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	line := []string{"init", "models/zoo/preact_robust.onnx", "--data", "models/zoo/shapes10/test.bin",
		"--fit", "models/zoo/shapes10/train.bin", "--out", file}
	must.Have(t, done(t, line...), "mine.yaml: right on ", "next: selfheal run --config")
	text := string(must.Get(os.ReadFile(file))(t))
	must.Have(t, text, "preprocess: {}, output: logits", "when it takes them as they are, in [0,1]", "epsilon: 8/255")
	done(t, "run", "--config", file, "--limit", "2", "--quiet", "--out", filepath.Join(dir, "out"))
	f, _ := results(t, filepath.Join(dir, "out"))
	if len(f.Cells) != 6 || f.Cells[0].Correct == 0 {
		t.Errorf("%d cells, the first %+v", len(f.Cells), f.Cells[0])
	}
	refused(t, exitUsage, "mine.yaml is there; choose another --out or add --force", line...)
	// A preprocessing that is given is not searched for, and a wrong one is doubted.
	said := done(t, append(line, "--force", "--scale", "0.01")...)
	must.Have(t, said, "that is little", "--mean")
	if text = string(must.Get(os.ReadFile(file))(t)); !strings.Contains(text, "preprocess: {scale: 0.01") {
		t.Errorf("it writes\n%s", text)
	}
	refused(t, exitUsage, "an image classifier takes", "init", "models/zoo/hidden_ae.onnx",
		"--data", "models/zoo/shapes10/test.bin", "--out", filepath.Join(dir, "no.yaml"))
}
