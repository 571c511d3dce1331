package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

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
		testplan.Archive(t, filepath.Join(dir, "images.npz"), 6, c.shape)
		p := testplan.Plan(t, fmt.Sprintf(`
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
