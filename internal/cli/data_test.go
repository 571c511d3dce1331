package cli

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// imageFolder is a folder of bundled test images in the folder of the split val, and a file that is no image.
func imageFolder(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	photographs(t, filepath.Join(dir, "val"), n)
	put(t, filepath.Join(dir, "val", "0", "list.txt"), []byte("notes"))
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

// attack --limit takes images of a folder evenly by class, and says what it leaves out; so does a config whose limit
// takes the first class only.
func TestImageFolders(t *testing.T) {
	testinput.Runtime(t)
	dir, out := imageFolder(t, 40), t.TempDir()
	code, _, stderr := call("attack", robustModel, "--data", dir, "--norm", "linf", "--epsilon", "2/255", "--attack",
		"fgsm", "--limit", "10", "--split", "val", "--out", out)
	if code != exitOK {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
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
	if d.Split != "val" {
		t.Errorf("split %q", d.Split)
	}
	if want := (result.Sample{N: 10, PerClass: true}); d.Sample == nil || *d.Sample != want {
		t.Errorf("sample %v, want %v", d.Sample, want)
	}
	if d.LeftOut == nil || d.LeftOut.Files != 1 || !slices.Equal(d.LeftOut.Names, []string{"0/list.txt"}) {
		t.Errorf("left out are %+v", d.LeftOut)
	}
	must.Have(t, fmt.Sprint(file.Cells[0].Warnings), "files-left-out", "0/list.txt")
	must.Have(t, read(t, filepath.Join(out, "tables.md")), "files-left-out")

	// Images of other sizes are resized and cropped as a config's transform does it.
	if code, _, stderr := call("attack", robustModel, "--data", dir, "--norm", "linf", "--epsilon", "2/255", "--attack",
		"fgsm", "--split", "val", "--resize", "40", "--crop", "32", "--out", out, "--force"); code != exitOK {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	file, _ = results(t, out)
	d = file.Datasets[named(dir, "data")]
	if want := (result.Transform{Resize: 40, Crop: 32, Interpolation: result.Bilinear}); *d.Transform != want {
		t.Errorf("transform %v, want %v", d.Transform, want)
	}

	cfg := written(t, t.TempDir(), fmt.Sprintf(`version: 1
datasets: {d: {format: image-folder, path: %q, split: val, limit: 5}}
models: {m: {path: ZOO/preact_robust.onnx}}
attacks: {fgsm: {kind: fgsm, norm: linf, epsilon: 2/255}}
suites: {s: {dataset: d, models: [m], attacks: [fgsm]}}
`, filepath.ToSlash(dir)))
	if code, _, stderr = call("run", "--config", cfg, "--out", out, "--force"); code != exitOK {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	file, _ = results(t, out)
	must.Have(t, fmt.Sprint(file.Cells[0].Warnings), "classes-left-out", "no image of 8 of the classes of data set d")
}
