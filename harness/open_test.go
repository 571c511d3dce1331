package harness_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
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

	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	pb "selfheal/models/onnx/onnxpb"
)

// A network with its weights in another file, some of them as float64, scores as
// the bundled one; its SHA-256 covers both files, and each of its cells says
// that it was converted.
func TestExternalWeights(t *testing.T) {
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

// The names that a config gives the classes stand in the results, by label; without names
// there are none.
func TestClassNames(t *testing.T) {
	names := strings.Fields("disc square triangle cross ring bar star dot wave grid")
	for _, sets := range [][]string{nil, {"datasets.test.classes=[" + strings.Join(names, ", ") + "]"}} {
		o := openerOf(t, testplan.Plan(t, testplan.Small, 1, 1, sets...).Config)
		must.Get(o.Scored("test"))(t)
		want := names
		if sets == nil {
			want = nil
		}
		if got := o.Record.Datasets["test"].ClassNames; !slices.Equal(got, want) {
			t.Errorf("with %q the classes are called %q", sets, got)
		}
	}
}

// What a suite names as published reaches results.json, under the names of its cells.
func TestPublishedReachesResults(t *testing.T) {
	text := testplan.Bundled + `
attacks: {fgsm: {kind: fgsm, norm: linf, epsilon: 2/255}}
suites:
  s: {dataset: test, models: [robust], attacks: [fgsm], published: {robust: {none: [94.71], fgsm: [12.5]}}}
`
	file, _, out := runFor(t, testplan.Plan(t, text, 1, 4))
	want := &result.Published{Source: "config", Cells: []result.PublishedCell{
		{Model: "robust", Defense: "none", Attack: "none", Accuracy: 0.9471},
		{Model: "robust", Defense: "none", Attack: "fgsm", Norm: new("linf"), Epsilon: new(2. / 255), Accuracy: 0.125},
	}}
	if !reflect.DeepEqual(file.Suites[0].Published, want) {
		t.Errorf("published %+v", file.Suites[0].Published)
	}
	read := must.Get(result.Read(filepath.Join(out, "results.json")))(t)
	if !reflect.DeepEqual(read.Suites, file.Suites) {
		t.Errorf("results.json has %+v", read.Suites)
	}
	cell, number := read.Cells[1], read.Suites[0].Published.Cells[1]
	if cell.Attack != number.Attack || *cell.Epsilon != *number.Epsilon { // bit for bit: reports look it up
		t.Errorf("the cell is %s at %v, its number %s at %v", cell.Attack, *cell.Epsilon, number.Attack,
			*number.Epsilon)
	}
}
