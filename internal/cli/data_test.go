package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

// imageFolder makes a folder of bundled test images, in the subfolder of the split val, and a file that is no image.
func imageFolder(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	photographs(t, filepath.Join(dir, "val"), n)
	put(t, filepath.Join(dir, "val", "0", "more.gif"), []byte("notes"))
	return dir
}

// photographs writes bundled test images as PNG files, a folder a class.
func photographs(t *testing.T, dir string, n int) {
	t.Helper()
	d := must.Get(dataset.Open(dataset.Spec{Format: "cifar10-bin", Path: testImages}, config.Folder("."), n))(t)
	for i := range n {
		_, x, label := must.Get3(d.Image(i))(t)
		im := image.NewNRGBA(image.Rect(0, 0, 32, 32))
		for k := range 1024 {
			for c := range 3 {
				im.Pix[4*k+c] = byte(x[c*1024+k]*255 + 0.5)
			}
			im.Pix[4*k+3] = 255
		}
		var b bytes.Buffer
		must.Do(t, png.Encode(&b, im))
		put(t, filepath.Join(dir, fmt.Sprint(label), fmt.Sprintf("%03d.png", i)), b.Bytes())
	}
}

// attack --limit takes images of a folder evenly by class, and says what it leaves out; so does a config's limit.
func TestImageFolders(t *testing.T) {
	testinput.Runtime(t)
	dir, out := imageFolder(t, 40), t.TempDir()
	attack := []string{"attack", robustModel, "--data", dir, "--norm", "linf", "--epsilon", "2/255", "--attack", "fgsm",
		"--split", "val", "--out", out}
	done(t, append(attack, "--limit", "10")...)
	validateRun(t, out)
	file, records := results(t, out)
	var labels []int
	for _, r := range records[:10] {
		labels = append(labels, r.Label)
	}
	if slices.Sort(labels); !slices.Equal(labels, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("labels %v", labels)
	}
	d := file.Datasets[named(dir, "data")]
	chosen := d.SHA256
	if d.Split != "val" {
		t.Errorf("split %q", d.Split)
	}
	if want := (result.Sample{N: 10, PerClass: true}); d.Sample == nil || *d.Sample != want {
		t.Errorf("sample %v, want %v", d.Sample, want)
	}
	if d.LeftOut == nil || d.LeftOut.Files != 1 || !slices.Equal(d.LeftOut.Names, []string{"0/more.gif"}) {
		t.Errorf("left out are %+v", d.LeftOut)
	}
	must.Have(t, fmt.Sprint(file.Cells[0].Warnings), "files-left-out", "0/more.gif")
	must.Have(t, read(t, filepath.Join(out, "tables.md")), "files-left-out")

	// Images of other sizes are resized and cropped as a config's transform does it.
	done(t, append(attack, "--resize", "40", "--crop", "32", "--force")...)
	file, _ = results(t, out)
	d = file.Datasets[named(dir, "data")]
	if want := (result.Transform{Resize: 40, Crop: 32, Interpolation: result.Bilinear}); *d.Transform != want {
		t.Errorf("transform %v, want %v", d.Transform, want)
	}

	// A config's limit takes the images that attack --limit takes, and verify measures them as they were saved.
	again := t.TempDir()
	cfg := written(t, t.TempDir(), fmt.Sprintf(`version: 1
save_adversarial: true
datasets: {d: {format: image-folder, path: %q, split: val, limit: 12}}
models: {m: {path: ZOO/preact_robust.onnx}}
attacks: {fgsm: {kind: fgsm, norm: linf, epsilon: 16/255}, fog: {kind: corruption, names: [fog], severities: [2]}}
controls: {c: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: identity}}]}}
suites: {s: {dataset: d, models: [m], controls: [c], attacks: [fgsm, fog], mode: oblivious}}
`, filepath.ToSlash(dir)))
	for to, limit := range map[string][]string{out: {"--limit", "10"}, again: nil} {
		done(t, append([]string{"run", "--config", cfg, "--out", to, "--force"}, limit...)...)
	}
	file, records = results(t, out)
	if got := file.Datasets["d"]; got.SHA256 != chosen || got.Limit != 10 || got.Sample.N != 10 {
		t.Errorf("a config's limit takes other images: %+v", got)
	}
	for _, to := range []string{out, again} {
		must.Have(t, done(t, "verify", to), "m      none     fgsm", "m      c        fgsm", "m      c        fog:fog:2")
	}
	indexed(t, dir, out, records)
	saved := must.Get(filepath.Glob(filepath.Join(out, "adversarial", "*fgsm*.npy")))(t)[0]
	data := must.Get(os.ReadFile(saved))(t)
	binary.LittleEndian.PutUint32(data[len(data)-4:], math.Float32bits(0.5))
	must.Do(t, os.WriteFile(saved, data, 0o644))
	id := records[9].Image
	refused(t, exitFailed, fmt.Sprintf("1 of 10 images leave the ball or the box; image %d:", id), "verify", out)
	refused(t, exitUsage, "--limit does not go with the folder of a run", "verify", out, "--limit", "3")

	// A baseline that meant the first images of the folder is refused.
	must.Do(t, os.WriteFile(cfg, []byte(strings.Replace(read(t, cfg), "limit: 12", "sample: {n: 12}", 1)), 0o644))
	other := t.TempDir()
	done(t, "run", "--config", cfg, "--out", other)
	baseline := filepath.Join(t.TempDir(), "baseline.json")
	call("check", "--update", "--baseline", baseline, other)
	refused(t, exitRefused, "datasets.d.sample.per_class: baseline false, run true", "check", "--baseline", baseline,
		again)
}

// indexed checks that records and the index of the saved images name each image's file.
func indexed(t *testing.T, data, out string, records []result.Record) {
	t.Helper()
	index := fromJSON[result.Saved](t, read(t, filepath.Join(out, "adversarial", "index.json")))
	images := index.Images["d"]
	for i, im := range images {
		pixels, err := os.Stat(filepath.Join(data, filepath.FromSlash(im.File)))
		r := records[i]
		if err != nil || pixels.IsDir() || im != (result.SavedImage{Image: r.Image, Label: r.Label, File: r.File}) {
			t.Errorf("row %d is %+v, the record %+v; %v", i, im, r, err)
		}
	}
	var made []string
	for _, a := range index.Arrays {
		must.Get(os.Stat(filepath.Join(out, "adversarial", a.File)))(t)
		made = append(made, a.Name())
	}
	if want := []string{"m/none/fgsm@16/255", "m/none/fog:fog:2"}; len(images) != 10 || !slices.Equal(made, want) {
		t.Errorf("%d images, arrays of %v, not %v", len(images), made, want)
	}
}

// Grey files, in a folder and in Parquet files, are read for a network of one channel as they are.
func TestGreyImages(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	model := filepath.Join(dir, "grey.onnx")
	put(t, model, greyNetwork(t))
	for label := range 2 {
		for i := range 3 {
			im := image.NewGray(image.Rect(0, 0, 2, 2))
			im.Pix = []byte{byte(200 * label), byte(10 * i), 7, 255}
			var b bytes.Buffer
			must.Do(t, png.Encode(&b, im))
			put(t, filepath.Join(dir, "set", fmt.Sprint(label), fmt.Sprintf("%d.png", i)), b.Bytes())
		}
	}
	list := strings.Split(done(t, "predict", model, "--data", filepath.Join(dir, "set"), "--json"), "\n")
	list = append(list, done(t, "predict", model, filepath.Join(dir, "set", "1", "1.png"), "--json"))
	for _, text := range []string{list[4], list[len(list)-1]} {
		p := fromJSON[struct{ Logits []float64 }](t, text)
		if want := []float64{200. / 255, 10. / 255, 7. / 255, 1}; !near(p.Logits, want) {
			t.Errorf("the pixels are %v, want %v", p.Logits, want)
		}
	}
	for _, args := range [][]string{
		{"attack", model, "--attack", "fgsm", "--epsilon", "1/255", "--out", filepath.Join(dir, "out")},
		{"init", model, "--out", filepath.Join(dir, "k.yaml"), "--classes", "0,1,2,3", "--scale", "1"},
		{"doctor", model, "--classes", "0,1,2,3"},
	} {
		done(t, append(args, "--data", filepath.Join(dir, "set"))...)
	}
}

func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) < 1e-6 })
}

// greyNetwork makes a network whose logits are the pixels of grey images of 2×2 pixels.
func greyNetwork(t *testing.T) []byte {
	g := must.Get(onnx.Decode(must.Get(os.ReadFile(robustModel))(t)))(t)
	g.Inputs[0].Shape = onnx.Shape{onnx.Batch, 1, 2, 2}
	g.Nodes = []*onnx.Node{{Op: "Flatten", Inputs: []string{g.Inputs[0].Name}, Outputs: []string{"y"}}}
	g.Consts = nil
	g.Outputs = []onnx.Value{{Name: "y", DType: onnx.Float, Shape: onnx.Shape{onnx.Batch, 4}}}
	return must.Get(g.Encode())(t)
}
