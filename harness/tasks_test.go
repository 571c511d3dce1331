package harness_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/lists"
	"selfheal/internal/must"
	"selfheal/internal/npy"
	"selfheal/internal/pillow"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

// affine is a network of two numbers, y = W·x + b for images of 1×4×4 pixels, and images with truths.
type affine struct {
	w      [2][16]float32
	b      [2]float32
	images [][]float32
	truths [][]float32
}

// newAffine draws a network and images away from 0 and 1.
func newAffine(images int, truth func(rng *rand.Rand, y float64) float32) (a affine) {
	rng := rand.New(rand.NewPCG(3, 4))
	for k := range a.w {
		for i := range a.w[k] {
			a.w[k][i] = float32(rng.NormFloat64())
		}
		a.b[k] = float32(rng.NormFloat64())
	}
	for range images {
		x := make([]float32, 16)
		for i := range x {
			x[i] = 0.2 + 0.6*rng.Float32()
		}
		a.images = append(a.images, x)
		var t []float32
		for k := range a.w {
			t = append(t, truth(rng, a.answer(x, k)))
		}
		a.truths = append(a.truths, t)
	}
	return a
}

func (a affine) answer(x []float32, k int) float64 {
	y := float64(a.b[k])
	for i, v := range x {
		y += float64(a.w[k][i]) * float64(v)
	}
	return y
}

// reach is how far a perturbation of at most epsilon a pixel moves answer k.
func (a affine) reach(k int, epsilon float64) (far float64) {
	for _, w := range a.w[k] {
		far += epsilon * math.Abs(float64(w))
	}
	return far
}

// write writes the network, the images and their truths to a folder.
func (a affine) write(t *testing.T, folder string) {
	b := &onnx.Builder{G: onnx.NewGraph("affine")}
	flat := b.Reshape(b.Input("x", onnx.Shape{onnx.Batch, 1, 4, 4}), onnx.Shape{onnx.Batch, 16})
	w := &onnx.Tensor{DType: onnx.Float, Shape: onnx.Shape{2, 16}, Floats: slices.Concat(a.w[0][:], a.w[1][:])}
	bias := &onnx.Tensor{DType: onnx.Float, Shape: onnx.Shape{2}, Floats: a.b[:]}
	b.Output("y", b.OpWith("Gemm", onnx.Attrs{"transB": int64(1)}, flat, b.Const(w), b.Const(bias)))
	must.Do(t, os.WriteFile(filepath.Join(folder, "net.onnx"), must.Get(must.Get(b.Done())(t).Encode())(t), 0o600))
	for name, rows := range map[string][][]float32{"x.npy": a.images, "truth.npy": a.truths} {
		shape := []int{len(rows), len(rows[0])}
		if name == "x.npy" {
			shape = []int{len(rows), 1, 4, 4}
		}
		f := must.Get(os.Create(filepath.Join(folder, name)))(t)
		must.Do(t, npy.Write(f, shape, slices.Values(rows)))
		must.Do(t, f.Close())
	}
}

// Verdicts on an affine network follow from its weights, for a regression, for labels, and under a head of the user's
// that computes the same as the first.
func TestTasks(t *testing.T) {
	testinput.Runtime(t)
	const epsilon, tolerance = 0.05, 1.5
	off := func(rng *rand.Rand, y float64) float32 { return float32(y + rng.NormFloat64()) }
	holds := func(rng *rand.Rand, y float64) float32 {
		if (y > 0) != (rng.Float64() < 0.1) { // some labels are wrong
			return 1
		}
		return 0
	}
	for name, c := range map[string]struct {
		task  string
		truth func(rng *rand.Rand, y float64) float32
		least func(y, truth, reach float64) float64 // margin of a value that moves so far
	}{
		"regression": {"{kind: regression, tolerance: 1.5}", off,
			func(y, truth, reach float64) float64 { return tolerance - math.Abs(y-truth) - reach }},
		"head": {"{head: head.onnx}", off,
			func(y, truth, reach float64) float64 { return tolerance - math.Abs(y-truth) - reach }},
		"multilabel": {"{kind: multilabel}", holds,
			func(y, truth, reach float64) float64 { return y*(2*truth-1) - reach }},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			a := newAffine(40, c.truth)
			a.write(t, folder)
			writeHead(t, filepath.Join(folder, "head.onnx"))
			p := testplan.Plan(t, fmt.Sprintf(`version: 1
datasets: {d: {format: npz, path: %[1]s/x.npy, truth: %[1]s/truth.npy}}
models: {net: {path: %[1]s/net.onnx, task: %[2]s}}
attacks:
  aa: {kind: autoattack, version: quick, norm: linf, epsilon: %[3]v}
  pgd: {kind: pgd, norm: linf, epsilon: %[3]v, steps: 10}
suites:
  s: {dataset: d, models: [net], attacks: [aa, pgd]}
`, filepath.ToSlash(folder), strings.ReplaceAll(c.task, "head.onnx", filepath.ToSlash(folder)+"/head.onnx"),
				epsilon), 2, 8)
			f, records, _ := runFor(t, p)
			counts := map[bool]int{}
			for _, r := range records {
				reach := 0.0
				if r.Attack != "none" {
					reach = epsilon
				}
				margin := math.Inf(1)
				for k := range a.w {
					y, truth := a.answer(a.images[r.Image], k), float64(a.truths[r.Image][k])
					margin = min(margin, c.least(y, truth, a.reach(k, reach)))
				}
				if (r.Verdict == 1) != (margin > 0) && math.Abs(margin) > 1e-4 {
					t.Errorf("%s, image %d: robust %v with margin %v", r.Attack, r.Image, (r.Verdict == 1), margin)
				}
				if r.Attack == "aa" {
					counts[r.Verdict == 1]++
				}
			}
			if counts[true] < 5 || counts[false] < 5 {
				t.Errorf("%v: too few images stand or fall", counts)
			}
			task := f.Models["net"].Task
			if text := string(must.Get(json.Marshal(task))(t)); !strings.Contains(text, strings.Trim(name, "{}")) {
				t.Error(text)
			}
		})
	}
}

// A network that asks of each pixel whether it is bright loses the pixels that lie within epsilon of its threshold, and
// no others: an image stands if enough are left of those that count.
func TestSegmentation(t *testing.T) {
	testinput.Runtime(t)
	const images, epsilon, threshold = 30, 0.05, 0.5
	folder, rng := filepath.ToSlash(t.TempDir()), rand.New(rand.NewPCG(5, 6))
	a := affine{}
	var stand, right []bool
	for range images {
		x, mask := make([]float32, 16), make([]float32, 16)
		count, clean, attacked := 0, 0, 0
		for i := range x {
			x[i] = rng.Float32()
			bright := x[i] > threshold
			if mask[i] = float32(lists.Count([]bool{bright}, isTrue)); rng.IntN(8) == 0 {
				mask[i] = 1 - mask[i] // the network is wrong here
			}
			if rng.IntN(8) == 0 {
				mask[i] = 7 // does not count
				continue
			}
			count++
			if bright == (mask[i] == 1) {
				clean++
				if math.Abs(float64(x[i])-threshold) > epsilon {
					attacked++
				}
			}
		}
		a.images, a.truths = append(a.images, x), append(a.truths, mask)
		enough := func(n int) bool { return float64(n) >= 0.75*float64(count)-1e-6 }
		right, stand = append(right, enough(clean)), append(stand, enough(attacked))
	}
	a.write(t, folder)
	b := &onnx.Builder{G: onnx.NewGraph("bright")}
	x := b.Input("x", onnx.Shape{onnx.Batch, 1, 4, 4})
	b.Output("y", b.Op("Mul", b.Op("Sub", x, b.Float(threshold)), b.Float(9)))
	must.Do(t, os.WriteFile(folder+"/net.onnx", must.Get(must.Get(b.Done())(t).Encode())(t), 0o600))
	p := testplan.Plan(t, strings.ReplaceAll(`version: 1
datasets: {d: {format: npz, path: FOLDER/x.npy, truth: FOLDER/truth.npy}}
models: {net: {path: FOLDER/net.onnx, task: {kind: segmentation, bar: 0.75, ignore: 7}}}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 0.05, steps: 20}
  aa: {kind: autoattack, norm: linf, epsilon: 0.05}
suites:
  s: {dataset: d, models: [net], attacks: [pgd, aa]}
`, "FOLDER", folder), 2, 8)
	_, records, out := runFor(t, p)
	fell := 0
	for _, r := range records {
		want := right[r.Image]
		if r.Attack != "none" {
			want = stand[r.Image]
			fell += lists.Count([]bool{right[r.Image] && !want}, isTrue)
		}
		if (r.Verdict == 1) != want {
			t.Errorf("%s, image %d: verdict %d, margin %v", r.Attack, r.Image, r.Verdict, r.Margin)
		}
	}
	if fell < 6 {
		t.Errorf("%d images fall", fell)
	}
	gallery := must.Get(result.ReadGallery(filepath.Join(out, "gallery.json")))(t)
	for _, c := range gallery.Cases { // the truth, and the answers to the clean and the attacked image
		var masks [][]float32
		for _, file := range c.Pictures.Masks {
			classes, _ := must.Get2(pillow.Classes(bytes.NewReader(file), int64(len(file))))(t)
			masks = append(masks, classes)
		}
		differ := 0
		for i, x := range a.images[c.Image] {
			if masks[1][i] != float32(lists.Count([]bool{x > threshold}, isTrue)) {
				t.Errorf("image %d: pixel %v has class %v", c.Image, x, masks[1][i])
			}
			differ += lists.Count([]bool{masks[1][i] != masks[2][i]}, isTrue)
		}
		if len(masks) != 3 || !slices.Equal(masks[0], a.truths[c.Image]) || differ == 0 {
			t.Errorf("image %d: %d masks, truth %v, %d pixels fall", c.Image, len(masks), masks[0], differ)
		}
	}
	if len(gallery.Cases) == 0 {
		t.Error("no pictures")
	}
}

// A classifier is its own zero-shot network where each class's text lies along its logit: the same images are right.
func TestZeroShot(t *testing.T) {
	testinput.Runtime(t)
	texts := filepath.ToSlash(filepath.Join(t.TempDir(), "texts.npy"))
	f := must.Get(os.Create(texts))(t)
	values := make([]float32, 100)
	for i := range 10 {
		values[11*i] = float32(i + 1) // lengths do not count
	}
	must.Do(t, npy.Write(f, []int{10, 10}, slices.Values([][]float32{values})))
	must.Do(t, f.Close())
	p := testplan.Plan(t, testplan.Bundled+`
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 0.1, steps: 10}
suites:
  s: {dataset: test, models: [standard, other], attacks: [pgd]}
`, 2, 8, "datasets.test.limit=20", "datasets.test.path=models/zoo/shapes10/train.bin",
		"models.standard.path="+tiny(t, 100), "models.other.path="+tiny(t, 100),
		"models.other.task={kind: zero-shot, texts: "+texts+"}")
	_, records, _ := runFor(t, p)
	right, fell := map[string][]int{}, 0
	for _, r := range records {
		if r.Attack == "none" {
			right[r.Model] = append(right[r.Model], r.Verdict)
		} else if r.Model == "other" {
			fell += right["other"][r.Image] - r.Verdict
		}
	}
	if !slices.Equal(right["standard"], right["other"]) || !slices.Contains(right["other"], 1) || fell < 3 {
		t.Errorf("right %v, and %d fall", right, fell)
	}
}

// A network of two numbers, each of other pixels, tells images apart by their distance. How far an image's numbers can
// be moved follows from its weights, and so does which pairs stand. The threshold may follow from the false accepts.
func TestVerification(t *testing.T) {
	testinput.Runtime(t)
	const pairs, epsilon, threshold = 40, 0.03, 1.2
	folder, a, rng := filepath.ToSlash(t.TempDir()), newAffine(0, nil), rand.New(rand.NewPCG(7, 8))
	clear(a.w[1][:8])
	clear(a.w[0][8:])
	var list strings.Builder
	var apart [][2]float64 // of each pair, by number
	picture := func(name string) (x []float32) {
		im := image.NewGray(image.Rect(0, 0, 4, 4))
		for i := range im.Pix {
			im.Pix[i] = uint8(50 + rng.IntN(150))
			x = append(x, float32(im.Pix[i])/255)
		}
		f := must.Get(os.Create(filepath.Join(folder, name)))(t)
		must.Do(t, png.Encode(f, im))
		must.Do(t, f.Close())
		return x
	}
	for i := range pairs {
		first, second := fmt.Sprintf("%d.png", i), fmt.Sprintf("%d-other.png", i)
		x, y := picture(first), picture(second)
		a.images, a.truths = append(a.images, x), append(a.truths, x)
		apart = append(apart, [2]float64{a.answer(x, 0) - a.answer(y, 0), a.answer(x, 1) - a.answer(y, 1)})
		fmt.Fprintf(&list, "%s,%s,%d\n", first, second, i%2)
	}
	a.write(t, folder)
	must.Do(t, os.WriteFile(folder+"/pairs.csv", []byte(list.String()), 0o600))
	p := testplan.Plan(t, strings.ReplaceAll(`version: 1
datasets: {d: {format: pairs, path: FOLDER/pairs.csv}}
models:
  net: {path: FOLDER/net.onnx, task: {kind: verification, metric: l2, threshold: 1.2}}
  far: {path: FOLDER/net.onnx, task: {kind: verification, metric: l2, far: 0.3}}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 0.03, steps: 40, restarts: 3}
suites:
  s: {dataset: d, models: [net, far], attacks: [pgd]}
`, "FOLDER", folder), 2, 8)
	f, records, _ := runFor(t, p)
	fell, wrong, accepted := 0, 0, 0
	for _, r := range records {
		reach := 0.0
		if r.Attack != "none" {
			reach = epsilon
		}
		same := r.Image%2 == 1
		far := 0.0 // as far as the two can be moved apart, or as near
		for k, d := range apart[r.Image] {
			if same {
				far = math.Hypot(far, math.Abs(d)+a.reach(k, reach))
			} else {
				far = math.Hypot(far, max(math.Abs(d)-a.reach(k, reach), 0))
			}
		}
		stands := (far < threshold) == same
		if r.Model == "net" && stands != (r.Verdict == 1) && math.Abs(far-threshold) > 1e-3 {
			t.Errorf("%s, pair %d: verdict %d at a distance of %v", r.Attack, r.Image, r.Verdict, far)
		}
		switch {
		case r.Model == "far" && r.Attack == "none" && !same:
			accepted += 1 - r.Verdict
		case r.Model == "net" && r.Attack == "none":
			wrong += 1 - r.Verdict
		case r.Model == "net":
			fell += 1 - r.Verdict
		}
	}
	for _, c := range f.Cells {
		n := map[string]int{} // wrong of those that are the same, and of those that are not
		for i, v := range c.Verdicts {
			n[[]string{"falsely accepted", "falsely rejected"}[i%2]] += int('1' - v)
		}
		if len(c.Measures) != 2 {
			t.Errorf("%s, %s: %v", c.Model, c.Attack, c.Measures)
		}
		for _, m := range c.Measures {
			if got := m.Value * pairs / 2; math.Abs(got-float64(n[m.Name])) > 1e-9 {
				t.Errorf("%s, %s: %v of %d pairs are %s, by verdicts %d", c.Model, c.Attack, got, pairs/2, m.Name,
					n[m.Name])
			}
		}
	}
	if known := f.Models["far"].Task; known.FAR != 0.3 || len(known.SHA256) != 64 {
		t.Errorf("the pairs that the threshold follows from are no part of the run: %+v", known)
	}
	if accepted != 0.3*pairs/2 || wrong == fell || fell > pairs-3 || wrong < 3 {
		t.Errorf("%d of %d falsely accepted, %d wrong and %d attacked", accepted, pairs/2, wrong, fell)
	}
}

// An ensemble of affine classifiers by their logits is the affine classifier of their means, under a control too, and
// comes to the same end where it is killed.
func TestEnsemble(t *testing.T) {
	testinput.NumbersAlone(t)
	folder, epsilon := filepath.ToSlash(t.TempDir()), 0.05
	var mean affine
	for i, name := range []string{"a", "b", "c"} {
		a := newAffine(20, func(*rand.Rand, float64) float32 { return 0 })
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		for k := range a.w {
			for j := range a.w[k] {
				a.w[k][j] = float32(rng.NormFloat64())
				mean.w[k][j] += a.w[k][j] / 3
			}
			a.b[k] = float32(rng.NormFloat64() / 4)
			mean.b[k] += a.b[k] / 3
		}
		a.write(t, folder)
		must.Do(t, os.Rename(folder+"/net.onnx", folder+"/"+name+".onnx"))
		mean.images = a.images
	}
	head := "{'descr': '|u1', 'fortran_order': False, 'shape': (20,), }"
	labels := fmt.Appendf(nil, "\x93NUMPY\x01\x00%c\x00%-117s\n", 118, head)
	for _, x := range mean.images {
		labels = append(labels, byte(lists.Count([]float64{mean.answer(x, 1) - mean.answer(x, 0)}, positive)))
	}
	must.Do(t, os.WriteFile(folder+"/y.npy", labels, 0o600))
	text := strings.ReplaceAll(`version: 1
datasets:
  fit: {format: npz, path: FOLDER, keys: {x: x, y: y}, indices: [0, 1, 2, 3, 4, 5, 6, 7]}
  d: {format: npz, path: FOLDER, keys: {x: x, y: y}, indices: [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]}
models:
  a: {path: FOLDER/a.onnx}
  b: {path: FOLDER/b.onnx}
  c: {path: FOLDER/c.onnx}
  logits: {task: {kind: ensemble, of: [a, b, c], by: logits}}
  vote: {task: {kind: ensemble, of: [a, b, c], by: vote}}
controls:
  pca: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: linear, fit: fit, rank: 6}}]}
attacks:
  aa: {kind: autoattack, version: quick, norm: linf, epsilon: 0.05}
suites:
  s: {dataset: d, models: [logits, vote], controls: [pca], attacks: [aa], mode: whitebox-through}
`, "FOLDER", folder)
	p := testplan.Plan(t, text, 2, 8)
	_, err := run.Run(t.Context(), testplan.Plan(t, text, 2, 8, "attacks.aa.prove=true", "suites.s.models=[logits]"),
		run.Options{Out: filepath.Join(t.TempDir(), "out")})
	must.Refuse(t, err, "bounds, which hold for one file")
	all, end := states(t, p)
	killed(t, p, all, end)
	counts := map[string]int{}
	for _, r := range must.All(result.Records(filepath.Join(end, "records.jsonl")))(t) {
		if counts[r.Model+r.Attack+r.Defense] += r.Verdict; r.Model != "logits" || r.Defense != "none" {
			continue
		}
		x, reach := mean.images[r.Image], 0.0
		margin := math.Abs(mean.answer(x, 1) - mean.answer(x, 0))
		for j := range mean.w[0] {
			reach += epsilon * math.Abs(float64(mean.w[1][j]-mean.w[0][j]))
		}
		if r.Attack == "none" {
			reach = 0
		}
		if (r.Verdict == 1) != (margin > reach) && math.Abs(margin-reach) > 1e-4 {
			t.Errorf("%s, image %d: verdict %d, margin %v, reach %v", r.Attack, r.Image, r.Verdict, margin, reach)
		}
	}
	if n := counts["logitsaanone"]; n < 2 || n > 10 || counts["voteaanone"] >= counts["votenonenone"] ||
		counts["logitsaapca"] > counts["logitsnonepca"] {
		t.Error(counts)
	}
}

func isTrue(v bool) bool { return v }

// A run with tasks, under a control too, comes to the same end where it is killed, in shards, in other batches, and in
// a file that export writes of the controlled network.
func TestTasksAnywhere(t *testing.T) {
	testinput.NumbersAlone(t)
	folder := filepath.ToSlash(t.TempDir())
	a := newAffine(24, func(rng *rand.Rand, y float64) float32 { return float32(y + rng.NormFloat64()) })
	a.write(t, folder)
	tags := filepath.Join(folder, "tags.csv")
	var lines strings.Builder
	for _, x := range a.images {
		fmt.Fprintf(&lines, "%d,%d\n", lists.Count([]float64{a.answer(x, 0)}, positive),
			lists.Count([]float64{a.answer(x, 1)}, positive))
	}
	must.Do(t, os.WriteFile(tags, []byte(lines.String()), 0o600))
	text := strings.ReplaceAll(`version: 1
datasets:
  fit: {format: npz, path: FOLDER/x.npy, truth: FOLDER/truth.npy, indices: [0, 1, 2, 3, 4, 5, 6, 7]}
  numbers: {format: npz, path: FOLDER/x.npy, truth: FOLDER/truth.npy, indices: [8, 9, 10, 11, 12, 13, 14, 15]}
  tags: {format: npz, path: FOLDER/x.npy, truth: FOLDER/tags.csv, indices: [8, 9, 10, 11, 12, 13, 14, 15]}
models:
  regression: {path: FOLDER/net.onnx, task: {kind: regression, tolerance: 1.5}}
  labels: {path: FOLDER/net.onnx, task: {kind: multilabel}}
controls:
  pca: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: linear, fit: fit, rank: 6}}]}
attacks:
  aa: {kind: autoattack, version: quick, norm: linf, epsilon: 0.04}
suites:
  one: {dataset: numbers, models: [regression], controls: [pca], attacks: [aa], mode: whitebox-through}
  two: {dataset: tags, models: [labels], controls: [pca], attacks: [aa], mode: whitebox-through}
`, "FOLDER", folder)
	p := testplan.Plan(t, text, 2, 8)
	all, end := states(t, p)
	killed(t, p, all, end)
	sameAnywhere(t, p, testplan.Plan(t, text, 1, 3), end)
	standing := map[string]int{}
	for _, r := range must.All(result.Records(filepath.Join(end, "records.jsonl")))(t) {
		if r.Defense == "pca" && r.Attack == "aa" {
			standing[r.Model] += r.Verdict
		}
	}
	for model, suite := range map[string]string{"regression": "one", "labels": "two"} {
		u := must.Get(open.Use(t.Context(), p.Config, model, "pca", open.Options{}))(t)
		e := must.Get(u.Export())(t)
		if e.Output != "answer [N 2]" {
			t.Errorf("%s: output %s", model, e.Output)
		}
		path := filepath.Join(folder, model+".onnx")
		must.Do(t, os.WriteFile(path, e.Data, 0o600))
		healed := strings.Replace(text, "  "+model+": {path: "+folder+"/net.onnx", "  "+model+": {path: "+path, 1)
		healed = strings.ReplaceAll(healed, "controls: [pca], attacks: [aa], mode: whitebox-through", "attacks: [aa]")
		cfg := testplan.Config(t, testplan.Repository(t), healed, []string{suite})
		f, _, _ := runFor(t, must.Get(plan.New(cfg))(t))
		if got := int(f.Cells[1].Accuracy*float64(f.Cells[1].N) + 0.5); got != standing[model] {
			t.Errorf("%s: %d images stand under the exported network, %d under the control", model, got,
				standing[model])
		}
		u.Close()
	}
}

func positive(y float64) bool { return y > 0 }

// writeHead writes a head for regressions within 1.5, from the answer and the truth to two scores.
func writeHead(t *testing.T, path string) {
	b := &onnx.Builder{G: onnx.NewGraph("head")}
	y, truth := b.Input("answer", onnx.Shape{onnx.Batch, 2}), b.Input("truth", onnx.Shape{onnx.Batch, 2})
	off := b.OpWith("ReduceMax", onnx.Attrs{"keepdims": int64(1)}, b.Op("Abs", b.Op("Sub", y, truth)), b.Ints(1))
	b.Output("right", b.Op("Add", b.Op("Mul", off, b.Float(0)), b.Float(1.5)))
	b.Output("wrong", off)
	must.Do(t, os.WriteFile(path, must.Get(must.Get(b.Done())(t).Encode())(t), 0o600))
}
