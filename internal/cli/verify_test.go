package cli

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/internal/testinput"
)

// verify agrees with the run that made the images, image by image, alone and healed;
// and it says which image leaves ball or box, and by how much.
func TestVerify(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	cfg, out := written(t, dir), filepath.Join(dir, "out")
	done(t, "run", "--config", cfg, "--suite", "healed", "--out", out, "--quiet")
	file, _ := results(t, out)
	base := []string{"verify", "--config", cfg, "--model", "robust", "--dataset", "test", "--attack", "steps"}
	checked, moved := 0, 0.0
	var saved string
	for _, c := range file.Cells {
		if c.Attack == "none" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(out, "adversarial", fmt.Sprintf("*_%.6g_*.npy", *c.Epsilon)))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v: %v", files, err)
		}
		saved = files[0]
		args := append(slices.Clone(base), "--json", "--control", c.Defense, "--adversarial", saved, "--epsilon", fmt.Sprint(*c.Epsilon))
		var v harness.Verification
		if err := json.Unmarshal([]byte(done(t, args...)), &v); err != nil {
			t.Fatal(err)
		}
		if v.Verdicts != c.Verdicts || v.Correct != c.Correct || v.MaxNorm != c.MaxNorm || v.CI95 != c.CI95 || v.Defense != c.Defense || len(v.Outside) != 0 {
			t.Errorf("%s at %v: %+v, the run's cell is %+v", c.Defense, *c.Epsilon, v, c)
		}
		checked++
		moved = max(moved, v.MaxNorm)
	}
	if checked != 4 || moved == 0 {
		t.Fatalf("%d cells checked, largest norm %v", checked, moved)
	}

	shape, x, err := dataset.ReadArray(config.Folder("."), saved)
	if err != nil {
		t.Fatal(err)
	}
	d := images(t, 12)
	_, clean, _ := d.Image(4)
	copy(x[4*3072:], clean) // within
	_, clean, _ = d.Image(5)
	copy(x[5*3072:], clean)
	x[5*3072+7] += 0.05 - float32(math.Round(float64(clean[7])))*0.1 // out of the ball, into the box
	x[6*3072] = 1.25
	x[7*3072+1] = float32(math.NaN())
	x[8*3072+1] = -0.5
	path := filepath.Join(dir, "tampered.npz")
	writeNPZ(t, path, shape, map[string][]float32{"x_adv": x, "other": make([]float32, len(x))})
	code, stdout, stderr := call(append(base, "--adversarial", path, "--epsilon", "6/255")...)
	if code != exitFailed || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "4 of 12 images leave the ball or the box; image 5: its perturbation has linf norm 0.05") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{"outside ball or box  4\n", "above epsilon 6/255", "1 of its 3072 values lie outside [0,1], by up to 0.25\n", "by up to 0.5\n", "1 of its 3072 values are NaN", "of 8 others"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	writeNPZ(t, path, shape, map[string][]float32{"a": x, "b": x})
	if code, _, stderr := call(append(base, "--adversarial", path, "--epsilon", "6/255")...); code != exitUsage || !strings.Contains(stderr, "none of them called x_adv or adversarial") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

func writeNPZ(t *testing.T, path string, shape []int, arrays map[string][]float32) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, values := range arrays {
		w, err := z.Create(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		if err := dataset.WriteNPY(w, shape, values); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
