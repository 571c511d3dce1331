package harness

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
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
	sum := sha256.Sum256(slices.Concat(model, weights))
	hash := hex.EncodeToString(sum[:])

	text := strings.Replace(small, "models:\n", "models:\n  external: {path: "+filepath.Join(dir,
		"m.onnx")+", sha256: "+hash+"}\n", 1)
	p := plan(t, text, 1, 8, "suites.small.models=[robust, external]", "suites.small.attacks=[pgd-l2]",
		"suites.small.controls=[auto-encoder]")
	f, _, _ := runFor(t, p)
	if got := f.Models["external"].SHA256; got != hash {
		t.Errorf("SHA-256 %s, want %s", got, hash)
	}
	verdicts := map[string]string{}
	for _, c := range f.Cells {
		verdicts[c.Model] += c.Verdicts + " "
		converted := len(c.Warnings) > 0 && c.Warnings[0].ID == "converted" && strings.Contains(c.Warnings[0].Message,
			"float64")
		if converted != (c.Model == "external") {
			t.Errorf("%s, %s: warnings %v", c.Model, c.Defense, c.Warnings)
		}
	}
	if verdicts["robust"] == "" || verdicts["robust"] != verdicts["external"] {
		t.Errorf("verdicts differ: %v", verdicts)
	}

	must.Do(t, os.Remove(filepath.Join(dir, "w.bin")))
	_, _, err := Run(context.Background(), p, quiet(t.TempDir()))
	if err == nil || !strings.Contains(err.Error(), `"w.bin": no such file`) {
		t.Errorf("without the weights: %v", err)
	}
}
