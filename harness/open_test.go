package harness_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/open"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/simplify"
)

// A network with its weights in another file, some of them as float64, scores like the bundled one. Its SHA-256
// covers both files, and each of its cells says that it was converted.
func TestExternalWeights(t *testing.T) {
	testinput.NumbersAlone(t)
	testinput.Runtime(t)
	data := must.Get(os.ReadFile("../models/zoo/preact_robust.onnx"))(t)
	var m pb.ModelProto
	must.Do(t, proto.Unmarshal(data, &m))
	var weights []byte
	for _, w := range m.Graph.Initializer {
		if w.GetDataType() != 1 {
			continue
		}
		raw := w.RawData
		if len(raw) == 4*64 {
			w.DataType, raw = proto.Int32(11), nil
			for i := 0; i < len(w.RawData); i += 4 {
				v := math.Float32frombits(binary.LittleEndian.Uint32(w.RawData[i:]))
				raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(float64(v)))
			}
		}
		w.ExternalData = []*pb.StringStringEntryProto{{Key: proto.String("location"), Value: proto.String("w.bin")},
			{Key: proto.String("offset"), Value: proto.String(strconv.Itoa(len(weights)))}}
		w.DataLocation, w.RawData = pb.TensorProto_EXTERNAL.Enum(), nil
		weights = append(weights, raw...)
	}
	model := must.Get(proto.Marshal(&m))(t)
	dir := t.TempDir()
	for name, b := range map[string][]byte{"m.onnx": model, "w.bin": weights} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	hash := fmt.Sprintf("%x", sha256.Sum256(slices.Concat(model, weights)))
	p := testplan.Plan(t, testplan.Small, 1, 8, "models.other={path: "+filepath.Join(dir,
		"m.onnx")+", sha256: "+hash+"}",
		"suites.small.models=[robust, other]", "suites.small.attacks=[pgd-l2]",
		"suites.small.controls=[auto-encoder]")
	f, _, _ := runFor(t, p)
	if got := f.Models["other"].SHA256; got != hash {
		t.Errorf("SHA-256 %s, want %s", got, hash)
	}
	verdicts := map[string]string{}
	for _, c := range f.Cells {
		verdicts[c.Model] += c.Verdicts + " "
		converted := len(c.Warnings) > 0 && c.Warnings[0].ID == "converted" && strings.Contains(c.Warnings[0].Message,
			"float64")
		if converted != (c.Model == "other") {
			t.Errorf("%s, %s: warnings %v", c.Model, c.Defense, c.Warnings)
		}
	}
	if verdicts["robust"] == "" || verdicts["robust"] != verdicts["other"] {
		t.Errorf("verdicts differ: %v", verdicts)
	}

	must.Do(t, os.Remove(filepath.Join(dir, "w.bin")))
	_, err := run.Run(context.Background(), p, run.Options{Out: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), `"w.bin": no such file`) {
		t.Errorf("without the weights: %v", err)
	}
}

// Published numbers of a suite reach results.json, under the names of its cells.
func TestPublishedReachesResults(t *testing.T) {
	text := testplan.Bundled + `
attacks: {fgsm: {kind: fgsm, norm: linf, epsilon: 2/255}}
suites:
  s: {dataset: test, models: [robust], attacks: [fgsm], published: {robust: {none: [94.71], fgsm: [12.5]}}}
`
	file, _, out := runFor(t, testplan.Plan(t, text, 1, 4))
	want := &result.Published{Source: "config", Cells: []result.PublishedCell{
		{Row: cell.Row{Model: "robust", Defense: "none"}, Column: cell.Column{Attack: "none"}, Accuracy: 0.9471},
		{Row: cell.Row{Model: "robust", Defense: "none"}, Column: cell.Column{Attack: "fgsm", Epsilon: 2. / 255},
			Norm: new("linf"), Accuracy: 0.125},
	}}
	if !reflect.DeepEqual(file.Suites[0].Published, want) {
		t.Errorf("published %+v", file.Suites[0].Published)
	}
	read := must.Get(result.Read(filepath.Join(out, "results.json")))(t)
	if !reflect.DeepEqual(read.Suites, file.Suites) {
		t.Errorf("results.json has %+v", read.Suites)
	}
	cell, number := read.Cells[1], read.Suites[0].Published.Cells[1]
	if cell.Attack != number.Attack || cell.Epsilon != number.Epsilon { // bit for bit: reports look it up
		t.Errorf("the cell is %s at %v, its number %s at %v", cell.Attack, cell.Epsilon, number.Attack,
			number.Epsilon)
	}
}

// asKeras writes a network in Keras's form, channels last. With rescaling it takes values in [0,256), scales
// them itself before it moves channels to the front, and has its features as first output.
func asKeras(t *testing.T, network string, rescaling bool) (path string) {
	t.Helper()
	g, _ := must.Get2(simplify.Load(network, simplify.Options{}))(t)
	b := &onnx.Builder{G: onnx.NewGraph("keras")}
	x := b.Input("image", onnx.Shape{onnx.Batch, 32, 32, 3})
	if rescaling {
		x = b.Op("Mul", x, b.Float(1.0/256))
	}
	first := b.OpWith("Transpose", onnx.Attrs{"perm": []int64{0, 3, 1, 2}}, x)
	z := b.Inline(g, map[string]string{g.Inputs[0].Name: first})[g.Outputs[0].Name]
	if rescaling {
		b.Output("features", b.Op("Relu", z))
	}
	b.Output("scores", z)
	must.Do(t, b.Err())
	path = filepath.Join(t.TempDir(), "keras.onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	return path
}

// A network with channels last has the results of its twin with channels first, bit for bit, in every attack. An
// attack is tried in one norm, the next attack in another; with SELFHEAL_TEST_LARGE in all.
func TestChannelsLast(t *testing.T) {
	testinput.NumbersAlone(t)
	network := tiny(t, 400)
	last, rescaling := asKeras(t, network, false), asKeras(t, network, true)
	var made, names []string
	for kind, s := range attacks.Specs {
		if s.Versions != nil || s.Kind == attacks.BoundsKind || s.Kind == attacks.BracketKind {
			continue // an attack of several parts, or slack that counts the twin's further operations
		}
		norms := s.In()
		if len(norms) > 1 && !testinput.Large() {
			norms = norms[kind%len(norms):][:1]
		}
		for _, n := range norms {
			cheap := ""
			for _, p := range s.Parameters {
				switch p.Name {
				case "steps":
					cheap += ", steps: 3"
				case "queries":
					cheap += ", queries: 20"
				case "n":
					cheap += ", n: 400"
				case "restarts", "targets":
					cheap += ", " + p.Name + ": 1"
				}
			}
			strength := fmt.Sprintf(", norm: %s, epsilon: %s", n, []string{"8/255", "0.5", "12", "40"}[n])
			if attacks.Free(s.Kind) {
				strength = map[string]string{attacks.PatchKind: ", sides: 3"}[s.Kind]
			}
			names = append(names, fmt.Sprintf("a%d", len(names)))
			made = append(made, fmt.Sprintf("  %s: {kind: %s%s%s}\n", names[len(names)-1], s.Kind, strength, cheap))
		}
	}
	text := strings.Replace(testplan.Bundled, "  other:", fmt.Sprintf(`  keras: {path: %s}
  rescaling: {path: %s, preprocess: {scale: 256}, output_name: scores, layout: nhwc}
  other:`, last, rescaling), 1) + "attacks:\n" + strings.Join(made, "") + `
controls:
  healed: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]}
suites:
  twins: {dataset: test, models: [robust, keras, rescaling], controls: [healed], attacks: [` +
		strings.Join(names, ", ") + "], mode: oblivious}\n"
	f, records, _ := runFor(t, testplan.Plan(t, text, 2, 8, "datasets.test.indices=[2, 4]",
		"models.robust.path="+network, "datasets.test.path=models/zoo/shapes10/train.bin"))
	n := len(records) / 3
	for i := range n {
		for k, twin := range []string{"keras", "rescaling"} {
			other := records[(k+1)*n+i]
			if other.Model != twin {
				t.Fatalf("a record of %s", other.Model)
			}
			other.Model = "robust"
			got, want := must.Get(json.Marshal(other))(t), must.Get(json.Marshal(records[i]))(t)
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s, its twin %s", twin, got, want)
			}
		}
	}
	if !slices.ContainsFunc(records, func(r result.Record) bool { return r.FirstSuccess != nil }) {
		t.Error("no attack broke an image")
	}
	if p := f.Models["rescaling"]; p.Preprocess == nil || p.Preprocess.Scale != 256 || p.OutputName != "scores" ||
		p.Layout != simplify.ChannelsLast {
		t.Errorf("the results have %+v", p)
	}
	g, _ := must.Get2(simplify.Load(last, simplify.Options{}))(t)
	if slices.ContainsFunc(g.Nodes, func(n *onnx.Node) bool { return n.Op == "Transpose" }) {
		t.Error("Transposes that undo each other stay")
	}
}

// The config's layout, output and scale must fit the model.
func TestWrongLayout(t *testing.T) {
	testinput.Runtime(t)
	path := asKeras(t, bundled, true)
	for options, words := range map[string]string{
		"output_name: absent":       `has no output "absent"; its outputs are features, scores`,
		"layout: nchw":              "3 channels of 32×32 pixels, the model takes 32 of 3×32; save them with as many",
		"preprocess: {mean: [1,2]}": "mean has 2 values, the image 3 channels",
	} {
		text := testplan.Bundled + fmt.Sprintf("  keras: {path: %s, %s}\n", path, options) +
			"suites: {some: {dataset: test, models: [keras], attacks: []}}\n"
		p := testplan.Plan(t, text, 1, 8, "datasets.test.limit=1")
		_, err := run.Run(t.Context(), p, run.Options{Out: t.TempDir()})
		misconfigured(t, err, words)
	}
}

func TestOpenErrors(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct{ model, control, set, want string }{
		{"rubost", "", "seed=3", `no model "rubost"; did you mean "robust"?`},
		{"robust", "pac", "seed=3", `no control "pac"; did you mean "pca"?`},
		{"robust", "", "models.robust.path=absent.onnx", "absent.onnx: no such file"},
		{"robust", "auto-encoder",
			"controls.auto-encoder.layers=[{at: last, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]",
			"control auto-encoder on model robust"},
		{"robust", "pca", "datasets.train.path=absent.bin", "absent.bin does not exist"},
	} {
		cfg := testplan.Config(t, testplan.Repository(t), testplan.Small, nil, c.set)
		_, err := open.Use(context.Background(), cfg, c.model, c.control, open.Options{})
		misconfigured(t, err, c.want)
	}
	cfg := testplan.Config(t, testplan.Repository(t), testplan.Small, nil)
	u := must.Get(open.Use(t.Context(), cfg, "robust", "", open.Options{}))(t)
	t.Cleanup(u.Close)
	must.Refuse(t, u.FitsImage([3]int{3, 32, 64}), "the images have 3 channels of 64×32 pixels, "+
		"the model takes 3 of 32×32; --resize 32 --crop 32, or in a config transform: {resize: 32, crop: 32}, makes")
	for side, want := range map[int]int{32: 32, 224: 256, 384: 439} {
		if got := open.Resized(side); got != want {
			t.Errorf("images are resized to %d before the middle of %d, not %d", got, side, want)
		}
	}
}
