package harness_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/harness/config"
	"selfheal/harness/forecast"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
)

// labelled writes a bundled network that ends in an ArgMax, and in operators that an exporter may add after it.
func labelled(t *testing.T, name string, of onnx.DType, out func(b *onnx.Builder, z string) string) string {
	path := edited(t, planted(t, name, unchanged, out), func(g *pb.GraphProto) {
		g.Output[0].Type.GetTensorType().ElemType = proto.Int32(int32(of))
	})
	return "\n  " + name + ": {output: label, path: " + path + "}"
}

// A network that gives a label alone has the results of its twin with logits, passes included, under attacks that
// need no more. Other attacks are refused.
func TestLabels(t *testing.T) {
	testinput.NumbersAlone(t)
	argMax := func(keep int) func(b *onnx.Builder, z string) string {
		return func(b *onnx.Builder, z string) string {
			return b.OpWith("ArgMax", onnx.Attrs{"axis": 1, "keepdims": keep}, z)
		}
	}
	models := labelled(t, "column", onnx.Int64, argMax(1)) + labelled(t, "vector", onnx.Int64, argMax(0)) +
		labelled(t, "number", onnx.Float, func(b *onnx.Builder, z string) string {
			return b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Float)}, argMax(0)(b, z))
		})
	text := strings.Replace(testplan.Bundled, "\n  other:", models+"\n  other:", 1) + `
controls:
  heal: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]}
attacks:
  hsj: {kind: hop-skip-jump, norm: l2, epsilon: [0.5, 2], queries: 300}
  rays: {kind: rays, norm: linf, epsilon: 8/255, queries: 200}
  moved: {kind: spatial, queries: 20}
  fog: {kind: corruption, names: [fog], severities: [2]}
  smooth: {kind: smoothing, norm: l2, epsilon: 0.1, sigma: 0.1, n0: 10, n: 40, alpha: 0.05}
  aa: {kind: autoattack, norm: linf, epsilon: 8/255}
  square: {kind: square, norm: linf, epsilon: 8/255}
  crown: {kind: bounds, norm: linf, epsilon: 1/255}
default_suites: [told]
suites:
  told: {dataset: test, models: [robust, column, vector, number], controls: [heal],
         attacks: [hsj, rays, moved, fog, smooth], mode: oblivious}
  through: {dataset: test, models: [vector], controls: [heal], attacks: [rays], mode: whitebox-through}
`
	f, records, _ := runFor(t, testplan.Plan(t, text, 2, 8, "datasets.test.limit=4"))
	want := map[string]string{}
	for _, c := range f.Cells {
		if len(c.Warnings) > 0 && c.Model != "robust" {
			t.Errorf("%s, %s: %v", c.Model, c.Attack, c.Warnings)
		}
	}
	found := 0
	for _, r := range records {
		r.Margin, r.CleanMargin = 0, nil
		key := fmt.Sprint(r.Defense, r.Attack, r.Image)
		if r.Epsilon != 0 {
			key += fmt.Sprint(r.Epsilon)
		}
		got := fmt.Sprint(r.Verdict, r.Norm, value(r.FirstSuccess), value(r.Queries), value(r.Distance), r.Predicted,
			value(r.Rotation), value(r.Radius))
		if r.Model == "robust" {
			want[key] = got
		} else if found++; want[key] != got {
			t.Errorf("%s, %s: %s, not %s", r.Model, key, got, want[key])
		}
	}
	if found != 3*len(want) || found == 0 {
		t.Errorf("%d records of labels, %d of logits", found, len(want))
	}
	testinput.Runtime(t)
	for set, words := range map[string]string{
		"suites.told.attacks=[aa]": "model column gives labels alone, and attack aa sees more; take hop-skip-jump, " +
			"rays, ",
		"suites.told.attacks=[square]": "attack square sees more",
		"suites.told.attacks=[crown]":  "attack crown sees more",
		"models.robust.output=label":   "is the label of no ArgMax",
		"models.vector.output=logits":  "is a label, of ArgMax",
	} {
		p := must.Get(plan.New(testplan.Config(t, testplan.Repository(t), text, nil, set)))(t)
		misconfigured(t, run.Prepare(context.Background(), p, run.Options{Out: t.TempDir()}), words)
	}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// A network that draws random numbers gives the same in any batch and shard: its verdicts are about the most frequent
// class of many passes, and votes count these passes.
func TestVotes(t *testing.T) {
	noisy := planted(t, "noisy", noise, unchanged)
	dropped := planted(t, "dropped", unchanged, func(b *onnx.Builder, z string) string { // in training mode
		on := b.Const(&onnx.Tensor{DType: onnx.Bool, Shape: onnx.Shape{}, Ints: []int64{1}})
		return b.Op("Dropout", z, b.Float(0.5), on)
	})
	text := strings.Replace(testplan.Bundled, "\n  other:", fmt.Sprintf("\n  noisy: {path: %s, votes: 40}\n"+
		"  dropped: {path: %s, votes: 15}\n  other:", noisy, dropped), 1) + `
controls:
  heal: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]}
attacks:
  apgd: {kind: apgd-ce, norm: linf, epsilon: 8/255, steps: 5}
  square: {kind: square, norm: linf, epsilon: 8/255, queries: 20}
  smooth: {kind: smoothing, norm: l2, epsilon: 0.05, sigma: 0.1, n0: 10, n: 30, alpha: 0.05}
  crown: {kind: bounds, norm: linf, epsilon: 1/255}
default_suites: [random]
suites:
  random: {dataset: test, models: [noisy, dropped], attacks: [apgd, square, smooth]}
  healed: {dataset: test, models: [noisy], controls: [heal], attacks: [apgd], mode: oblivious}
`
	const few = "datasets.test.limit=4"
	p := testplan.Plan(t, text, 2, 8, few)
	f, records, out := runFor(t, p)
	sameAnywhere(t, p, testplan.Plan(t, text, 1, 3, few), out)
	must.Have(t, must.Get(forecast.Describe(testplan.Plan(t, text, 2, 8, "suites.random.models=[noisy]"), nil, nil))(t),
		"apgd-ce/1, linf, epsilon 8/255: at most 840 forward, 840 backward\n", // 6 gradients of 20 passes of 7 images
		"smoothing/1, l2, epsilon 0.05: 280 forward for each defense\n")       // a pass a sample
	unsure := 0
	for _, c := range f.Cells {
		if f.Attacks[c.Attack].Proves() {
			continue
		}
		passes := map[string]int{"noisy": 40, "dropped": 15}[c.Model]
		sum := 0
		for _, r := range records {
			if r.Model != c.Model || r.Attack != c.Attack {
				continue
			}
			sum += *r.Votes
			if *r.Votes > 0 && *r.Votes < passes {
				unsure++
			}
			if 2**r.Votes > passes && r.Verdict != 1 || *r.Votes == 0 && r.Verdict == 1 || *r.Votes > passes {
				t.Errorf("%s, %s: %d votes of %d, verdict %d", c.Model, c.Attack, *r.Votes, passes, r.Verdict)
			}
		}
		expected := float64(sum) / float64(passes*c.N)
		if v := c.Votes; v == nil || v.Passes != passes || math.Abs(v.Expected-expected) > 1e-9 ||
			!(v.CI95[0] <= expected && expected <= v.CI95[1]) || v.Undecided > c.N ||
			slices.ContainsFunc(c.Warnings, func(w result.Warning) bool {
				return w.ID != result.WarnClaimRefuted.ID && w.ID != result.WarnPreprocessing.ID // on 7 images
			}) {
			t.Errorf("%s, %s: %+v, expected %g, warnings %v", c.Model, c.Attack, c.Votes, expected, c.Warnings)
		}
		for _, s := range c.Steps { // each question of an attack takes so many passes
			if each := int64(min(passes, 20)); s.Forward%each != 0 || s.Backward%each != 0 {
				t.Errorf("%s, %s: %d and %d passes", c.Model, c.Attack, s.Forward, s.Backward)
			}
		}
	}
	if unsure == 0 {
		t.Error("nothing was random")
	}
	for set, words := range map[string]string{
		"models.robust.votes=9":         "votes are for networks that draw at random, and this one does not",
		"suites.random.attacks=[crown]": "no bounds for a network that draws at random",
		"default_suites=[healed]": "model noisy draws at random (votes), and control heal is for networks that do " +
			"not",
	} {
		p := must.Get(plan.New(testplan.Config(t, testplan.Repository(t), text, nil, set,
			"suites.random.models=[robust, noisy]")))(t)
		misconfigured(t, run.Prepare(context.Background(), p, run.Options{Out: t.TempDir()}), words)
	}
}

// The confidence of a network that draws at random is the fraction of its passes, 1 if all agree: float32's sum of
// twenty shares is above 1.
func TestConfidenceOfVotes(t *testing.T) {
	testinput.Runtime(t)
	folder := config.Folder(filepath.Join(testinput.Root(t), "harness", "testdata", "configs"))
	text := string(must.Get(os.ReadFile(folder.Path("labels.yaml")))(t))
	cfg := testplan.Config(t, folder, text, []string{"drawn"})
	cfg.Suites[0].Attacks = nil
	_, records, _ := runFor(t, must.Get(plan.New(cfg))(t))
	sure := 0
	for _, r := range records {
		if passes := r.Confidence * 20; passes != math.Round(passes) {
			t.Errorf("image %d: confidence %v is no share of 20 passes", r.Image, r.Confidence)
		}
		if r.Confidence == 1 {
			sure++
		}
	}
	if sure == 0 {
		t.Error("on no image all passes agree")
	}
}
