package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// call runs the program.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(context.Background(), repository, args, &out, &err)
	return code, out.String(), err.String()
}

// done runs the program, which must succeed.
func done(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := call(args...)
	if code != exitOK {
		t.Fatalf("%s: exit %d\n%s", args, code, stderr)
	}
	return stdout
}

// written writes a config on the bundled files: two controls, PGD at two epsilons.
func written(t *testing.T, dir string) string {
	t.Helper()
	zoo, err := filepath.Abs("models/zoo")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`version: 1
seed: 3
datasets:
  test: {format: cifar10-bin, path: ZOO/shapes10/test.bin, limit: 12}
models:
  robust: {path: ZOO/preact_robust.onnx, preprocess: {mean: [0.02, 0.01, 0.03], std: 0.95}}
controls:
  greedy:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: onnx, path: ZOO/input_ae.onnx}}, {at: last, embedding: {kind: onnx, path: ZOO/hidden_ae.onnx}}]
  unrolled:
    solver: {method: msa, outer: 2, inner: 2, learning_rate: 0.003}
    layers: [{at: input, embedding: {kind: onnx, path: ZOO/input_ae.onnx}}, {at: last, embedding: {kind: onnx, path: ZOO/hidden_ae.onnx}}]
  endless:
    solver: {method: msa, outer: 100, inner: 50}
    layers: [{at: input, embedding: {kind: onnx, path: ZOO/input_ae.onnx}}]
attacks:
  steps: {kind: pgd, norm: linf, epsilon: [2/255, 6/255], steps: 5, restarts: 2}
suites:
  healed: {dataset: test, models: [robust], controls: [greedy], attacks: [steps], save_adversarial: true}
  plain: {dataset: test, models: [robust], attacks: [steps]}
`, "ZOO", filepath.ToSlash(zoo))
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// results reads what a run left.
func results(t *testing.T, dir string) (*result.File, []result.Record) {
	t.Helper()
	file, err := result.Read(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	records, err := result.ReadRecords(filepath.Join(dir, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return file, records
}

// What is wrong is said in one line, in terms of what the user wrote, and the exit code is 2.
func TestUseErrors(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	cfg := written(t, dir)
	wide := filepath.Join(dir, "wide.png")
	writePNG(t, wide, 40, 32, func(x, y int) [3]byte { return [3]byte{} })
	three := filepath.Join(dir, "three.npy")
	writeNPY(t, three, []int{3, 3, 32, 32}, make([]float32, 3*3072))
	const attack = "attack models/zoo/preact_robust.onnx --data models/zoo/shapes10/test.bin --out OUT "
	const verify = "verify --config CFG --model robust --dataset test --attack steps --adversarial THREE "
	for _, c := range []struct{ args, want string }{
		{"attack --data x.npz --norm linf --epsilon 1", "attack takes one model"},
		{"attack m.onnx --norm linf --epsilon 1", "--data"}, {"attack m.onnx --data x.npz --epsilon 1", "--norm"},
		{"attack m.onnx --data x.npz --norm linf", "attack needs --epsilon, for example --epsilon 8/255"},
		{"attack m.onnx --data x.npz --norm linf --epsilon 1", "--data x.npz: no such file"},
		{attack + "--norm linf --epsilon 8", "--epsilon is 8, but in linf"}, {attack + "--norm linf --epsilon 2/255,x", `--epsilon[1] must be a number above 0`},
		{attack + "--norm linf --epsilon {8}", `--epsilon: "{8}" is not a number`},
		{attack + "--norm l3 --epsilon 1", "--norm must be one of linf, l2, l1"}, {attack + "--norm l2 --epsilon 1 --attack apgd", `--attack must be one of aa, aa-plus, aa-rand`},
		{attack + "--norm l2 --epsilon 1 --attack pgd --param step=3", `unknown key "step" in --attack pgd`},
		{attack + "--norm l2 --epsilon 1 --attack pgd --param queries=3", "--param queries is not a parameter of pgd"},
		{attack + "--norm l2 --epsilon 1 --attack pgd --param steps=few", "--param steps must be a whole number"},
		{attack + "--norm l2 --epsilon 1 --attack pgd --param steps", "must be KEY=VALUE"}, {attack + "--norm l2 --epsilon 1 --attack pgd --param norm=l1", "norm is given twice"},
		{attack + "--norm l2 --epsilon 1 --attack pgd --param steps=3 --param steps=3", "steps is given twice"},
		{attack + "--norm l2 --epsilon 1 --attack pgd --param steps=[3]", "the value must be a number or a word"},
		{attack + "--norm l2 --epsilon 1 --param steps=3", "takes no parameter"}, {attack + "--norm l2 --epsilon 1 --std 0", "--std must be a number above 0"},
		{attack + "--norm l2 --epsilon 1 --mean 0.1,0.2 --std 1,2,3", "--mean and --std: mean has 2 values and std has 3"},
		{attack + "--norm l2 --epsilon 1 --limit -1", "can't be negative"}, {attack + "--norm l2 --epsilon 1 --workers x", "--workers"},
		{attack + "--norm l2 --epsilon 1 --mean 0.1,0.2", "mean has 2 values, the image 3 channels"},
		{"attack absent.onnx --data models/zoo/shapes10/test.bin --norm l2 --epsilon 1 --out OUT", "absent.onnx: no such file"},
		{"predict --model robust --config CFG", "image files or --data"}, {"predict a.png", "predict needs --model"},
		{"predict --model robust --config CFG a.png --data x.npz", "one of the two"},
		{"predict --model rubost --config CFG a.png", `no model "rubost"; it has: robust`},
		{"predict --model robust --control pca --config CFG a.png", `no control "pca"; it has: greedy, unrolled, endless`},
		{"predict --model robust --config CFG absent.png", "absent.png: no such file"}, {"predict --model robust --config CFG go.mod", "go.mod is no readable PNG or JPEG"},
		{"predict --model robust --config CFG WIDE", "it has 3 channels of 40×32 pixels, the model takes 3 of 32×32"},
		{"predict --model robust --config absent.yaml a.png", "absent.yaml: no such file"},
		{"export --model robust --config CFG --out OUT/x.onnx", "export needs --control"}, {"export --model robust --config CFG --control greedy", "export needs --out"},
		{"export --model robust --config CFG --control endless --out OUT/x.onnx", "more than the 20000"},
		{"verify --model robust", "verify needs --adversarial"}, {verify, "several epsilons; say which: 2/255, 6/255"},
		{verify + "--epsilon 4/255", "no epsilon 4/255; it has: 2/255, 6/255"}, {verify + "--epsilon -1", "--epsilon must be a number above 0"},
		{verify + "--epsilon 2/255", "3 adversarial images, but 12 of dataset test"}, {verify + "--attack stps", `no attack "stps"; it has: steps`},
		{verify + "--dataset tst --epsilon 2/255", `no data set "tst"; it has: test`}, {verify + "--adversarial go.mod", "go.mod: it does not begin like a NumPy array"},
		{verify + "--adversarial absent.npy", "absent.npy: no such file"},
	} {
		args := strings.Fields(strings.NewReplacer("CFG", cfg, "OUT", dir, "WIDE", wide, "THREE", three).Replace(c.args))
		code, stdout, stderr := call(args...)
		if code != exitUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", c.args, code, c.want, stderr, stdout)
		}
		if strings.Contains(stderr, "flags:") || strings.Contains(stderr, "attacks.") {
			t.Errorf("%s: the message speaks of a config that nobody wrote: %s", c.args, stderr)
		}
	}
}

func writePNG(t *testing.T, path string, w, h int, at func(x, y int) [3]byte) {
	t.Helper()
	im := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			p := at(x, y)
			im.SetRGBA(x, y, color.RGBA{p[0], p[1], p[2], 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeNPY(t *testing.T, path string, shape []int, values []float32) {
	t.Helper()
	var b bytes.Buffer
	if err := dataset.WriteNPY(&b, shape, values); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// images are the first bundled test images.
func images(t *testing.T, n int) *dataset.Dataset {
	t.Helper()
	d, err := dataset.Open(dataset.Spec{Format: "cifar10-bin", Path: "models/zoo/shapes10/test.bin"}, config.Folder("."), n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// predicted reads predict's --json.
func predicted(t *testing.T, args ...string) []prediction {
	t.Helper()
	var list []prediction
	for line := range strings.Lines(done(t, append([]string{"predict", "--json"}, args...)...)) {
		var p prediction
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// predict answers as the judge of a run does on clean images, without and with
// control, for a data set and for image files.
func TestPredict(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	cfg := written(t, dir)
	done(t, "run", "--config", cfg, "--suite", "healed", "--out", filepath.Join(dir, "out"), "--quiet")
	_, records := results(t, filepath.Join(dir, "out"))
	use := []string{"--config", cfg, "--model", "robust", "--control", "greedy"}
	list := predicted(t, append(use, "--data", "models/zoo/shapes10/test.bin", "--limit", "12")...)
	if len(list) != 12 {
		t.Fatalf("%d answers", len(list))
	}
	compared := 0
	for _, r := range records {
		if r.Attack != "none" {
			continue
		}
		p := list[r.Image]
		class, margin := p.Predicted, p.Margin
		if r.Defense != "none" {
			class, margin = *p.HealedPredicted, *p.HealedMargin
		}
		if p.Image != float64(r.Image) || *p.Label != r.Label || (class == r.Label) != (r.Verdict == 1) {
			t.Errorf("image %d, %s: %+v, the run's record is %+v", r.Image, r.Defense, p, r)
		}
		if r.Verdict == 1 && margin != r.Margin || r.Verdict == 0 && !(margin <= -r.Margin) {
			t.Errorf("image %d, %s: margin %v, the run's is %v", r.Image, r.Defense, margin, r.Margin)
		}
		compared++
	}
	if compared != 24 {
		t.Errorf("%d records compared", compared)
	}

	d := images(t, 4)
	var paths []string
	for i := range 4 {
		_, pixels, _ := d.Image(i)
		path := filepath.Join(dir, fmt.Sprintf("%d.png", i))
		writePNG(t, path, 32, 32, func(x, y int) (p [3]byte) {
			for c := range p {
				p[c] = byte(math.Round(float64(pixels[c*1024+y*32+x] * 255)))
			}
			return p
		})
		paths = append(paths, path)
	}
	for i, p := range predicted(t, append(use, paths...)...) {
		want := list[i]
		if p.Image != paths[i] || p.Label != nil || p.Predicted != want.Predicted || p.Margin != want.Margin || *p.HealedMargin != *want.HealedMargin {
			t.Errorf("file %d: %+v, the data set's answer is %+v", i, p, want)
		}
	}
	table := done(t, append([]string{"predict"}, append(use, paths...)...)...)
	if lines := strings.Split(table, "\n"); len(lines) != 6 || strings.Join(strings.Fields(lines[0]), " ") != "image predicted margin healed healed margin" {
		t.Errorf("the table is\n%s", table)
	}
	if table := done(t, "predict", "--config", cfg, "--model", "robust", paths[0]); strings.Contains(table, "healed") {
		t.Errorf("without a control the table is\n%s", table)
	}
}

// The exported file, in ONNX Runtime alone, gives the margins of predict --control.
func TestExport(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	cfg := written(t, dir)
	const n = 5
	d := images(t, n)
	batch := make([]float32, 0, n*3072)
	for i := range n {
		_, pixels, _ := d.Image(i)
		batch = append(batch, pixels...)
	}
	sizes := map[string]int{}
	for _, name := range []string{"greedy", "unrolled"} {
		path := filepath.Join(dir, name+".onnx")
		said := done(t, "export", "--config", cfg, "--model", "robust", "--control", name, "--out", path)
		if !strings.Contains(said, "[N 3 32 32] → logits [N 10]") {
			t.Errorf("export says %s", said)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes[name] = len(data)
		g, err := onnx.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		model, err := onnx.Read("models/zoo/preact_robust.onnx")
		if err != nil {
			t.Fatal(err)
		}
		if g.Meta["control"] != name || g.Meta["model_sha256"] != model.SHA256 || g.Meta["solver"] == "" || g.Meta["selfheal"] != harness.Version {
			t.Errorf("metadata %v", g.Meta)
		}
		session, err := ort.Open(name, data)
		if err != nil {
			t.Fatal(err)
		}
		out, err := session.Run([]ort.Tensor{{Shape: []int64{n, 3, 32, 32}, Data: batch}})
		session.Close()
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range predicted(t, "--config", cfg, "--model", "robust", "--control", name, "--data", "models/zoo/shapes10/test.bin", "--limit", fmt.Sprint(n)) {
			z := slices.Clone(out[0].Data[10*i : 10*i+10])
			class := slices.Index(z, slices.Max(z))
			slices.Sort(z)
			margin, size := float64(z[9]-z[8]), math.Max(math.Abs(float64(z[9])), math.Abs(float64(z[0])))
			if class != *p.HealedPredicted || math.Abs(margin-*p.HealedMargin) > 2e-5*size {
				t.Errorf("%s, image %d: class %d, margin %v; predict says %+v", name, i, class, margin, p)
			}
			if math.Abs(margin-p.Margin) < 1e-3 {
				t.Errorf("%s, image %d: margin %v is the undefended network's", name, i, margin)
			}
		}
	}
	if sizes["unrolled"] > 4*sizes["greedy"] {
		t.Errorf("files of %v bytes: the unrolled solver's copies don't share their weights", sizes)
	}
}
