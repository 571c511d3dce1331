package harness_test

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/harness/open"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
)

// edited changes a model's graph in its file.
func edited(t *testing.T, path string, edit func(g *pb.GraphProto)) string {
	t.Helper()
	m := &pb.ModelProto{}
	must.Do(t, proto.Unmarshal(must.Get(os.ReadFile(path))(t), m))
	edit(m.Graph)
	must.Do(t, os.WriteFile(path, must.Get(proto.Marshal(m))(t), 0o644))
	return path
}

// levelled writes a network as a file that takes uint8.
func levelled(t *testing.T, network string, in func(b *onnx.Builder, x string) string) string {
	path := plantedIn(t, network, "levels", func(b *onnx.Builder, x string) string {
		return in(b, b.Op("Div", b.OpWith("Cast", onnx.Attrs{"to": int(onnx.Float)}, x), b.Float(255)))
	}, unchanged)
	return edited(t, path, func(g *pb.GraphProto) {
		g.Input[0].Type.GetTensorType().ElemType = proto.Int32(int32(onnx.Uint8))
	})
}

// A network that takes uint8, and one with open height and width, which takes them from the images, give the results
// of their twin, and certificates hold for their files. A file of uint8 does not take images between levels: an answer
// of the opened form there breaks no image.
func TestTwins(t *testing.T) {
	testinput.NumbersAlone(t)
	between := rootOf(func(b *onnx.Builder, x string) string { // above 0 only at levels
		return b.Op("Add", b.Op("Cos", b.Op("Mul", x, b.Float(1602.2123))), b.Float(0.5))
	})
	network := tiny(t, 400)
	anySize := edited(t, plantedIn(t, network, "open", unchanged, unchanged), func(g *pb.GraphProto) {
		for i, d := range g.Input[0].Type.GetTensorType().Shape.Dim[2:] {
			d.Value = &pb.TensorShapeProto_Dimension_DimParam{DimParam: []string{"height", "width"}[i]}
		}
	})
	text := strings.Replace(testplan.Bundled, "  other:", "  levels: {path: "+levelled(t, network, unchanged)+`}
  between: {path: `+levelled(t, network, between)+`}
  open: {path: `+anySize+"}\n  other:", 1) + `
attacks:
  pgd: {kind: pgd, norm: l2, epsilon: 1.5, steps: 5}
  proven: {kind: bounds, method: crown, norm: linf, epsilon: 1.1/255}
suites:
  twins: {dataset: test, models: [robust, levels, open], attacks: [pgd, proven]}
  rough: {dataset: test, models: [between], attacks: [pgd]}
`
	f, _, _ := runFor(t, testplan.Plan(t, text, 2, 8, "datasets.test.indices=[2, 4]",
		"models.robust.path="+network, "datasets.test.path=models/zoo/shapes10/train.bin"))
	verdicts, rounded := map[string]string{}, map[string]string{}
	for _, c := range f.Cells {
		verdicts[c.Model] += c.Attack + " " + c.Verdicts + "\n"
		for _, w := range c.Warnings {
			if w.ID == result.WarnRounded.ID {
				rounded[c.Model] += w.Message
			}
		}
		uint8 := slices.ContainsFunc(c.Warnings, func(w result.Warning) bool {
			return w.ID == result.WarnConverted.ID && strings.Contains(w.Message, "uint8")
		})
		if uint8 != (c.Model == "levels" || c.Model == "between") {
			t.Errorf("%s, %s: warnings %v", c.Model, c.Attack, c.Warnings)
		}
	}
	if verdicts["levels"] != verdicts["robust"] || verdicts["open"] != verdicts["robust"] ||
		!strings.Contains(verdicts["robust"], "proven 1") {
		t.Errorf("verdicts %v", verdicts)
	}
	if verdicts["between"] != "none 11\npgd 11\n" || rounded["robust"] != "" {
		t.Errorf("rounded: %v; verdicts %v", rounded, verdicts)
	}
}

func TestRoundedPixels(t *testing.T) {
	image, centre := []float32{0, 0.5, 1, 0.3, 10.6 / 255, 10.4 / 255, 12. / 255},
		[]float32{0, 0, 1, 1, 10. / 255, 12. / 255, 10. / 255}
	for i, want := range [][]float32{{0, 128, 255, 77, 11, 10, 12}, {0, 127, 255, 77, 10, 11, 12}} {
		towards := [][]float32{nil, centre}[i]
		for k, v := range open.Levels(image, towards) {
			if v != want[k]/255 {
				t.Errorf("%v towards %v: %v, want %v", image[k], towards, v*255, want[k])
			}
		}
	}
}

// An attack on 8 bits is judged by its rounded image. If the attack minimises the norm, this image's norm is the
// distance, and an image that rounding loses has none. The losses of each component count.
func TestStoredImages(t *testing.T) {
	testinput.Runtime(t)
	f, records, _ := runFor(t, testplan.Plan(t, testplan.Bundled+`
attacks:
  fmn: {kind: fmn, norm: linf, epsilon: 2.6/255, steps: 20, pixels: 8bit}
  apgd: {kind: apgd-ce, norm: linf, epsilon: 2.6/255, steps: 5, pixels: 8bit}
  both: {kind: autoattack, version: custom, norm: linf, epsilon: 2.6/255, pixels: 8bit,
         components: [{kind: apgd-ce, steps: 5}, {kind: square, queries: 2}]}
suites:
  stored: {dataset: test, models: [robust], attacks: [fmn, apgd, both]}
`, 2, 8, "datasets.test.limit=40"))
	by, found := map[string]result.Cell{}, 0
	for _, c := range f.Cells {
		by[c.Attack] = c
	}
	one, both := by["apgd"], by["both"]
	if one.Verdicts != both.Verdicts || *one.Stored != *both.Stored || one.Stored.Lost == 0 {
		t.Errorf("%s and %+v before Square, which breaks none, %s and %+v without", both.Verdicts, *both.Stored,
			one.Verdicts, *one.Stored)
	}
	for _, r := range records {
		d := math.Inf(1)
		if r.Distance != nil {
			d = float64(*r.Distance)
		}
		switch {
		case r.Attack != "fmn" || d == 0:
		case r.Verdict == 0 && d == r.Norm:
			found++
		case r.Verdict == 0 || !math.IsInf(d, 1):
			t.Errorf("image %d: verdict %d, norm %v, distance %v", r.Image, r.Verdict, r.Norm, d)
		}
	}
	if found == 0 {
		t.Error("nothing was found")
	}
}

// noise adds random numbers to an image.
func noise(b *onnx.Builder, x string) string {
	return b.Op("Add", x, b.OpWith("RandomNormalLike", onnx.Attrs{"scale": float32(0.3)}, x))
}

// A success that the judge refutes is not a distance.
func TestRefutedDistance(t *testing.T) {
	testinput.Runtime(t)
	f, records, _ := runFor(t, testplan.Plan(t, testplan.Bundled+`
attacks:
  fmn: {kind: fmn, norm: linf, epsilon: 16/255, steps: 10, refine: 6}
suites:
  random: {dataset: test, models: [other], attacks: [fmn]}
`, 2, 8, "datasets.test.limit=20", "models.other={votes: 40, path: "+planted(t, "noisy", noise, unchanged)+"}"))
	refuted := 0
	for _, c := range f.Cells {
		if hasWarning(c, result.WarnClaimRefuted) {
			refuted++
		}
	}
	for _, r := range records {
		if d := r.Distance; r.Attack == "fmn" && r.Verdict == 1 && d != nil && float64(*d) <= float64(r.Epsilon) {
			t.Errorf("image %d stands, at a distance of %v", r.Image, *d)
		}
	}
	if refuted == 0 {
		t.Error("nothing was refuted")
	}
}
