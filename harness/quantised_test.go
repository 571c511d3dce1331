package harness_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// clipped returns the bundled standard network with logits quantised by so small a scale that all are clipped. Its
// gradient is 0 on every image, and answers change only where a logit crosses the middle of the range.
func clipped(t *testing.T) string {
	t.Helper()
	g, _ := must.Get2(simplify.Load("../models/zoo/preact_standard.onnx", simplify.Options{}))(t)
	b := &onnx.Builder{G: onnx.NewGraph("clipped")}
	x := b.Input("image", onnx.Shape{onnx.Batch, 3, 32, 32})
	z := b.Op("Sub", b.Inline(g, map[string]string{g.Inputs[0].Name: x})[g.Outputs[0].Name], b.Float(4))
	scale, zero := b.Float(1e-5), b.Const(&onnx.Tensor{DType: onnx.Int8, Shape: onnx.Shape{}, Ints: []int64{0}})
	b.Output("scores", b.Op("DequantizeLinear", b.Op("QuantizeLinear", z, scale, zero), scale, zero))
	must.Do(t, b.Err())
	path := filepath.Join(t.TempDir(), "clipped.onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	return path
}

// A network of int8 with vanishing gradients does not count as robust: attacks leave no more of it than of its float
// original, among the images that both get right.
func TestClippingIsNoDefence(t *testing.T) {
	testinput.NumbersAlone(t)
	text := strings.Replace(testplan.Bundled, "made-by-the-test.onnx", clipped(t), 1) + `
attacks:
  ce: {kind: apgd-ce, norm: linf, epsilon: 8/255, steps: 25}
  fab: {kind: fab-t, norm: l2, epsilon: 2, targets: 3, restarts: 1, steps: 25}
suites: {s: {dataset: test, models: [standard, other], attacks: [ce, fab]}}
`
	f, _, _ := runFor(t, testplan.Plan(t, text, 2, 8, "datasets.test.limit=20"))
	right := map[string]string{}
	for _, c := range f.Cells {
		switch was := right[c.Model]; {
		case c.Attack == "none":
			right[c.Model] = c.Verdicts
			if n := strings.Count(c.Verdicts, "1"); n < 10 {
				t.Fatalf("%s is right on %d of 20 images", c.Model, n)
			}
		case c.Model == "other":
			if left := strings.Count(c.Verdicts, "1"); left > 1 {
				t.Errorf("%s leaves %d of %d images of the clipped network", c.Attack, left, strings.Count(was, "1"))
			}
		}
	}
}

// Quantised forms of a bundled network, which scripts/zoo/quantise.py made of models/zoo/preact_standard.onnx, answer
// like ONNX Runtime, image by image, and so nearly do the copies that give the gradients. Attacks on a form leave no
// more of it than images that were made on the float network.
func TestQuantisedForms(t *testing.T) {
	testinput.NumbersAlone(t)
	files := must.Get(filepath.Glob("testdata/quantised/*.onnx"))(t)
	if len(files) != 6 {
		t.Fatalf("files %q", files)
	}
	models, names := "", []string{"standard"}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		models, names = models+"  "+name+": {path: harness/"+path+"}\n", append(names, name)
	}
	text := strings.Replace(testplan.Bundled, "  other:", models+"  other:", 1) + `
attacks:
  ce: {kind: apgd-ce, norm: linf, epsilon: 1/255, steps: 15}
suites: {s: {dataset: test, models: [` + strings.Join(names, ", ") + `], attacks: [ce], mode: transfer}}
`
	p := testplan.Plan(t, text, 2, 8, "datasets.test.limit=20")
	f, _, _ := runFor(t, p)
	left := map[string]map[string]int{} // by model and source
	for _, c := range f.Cells {
		if c.Attack == "ce" {
			if left[c.Model] == nil {
				left[c.Model] = map[string]int{}
			}
			left[c.Model][c.Source] = strings.Count(c.Verdicts, "1")
		}
	}
	saturates := ort.Saturates() // there the file computes another network than its copy, and the two are not compared
	for _, name := range names[1:] {
		own, transferred := left[name][name], left[name]["standard"]
		if (own > transferred || transferred == 0) && !saturates {
			t.Errorf("%s: attacks leave %d images, those made on the float network %d", name, own, transferred)
		}
	}
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	defer o.Close()
	for i, name := range names[1:] {
		net := must.Get(o.Network(t.Context(), p.Config.Model(name), ""))(t)
		data, same := must.Get(os.ReadFile(files[i]))(t), 0
		file := must.Get(ort.OpenOriginal(name, &onnx.File{Data: data}, ""))(t)
		images := every(t, must.Get(o.Scored("test"))(t))
		for _, im := range images {
			z, copied := make([]float32, 10), make([]float32, 10)
			must.Do(t, net.Logits(t.Context(), im.Pixels, z))
			for k, want := range must.Get(file.Run(im.Pixels))(t) {
				if float64(z[k]) != want {
					t.Fatalf("%s, image %d, class %d: %v, the file gives %v", name, im.ID, k, z[k], want)
				}
			}
			must.Do(t, net.CopyLogits(t.Context(), im.Pixels, copied))
			if attacks.Argmax(z) == attacks.Argmax(copied) {
				same++
			}
		}
		if same < 19 && !saturates {
			t.Errorf("%s: the copy answers as the file on %d of %d images", name, same, len(images))
		}
		net.Close()
		file.Close()
	}
}

// dynamic returns a config of a dynamically quantised network, with a scale over the whole batch, on twelve images of
// differing brightness. One value without weight may be so large that the file rounds all others to 0.
func dynamic(t *testing.T, large float32) string {
	t.Helper()
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	w, bytes := onnxtest.IntTensor("w", []int64{75, 3}), []byte{}
	for range 225 {
		bytes = append(bytes, byte(rng.IntN(256)))
	}
	copy(bytes, []byte{128, 128, 128}) // the zero point
	first := make([]float32, 75)
	first[0] = large
	kind := int32(onnx.Uint8)
	w.DataType, w.Int64Data, w.RawData = &kind, nil, bytes
	zero := onnxtest.IntTensor("z", nil)
	zero.DataType, zero.Int64Data, zero.RawData = &kind, nil, []byte{128}
	model := onnxtest.New(17, -1, 3, 5, 5).Tensor(w).Tensor(zero).Floats("ws", nil, 0.02).
		Floats("large", []int64{75}, first...).Node("Flatten x → g; Add g large → f").
		Node("DynamicQuantizeLinear f → d ds dz; MatMulInteger d w dz z → i; Cast i → c to=1; Mul ds ws → s").
		Node("Mul c s → y").Bytes(-1, 3)
	must.Do(t, os.WriteFile(filepath.Join(dir, "m.onnx"), model, 0o644))
	testplan.Archive(t, filepath.Join(dir, "images.npz"), 12, attacks.Shape{C: 3, H: 5, W: 5})
	return `
version: 1
datasets: {test: {format: npz, path: ` + dir + `/images.npz}}
models: {m: {path: ` + dir + `/m.onnx}}
attacks:
  p: {kind: pgd, norm: linf, epsilon: 0.02}
  s: {kind: square, norm: linf, epsilon: 0.02, queries: 50}
suites: {s: {dataset: test, models: [m], attacks: [p, s]}}
`
}

// No answer of a dynamically quantised file depends on its neighbours in a batch, and every answer is the file's.
func TestDynamicQuantisation(t *testing.T) {
	text := dynamic(t, 0)
	var first []string
	for _, c := range []struct{ workers, batch int }{{1, 1}, {2, 8}} {
		f, _, _ := runFor(t, testplan.Plan(t, text, c.workers, c.batch))
		var verdicts []string
		for _, cell := range f.Cells {
			verdicts = append(verdicts, cell.Verdicts)
		}
		if !slices.ContainsFunc(f.Cells[0].Warnings, func(w result.Warning) bool {
			return strings.Contains(w.Message, open.NoticeByFile)
		}) {
			t.Errorf("no word of the file: %v", f.Cells[0].Warnings)
		}
		if first == nil {
			first = verdicts
		} else if !slices.Equal(first, verdicts) {
			t.Errorf("one image at a time %q, together %q", first, verdicts)
		}
	}
	p := testplan.Plan(t, text, 2, 8)
	testinput.Runtime(t)
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	defer o.Close()
	job := must.Get(o.Job(t.Context(), p.Jobs[0]))(t)
	defer job.Close()
	for _, im := range every(t, job.Set) {
		z, want := make([]float32, 3), must.Get(must.Get(job.Original(t.Context()))(t).Answer(im.Pixels))(t)
		must.Do(t, job.Net.Logits(t.Context(), im.Pixels, z))
		for i := range z {
			if float64(z[i]) != want[i] {
				t.Fatalf("image %d: %v, the file gives %v", im.ID, z, want)
			}
		}
	}
}

// A file that rounds away differences that its copy sees raises the warning about it.
func TestFarCopy(t *testing.T) {
	f, _, _ := runFor(t, testplan.Plan(t, dynamic(t, 1e4), 2, 8))
	for _, c := range f.Cells {
		is := func(w result.Warning) bool { return w.ID == result.WarnFarCopy.ID }
		if !slices.ContainsFunc(c.Warnings, is) {
			t.Errorf("%s: %v", c.Attack, c.Warnings)
		}
	}
}

// The file answers for an undefended network and if only the image is controlled. After another control its copy
// answers, and the cell says so. A file of integers has no control between layers.
func TestControlledQuantised(t *testing.T) {
	const bundled = "harness/testdata/quantised/preact_standard-"
	text := strings.Replace(testplan.Bundled, "made-by-the-test.onnx", bundled+"qdq-channel.onnx", 1) + `
controls:
  front: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]}
  last:
    solver: {method: msa, outer: 1, inner: 2}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]
attacks: {p: {kind: pgd, norm: linf, epsilon: 2/255, steps: 3}}
suites: {s: {dataset: test, models: [other], controls: [front, last], attacks: [p], mode: whitebox-through}}
`
	f, _, _ := runFor(t, testplan.Plan(t, text, 2, 8))
	for _, c := range f.Cells {
		want := map[bool]string{true: open.NoticeByCopy, false: open.NoticeByFile}[c.Defense == "last"]
		if !slices.ContainsFunc(c.Warnings, func(w result.Warning) bool { return strings.Contains(w.Message, want) }) {
			t.Errorf("%s, %s: %v", c.Defense, c.Attack, c.Warnings)
		}
	}
	integers := testplan.Plan(t, strings.Replace(text, "qdq-channel", "qoperator-channel", 1), 2, 8)
	if _, err := open.Use(t.Context(), integers.Config, "other", "last", open.Options{}); err == nil ||
		!strings.Contains(err.Error(), "model other, layer last: its file computes in integers there (tensor logits") {
		t.Errorf("a control of integers: %v", err)
	}
	for _, p := range []*plan.Plan{integers, testplan.Plan(t, text, 2, 8)} {
		answersForControlled(t, p)
	}
}

// answersForControlled checks a loop's answers against the network's for the controlled images.
func answersForControlled(t *testing.T, p *plan.Plan) {
	u := must.Get(open.Use(t.Context(), p.Config, "other", "front", open.Options{}))(t)
	defer u.Close()
	images := every(t, must.Get(u.Scored("test"))(t))
	for _, im := range images {
		o := must.Get(u.Loop.Run(t.Context(), im.Pixels))(t)
		controlled, z := slices.Clone(im.Pixels), make([]float32, 10)
		for i, v := range o.Controls[0] {
			controlled[i] += v
		}
		must.Do(t, u.Net.Logits(t.Context(), controlled, z))
		if !slices.Equal(z, o.Logits) {
			t.Fatalf("image %d: %v, the file gives %v of the controlled image", im.ID, o.Logits, z)
		}
	}
}

// levels returns a network of uint8 images x of CIFAR-10's size, by nodes with a scale s and weights w.
func levels(t *testing.T, nodes string) string {
	t.Helper()
	rng, w := rand.New(rand.NewPCG(1, 2)), make([]float32, 3072*10)
	for i := range w {
		w[i] = float32(rng.NormFloat64()) / 50
	}
	f := onnxtest.New(17, -1, 3, 32, 32).Floats("s", nil, 1./255).Floats("w", []int64{3072, 10}, w...).
		Node(nodes)
	f.Graph.Input[0] = onnxtest.Value("x", int32(onnx.Uint8), -1, 3, 32, 32)
	path := filepath.Join(t.TempDir(), "levels.onnx")
	must.Do(t, os.WriteFile(path, f.Bytes(-1, 10), 0o644))
	return path
}

// An exported quantised network keeps its integer operators after the control, and answers like the loop.
func TestExportedQuantised(t *testing.T) {
	testinput.Runtime(t)
	front := testplan.Bundled + `
controls:
  front: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]}
attacks: {p: {kind: pgd, norm: linf, epsilon: 2/255, steps: 3}}
suites: {s: {dataset: test, models: [other], controls: [front], attacks: [p], mode: oblivious}}
`
	for form, kept := range map[string]string{"qdq-channel": "QuantizeLinear", "qoperator-channel": "QLinearConv",
		"qoperator-uint8": "QGemm", "dynamic": "ConvInteger", "float16": "Conv", "levels": "DequantizeLinear",
		"bytes": "Cast", "probabilities": "Softmax"} {
		path := "harness/testdata/quantised/preact_standard-" + form + ".onnx"
		set := []string{"models.other.preprocess.mean=[0.02]", "models.other.preprocess.std=[0.9]"}
		uint8s := map[string]string{ // networks whose input is uint8
			"levels":        "DequantizeLinear x s → f; Flatten f → r; MatMul r w → y",
			"bytes":         "Cast x → c to=1; Mul c s → f; Flatten f → r; MatMul r w → y",
			"probabilities": "DequantizeLinear x s → f; Flatten f → r; MatMul r w → z; Softmax z → y"}[form]
		if uint8s != "" {
			if path, set = levels(t, uint8s), nil; form == "probabilities" {
				set = []string{"models.other.output=probabilities"}
			}
		}
		p := testplan.Plan(t, strings.Replace(front, "made-by-the-test.onnx", path, 1), 2, 8, set...)
		u := must.Get(open.Use(t.Context(), p.Config, "other", "front", open.Options{}))(t)
		e := must.Get(u.Export())(t)
		if !bytes.Contains(e.Data, []byte(kept)) || e.Output != "logits [N 10]" {
			t.Errorf("%s: no %s in the file, output %s", form, kept, e.Output)
		}
		session := must.Get(ort.Open(form, e.Data))(t)
		for _, im := range every(t, must.Get(u.Scored("test"))(t)) {
			if uint8s != "" { // what a control may give: values beyond black and white
				for i, v := range im.Pixels {
					im.Pixels[i] = 2*v - 0.5
				}
			}
			o := must.Get(u.Loop.Run(t.Context(), im.Pixels))(t)
			z := must.Get(session.Run([]ort.Tensor{{Shape: []int64{1, 3, 32, 32}, Data: im.Pixels}}))(t)[0].Data
			for class, v := range o.Logits {
				if off := math.Abs(float64(z[class] - v)); off > 1e-4 && form != "float16" || off > 0.05 {
					t.Fatalf("%s, image %d: %v, the loop gives %v", form, im.ID, z, o.Logits)
				}
			}
		}
		session.Close()
		u.Close()
	}
}
