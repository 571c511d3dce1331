package cli

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/judge"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/npy"
	"selfheal/internal/number"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// useConfig has three controls, and PGD at two epsilons.
const useConfig = `version: 1
seed: 3
datasets:
  test: {format: cifar10-bin, path: ZOO/shapes10/test.bin, limit: 12}
models:
  robust: {path: ZOO/preact_robust.onnx, preprocess: {mean: [0.02, 0.01, 0.03], std: 0.95}}
controls:
  greedy:
    solver: {method: greedy}
    layers:
      - {at: input, embedding: {kind: onnx, path: ZOO/input_ae.onnx}}
      - {at: last, embedding: {kind: onnx, path: ZOO/hidden_ae.onnx}}
  unrolled:
    solver: {method: msa, outer: 2, inner: 2, learning_rate: 0.003}
    layers:
      - {at: input, embedding: {kind: onnx, path: ZOO/input_ae.onnx}}
      - {at: last, embedding: {kind: onnx, path: ZOO/hidden_ae.onnx}}
  endless:
    solver: {method: msa, outer: 100, inner: 50}
    layers: [{at: input, embedding: {kind: onnx, path: ZOO/input_ae.onnx}}]
attacks:
  steps: {kind: pgd, norm: linf, epsilon: [2/255, 6/255], steps: 5, restarts: 2}
suites:
  healed: {dataset: test, models: [robust], controls: [greedy], attacks: [steps], save_adversarial: true,
           mode: oblivious}
  plain: {dataset: test, models: [robust], attacks: [steps]}
`

// A run's models, controls and images in use: predict, verify and export say what the run says.
func TestUse(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	dir := t.TempDir()
	cfg, out := written(t, dir, useConfig), filepath.Join(dir, "out")
	done(t, "run", "--config", cfg, "--suite", "healed", "--out", out, "--quiet")
	file, records := results(t, out)
	t.Run("predict", func(t *testing.T) { usePredict(t, dir, cfg, records) })
	t.Run("verify", func(t *testing.T) { useVerify(t, dir, cfg, out, file.Cells) })
	t.Run("export", func(t *testing.T) { useExport(t, dir, cfg) })
}

// predicted reads predict's --json.
func predicted(t *testing.T, args ...string) (list []prediction) {
	t.Helper()
	for line := range strings.Lines(done(t, append([]string{"predict", "--model", "robust", "--json"}, args...)...)) {
		list = append(list, fromJSON[prediction](t, line))
	}
	return list
}

// predict answers as the judge does on clean images, for a data set and for image files.
func usePredict(t *testing.T, dir, cfg string, records []result.Record) {
	use := []string{"--config", cfg, "--control", "greedy"}
	list := predicted(t, append(use, "--data", testImages, "--limit", "12")...)
	compared := 0
	for _, r := range records {
		if r.Attack != cell.None {
			continue
		}
		p := list[r.Image]
		class, margin := p.Predicted, p.Margin
		if r.Defense != cell.None {
			class, margin = *p.HealedPredicted, *p.HealedMargin
		}
		if p.Image != float64(r.Image) || *p.Label != r.Label || (class == r.Label) != (r.Verdict == 1) ||
			r.Verdict == 1 && margin != float64(r.Margin) || r.Verdict == 0 && !(margin <= -float64(r.Margin)) {
			t.Errorf("image %d, %s: %+v, the run's record is %+v", r.Image, r.Defense, p, r)
		}
		if class != r.Predicted {
			t.Errorf("image %d, %s: predicted %d, the run's record is %+v", r.Image, r.Defense, class, r)
		}
		answered(t, p.Predicted, p.Margin, p.Probabilities, p.Logits)
		answered(t, *p.HealedPredicted, *p.HealedMargin, p.HealedProbabilities, p.HealedLogits)
		compared++
	}
	if compared != 24 || len(list) != 12 {
		t.Errorf("%d answers, %d records compared", len(list), compared)
	}
	var paths []string
	for i, pixels := range images(t, 4) {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		writePNG(t, paths[i], 32, func(x, y int) (p [3]byte) {
			for c := range p {
				p[c] = byte(math.Round(float64(pixels[c*1024+y*32+x] * 255)))
			}
			return p
		})
	}
	for i, p := range predicted(t, append(use, paths...)...) {
		want := list[i]
		if p.Image != paths[i] || p.Label != nil || p.Predicted != want.Predicted || p.Margin != want.Margin ||
			*p.HealedMargin != *want.HealedMargin {
			t.Errorf("file %d: %+v, the data set's answer is %+v", i, p, want)
		}
	}
	// Without a config the network alone gives the answers.
	bare := append([]string{"predict", robustModel, "--json", "--mean", "0.02,0.01,0.03", "--std", "0.95"}, paths...)
	for line := range strings.Lines(done(t, bare...)) {
		p := fromJSON[prediction](t, line)
		want := list[slices.Index(paths, p.Image.(string))]
		if p.Margin != want.Margin || !slices.Equal(p.Logits, want.Logits) || p.HealedLogits != nil {
			t.Errorf("without a config %+v, with one %+v", p, want)
		}
	}
	head := func(args ...string) (string, int) {
		table := strings.Split(done(t, append(append([]string{"predict", "--model", "robust"}, args...), paths...)...),
			"\n")
		return strings.Join(strings.Fields(table[0]), " "), len(table)
	}
	if got, lines := head(use...); got != "image predicted margin healed healed margin" || lines != 6 {
		t.Errorf("the table's head is %q, and it has %d lines", got, lines)
	}
	if got, _ := head("--config", cfg); got != "image predicted margin" {
		t.Errorf("without a control the table's head is %q", got)
	}
}

// answered holds that class, margin and probabilities follow from logits.
func answered(t *testing.T, class int, margin float64, probabilities, logits []number.Any) {
	t.Helper()
	sorted, sum := slices.Sorted(slices.Values(logits)), 0.0
	for i, p := range probabilities {
		sum += float64(p)
		if ratio := float64(p / probabilities[0]); math.Abs(math.Log(ratio)-float64(logits[i]-logits[0])) > 1e-9 {
			t.Errorf("probabilities %v of logits %v", probabilities, logits)
		}
	}
	if len(logits) != 10 || len(probabilities) != 10 || math.Abs(sum-1) > 1e-12 || logits[class] != sorted[9] ||
		math.Abs(float64(sorted[9]-sorted[8])-margin) > 1e-5 {
		t.Errorf("class %d, margin %v, probabilities %v, logits %v", class, margin, probabilities, logits)
	}
}

// verify agrees with the run that made the images, alone and healed; and it says which image
// leaves ball or box, and by how much.
func useVerify(t *testing.T, dir, cfg, out string, cells []result.Cell) {
	base := []string{"verify", "--config", cfg, "--model", "robust", "--dataset", "test", "--attack", "steps"}
	checked, saved := 0, ""
	for _, c := range cells {
		if c.Attack == cell.None {
			continue
		}
		files, err := filepath.Glob(filepath.Join(out, "adversarial", fmt.Sprintf("*_%.6g_*.npy", c.Epsilon)))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v: %v", files, err)
		}
		saved = files[0]
		v := fromJSON[judge.Verification](t, done(t, append(slices.Clone(base),
			"--json", "--control", c.Defense, "--adversarial", saved, "--epsilon", fmt.Sprint(c.Epsilon))...))
		if v.Verdicts != c.Verdicts || v.MaxNorm != c.MaxNorm || v.CI95 != c.CI95 || v.Defense != c.Defense ||
			len(v.Outside) != 0 {
			t.Errorf("%s at %v: %+v, the run's cell is %+v", c.Defense, c.Epsilon, v, c)
		}
		if c.Defense == cell.None { // the same without a config
			bare := fromJSON[judge.Verification](t, done(t, "verify", robustModel, "--json", "--adversarial", saved,
				"--mean", "0.02,0.01,0.03", "--std", "0.95", "--data", testImages, "--limit", "12", "--norm", "linf",
				"--epsilon", fmt.Sprint(c.Epsilon)))
			if bare.Verdicts != c.Verdicts || bare.MaxNorm != c.MaxNorm || bare.Attack != named(saved, "") ||
				bare.Dataset != "test" || bare.Model != "preact_robust" {
				t.Errorf("without a config: %+v, the run's cell is %+v", bare, c)
			}
		}
		checked++
	}
	if checked != 4 {
		t.Fatalf("%d cells checked", checked)
	}
	shape, x := must.Get2(dataset.ReadArray(config.Folder("."), saved))(t)
	clean := images(t, 12)
	copy(x[4*3072:], clean[4]) // within
	copy(x[5*3072:], clean[5])
	x[5*3072+7] += 0.05 - float32(math.Round(float64(clean[5][7])))*0.1 // out of the ball, into the box
	x[6*3072] = 1.25
	x[7*3072+1] = float32(math.NaN())
	x[8*3072+1] = -0.5
	path := filepath.Join(dir, "tampered.npz")
	base = append(base, "--adversarial", path, "--epsilon", "6/255")
	writeNPZ(t, path, shape, map[string][]float32{"x_adv": x, "other": make([]float32, len(x))})
	refused(t, exitFailed, "4 of 12 images leave the ball or the box; image 5: its perturbation has linf norm 0.05",
		base...)
	_, stdout, _ := call(base...)
	must.Have(t, stdout, "outside ball or box  4\n", "above epsilon 6/255",
		"1 of its 3072 values lie outside [0,1], by up to 0.25\n", "by up to 0.5\n", "1 of its 3072 values are NaN",
		"of 8 others")
	writeNPZ(t, path, shape, map[string][]float32{"a": x, "b": x})
	refused(t, exitUsage, "none of them called x_adv or adversarial", base...)
}

func writeNPZ(t *testing.T, path string, shape []int, arrays map[string][]float32) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, values := range arrays {
		must.Do(t, npy.Write(must.Get(z.Create(name+".npy"))(t), shape, slices.Values([][]float32{values})))
	}
	must.Do(t, z.Close())
	put(t, path, b.Bytes())
}

// The exported file, in ONNX Runtime alone, gives the margins of predict --control.
func useExport(t *testing.T, dir, cfg string) {
	const n = 5
	batch := slices.Concat(images(t, n)...)
	sizes := map[string]int{}
	for _, name := range []string{"greedy", "unrolled"} {
		path := filepath.Join(dir, name+".onnx")
		said := done(t, "export", "--config", cfg, "--model", "robust", "--control", name, "--out", path)
		must.Have(t, said, "[N 3 32 32] → logits [N 10]")
		data := []byte(read(t, path))
		sizes[name] = len(data)
		g := must.Get(onnx.Decode(data))(t)
		model := must.Get(onnx.Read(robustModel))(t)
		if m := g.Meta; m["control"] != name || m["model_sha256"] != model.SHA256 || m["solver"] == "" ||
			m["selfheal"] != harness.Version {
			t.Errorf("metadata %v", g.Meta)
		}
		session := must.Get(ort.Open(name, data))(t)
		out := must.Get(session.Run([]ort.Tensor{{Shape: []int64{n, 3, 32, 32}, Data: batch}}))(t)
		session.Close()
		for i, p := range predicted(t, "--config", cfg, "--control", name, "--data", testImages, "--limit",
			fmt.Sprint(n)) {
			z := out[0].Data[10*i : 10*i+10]
			sorted := slices.Sorted(slices.Values(z))
			margin, size := float64(sorted[9]-sorted[8]),
				math.Max(math.Abs(float64(sorted[9])), math.Abs(float64(sorted[0])))
			if z[*p.HealedPredicted] != sorted[9] || math.Abs(margin-*p.HealedMargin) > 2e-5*size {
				t.Errorf("%s, image %d: margin %v; predict says %+v", name, i, margin, p)
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
