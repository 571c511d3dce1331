package harness

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/dataset"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

// The factor of a perturbation is the largest readable one that keeps it within the picture.
func TestReadableMagnification(t *testing.T) {
	for _, c := range []struct{ largest, want float64 }{{8. / 255, 15}, {float64(float32(8. / 255)), 15}, {0.5, 1}, {1,
		0.5}, {0.25, 2}, {0.05, 10}, {0.0501, 9}, {0.3, 1.5}, {1. / 255, 100}, {0.002, 200}, {1e-7, 5e6}} {
		if got := readable(0.5 / c.largest); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("a perturbation of %g is magnified %v times, want %v", c.largest, got, c.want)
		}
	}
}

// Pictures hold pixels to 8 bits, whatever their shape; what lies outside [0,1] is clipped.
func TestEncodePNG(t *testing.T) {
	for _, s := range []attacks.Shape{{C: 1, H: 2, W: 3}, {C: 3, H: 3, W: 2}} {
		pixels := make([]float32, s.Size())
		for i := range pixels {
			pixels[i] = float32(i)/float32(len(pixels)-1)*1.2 - 0.1
		}
		data := must.Get(encodePNG(s, pixels))(t)
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil || img.Bounds() != image.Rect(0, 0, s.W, s.H) {
			t.Fatalf("%v: %v, %v", s, img.Bounds(), err)
		}
		if _, grey := img.(*image.Gray); grey != (s.C == 1) {
			t.Errorf("%v: decoded as %T", s, img)
		}
		for i := range s.H * s.W {
			r, g, b, _ := img.At(i%s.W, i/s.W).RGBA()
			for c, v := range []uint32{r, g, b} {
				want := math.Round(255 * min(max(float64(pixels[min(c, s.C-1)*s.H*s.W+i]), 0), 1))
				if float64(v>>8) != want {
					t.Errorf("%v: pixel %d, channel %d is %d, want %v", s, i, c, v>>8, want)
				}
			}
		}
	}
}

// archived writes an archive of n images of this shape, of classes 0 and 1 in turn: those of
// class 1 are the brighter.
func archived(t *testing.T, path string, n int, s attacks.Shape) {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	z := zip.NewWriter(f)
	x := make([]float32, n*s.Size())
	for i := range x {
		x[i] = 0.45 + 0.1*float32(i/s.Size()%2) + 0.01*float32(i%5)
	}
	must.Do(t, dataset.WriteNPY(must.Get(z.Create("x.npy"))(t), []int{n, s.C, s.H, s.W}, slices.Values([][]float32{x})))
	head := fmt.Sprintf("{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", n)
	head += strings.Repeat(" ", 117-len(head)) + "\n" // 128 bytes with what stands before
	labels := []byte("\x93NUMPY\x01\x00\x76\x00" + head)
	for i := range n {
		labels = binary.LittleEndian.AppendUint64(labels, uint64(i%2))
	}
	must.Get(must.Get(z.Create("y.npy"))(t).Write(labels))(t)
	must.Do(t, errors.Join(z.Close(), f.Close()))
}

// Grey images of any shape are shown; of what is no picture the gallery says so, and the run
// goes on.
func TestGalleryOfOtherImages(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		shape attacks.Shape
		shown bool
	}{{attacks.Shape{C: 1, H: 3, W: 5}, true}, {attacks.Shape{C: 2, H: 4, W: 4}, false}} {
		dir := t.TempDir()
		b := &onnx.Builder{G: onnx.NewGraph("brightness")}
		x := b.Op("Flatten", b.Input("x", onnx.Shape{onnx.Batch, int64(c.shape.C), int64(c.shape.H), int64(c.shape.W)}))
		weights := make([]float32, 2*c.shape.Size())
		for i := range weights {
			weights[i] = float32(2*(i%2) - 1)
		}
		z := b.Op("Add", b.Op("MatMul", x, b.Const(onnx.FloatTensor(onnx.Shape{int64(c.shape.Size()), 2}, weights))),
			b.Const(onnx.FloatTensor(onnx.Shape{2}, []float32{0.5 * float32(c.shape.Size()),
				-0.5 * float32(c.shape.Size())})))
		b.Output("logits", z)
		must.Do(t, b.Err())
		must.Do(t, os.WriteFile(filepath.Join(dir, "brightness.onnx"), must.Get(b.G.Encode())(t), 0o644))
		archived(t, filepath.Join(dir, "images.npz"), 6, c.shape)
		p := plan(t, fmt.Sprintf(`
version: 1
datasets: {test: {format: npz, path: %[1]s/images.npz}}
models: {brightness: {path: %[1]s/brightness.onnx}}
attacks: {pgd: {kind: pgd, norm: linf, epsilon: 0.25, steps: 4}}
suites: {small: {dataset: test, models: [brightness], controls: [], attacks: [pgd]}}
`, dir), 1, 8)
		f, _, out := runFor(t, p)
		g := readGallery(t, out)
		if c.shown && (len(g.Cases) != 1 || len(g.Notes) != 0 || g.Cases[0].Pictures.Width != c.shape.W ||
			g.Cases[0].Pictures.Height != c.shape.H) {
			t.Errorf("%v: cases %+v, notes %v", c.shape, g.Cases, g.Notes)
		}
		if !c.shown && (len(g.Cases) != 0 || len(g.Notes) != 1 || g.Notes[0].Suite != "small" ||
			!strings.Contains(g.Notes[0].Message, "2 channels")) {
			t.Errorf("%v: cases %+v, notes %v", c.shape, g.Cases, g.Notes)
		}
		if len(f.Cells) != 2 || f.Cells[0].Correct != 6 || f.Cells[1].Correct != 0 {
			t.Errorf("%v: %+v", c.shape, f.Cells)
		}
	}
}
