package heads

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// The margins of heads and their gradients are PyTorch's.
func TestGolden(t *testing.T) {
	testinput.Runtime(t)
	var file struct {
		Cases []struct {
			Task     Task
			Shape    []int64
			Measures map[string]float64
			Answers  []struct {
				Answer, Truth, Gradient []float32
				Margin                  float64
			}
		}
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/tasks.json"))(t), &file))
	for _, c := range file.Cases {
		var parts [][]Part
		for i, a := range c.Answers {
			h := must.Get(c.Task.Head(append(onnx.Shape{onnx.Batch}, c.Shape...)))(t)
			if h.Measure != nil {
				y := onnx.Each(a.Answer, func(v float32) float64 { return float64(v) })
				parts = append(parts, h.Measure(y, a.Truth))
			}
			if h.Truth != len(a.Truth) {
				t.Fatalf("%s: %d truths", c.Task.Kind, h.Truth)
			}
			if got := margin(t, h, a.Answer, a.Truth); math.Abs(got-a.Margin) > 1e-5*(1+math.Abs(a.Margin)) {
				t.Errorf("%+v, answer %d: margin %v, not %v", c.Task, i, got, a.Margin)
			}
			got := slopes(t, h, a.Answer, a.Truth)[:len(a.Answer)]
			for j, g := range got {
				if math.Abs(float64(g-a.Gradient[j])) > 1e-4*(1+math.Abs(float64(g))) {
					t.Errorf("%+v, answer %d: gradient %v, not %v", c.Task, i, got, a.Gradient)
					break
				}
			}
		}
		names, values := Over(c.Task.Kind, parts)
		if len(names) != len(c.Measures) {
			t.Errorf("%+v: measures %v, not %v", c.Task, names, c.Measures)
		}
		for k, name := range names {
			if want, ok := c.Measures[name]; !ok || math.Abs(values[k]-want) > 1e-6 {
				t.Errorf("%+v: %s is %v, not %v", c.Task, name, values[k], want)
			}
		}
	}
}

// Equal scores are the lower class's, and what equals a threshold does not pass it, in verdicts as in measures.
func TestTies(t *testing.T) {
	testinput.Runtime(t)
	pixels := Settings{Kind: Segmentation, Bar: 1, Ignored: 255}
	labels := Settings{Kind: MultiLabel, Threshold: 0.25}
	pair := func(metric string, threshold float64) Settings {
		return Settings{Kind: Verification, Metric: metric, Threshold: threshold}
	}
	for _, c := range []struct {
		of            Settings
		shape         onnx.Shape
		answer, truth []float32
		right         bool
	}{
		{pixels, onnx.Shape{onnx.Batch, 3, 1, 1}, []float32{0, 2, 2}, []float32{1}, true},
		{pixels, onnx.Shape{onnx.Batch, 3, 1, 1}, []float32{0, 2, 2}, []float32{2}, false},
		{pixels, onnx.Shape{onnx.Batch, 1, 1, 1}, []float32{0}, []float32{0}, true},
		{pixels, onnx.Shape{onnx.Batch, 1, 1, 1}, []float32{0}, []float32{1}, false},
		{pixels, onnx.Shape{onnx.Batch, 1, 2}, []float32{1, -1}, []float32{1, 0}, true}, // without an axis of classes
		{pixels, onnx.Shape{onnx.Batch, 1, 2}, []float32{1, -1}, []float32{1, 1}, false},
		{labels, onnx.Shape{onnx.Batch, 1}, []float32{0.25}, []float32{0}, true},
		{labels, onnx.Shape{onnx.Batch, 1}, []float32{0.25}, []float32{1}, false},
		{pair(Cosine, 0), onnx.Shape{onnx.Batch, 2}, []float32{0, 1}, []float32{1, 0, 0}, true},
		{pair(Cosine, 0), onnx.Shape{onnx.Batch, 2}, []float32{0, 1}, []float32{1, 0, 1}, false},
		{pair(Cosine, 0.5), onnx.Shape{onnx.Batch, 2}, []float32{0, 0}, []float32{1, 0, 0}, true},
		{pair(Cosine, 0.5), onnx.Shape{onnx.Batch, 2}, []float32{0, 0}, []float32{1, 0, 1}, false},
	} {
		h := must.Get(Task{Settings: c.of}.Head(c.shape))(t)
		if got := margin(t, h, c.answer, c.truth); (got >= 0) != c.right {
			t.Errorf("%s, %v for %v: margin %v", c.of.Kind, c.answer, c.truth, got)
		}
		y := onnx.Each(c.answer, func(v float32) float64 { return float64(v) })
		part := h.Measure(y, c.truth)
		if i := slices.IndexFunc(part, func(p Part) bool { return p.Weight > 0 }); c.of.Kind == Verification {
			part[i].Value = 1 - part[i].Value // a share of wrong answers
			part[0] = part[i]
		}
		if (part[0].Value == part[0].Weight) != c.right {
			t.Errorf("%s, %v for %v: measures %v", c.of.Kind, c.answer, c.truth, part)
		}
	}
}

// An answer that is not a number is never right.
func TestNaN(t *testing.T) {
	testinput.Runtime(t)
	for _, s := range []Settings{{Kind: Regression, Tolerance: []float64{1}}, {Kind: MultiLabel}} {
		h := must.Get(Task{Settings: s}.Head(rows(2)))(t)
		for i := range 2 {
			answer := []float32{1, 1}
			answer[i] = float32(math.NaN())
			if got := margin(t, h, answer, []float32{1, 1}); got == got {
				t.Errorf("%s: margin %v of %v", s.Kind, got, answer)
			}
		}
	}
}

// Truths by which no answer can be judged are refused.
func TestJudges(t *testing.T) {
	plane, pixels := onnx.Shape{onnx.Batch, 2, 1, 2}, onnx.Shape{onnx.Batch, 1, 1, 2}
	for _, c := range []struct {
		task  Settings
		shape onnx.Shape
		truth []float32
		want  string // "" if it can
	}{
		{Settings{Kind: MultiLabel}, rows(2), []float32{-1, 1}, ""},
		{Settings{Kind: MultiLabel}, rows(2), []float32{0, 0.5}, "label 1 is 0.5"},
		{Settings{Kind: MultiLabel}, rows(2), []float32{-1, -1}, "no label counts"},
		{Settings{Kind: MultiLabel, Labels: []int{0}}, rows(2), []float32{-1, 1}, "no label counts"},
		{Settings{Kind: Segmentation, Ignored: 255}, plane, []float32{255, 1}, ""},
		{Settings{Kind: Segmentation, Ignored: 255}, plane, []float32{255, 7}, "pixel 1 is 7"},
		{Settings{Kind: Segmentation, Ignored: 255}, plane, []float32{-1, 0}, "pixel 0 is -1"},
		{Settings{Kind: Segmentation, Ignored: 255}, plane, []float32{255, 255}, "no pixel counts"},
		{Settings{Kind: Segmentation, Ignored: 255}, plane, []float32{0, 0.5}, "pixel 1 is 0.5"},
		{Settings{Kind: Verification}, rows(1), []float32{0.5, 1}, ""},
		{Settings{Kind: Verification}, rows(1), []float32{0.5, 0.5}, "its last number is 0.5"},
		{Settings{Kind: Verification}, rows(1), []float32{128, 1}, "its other image is 128"},
		{Settings{Kind: Depth, Tolerance: []float64{1}}, pixels, []float32{0, 3}, ""},
		{Settings{Kind: Depth, Tolerance: []float64{1}}, pixels, []float32{0, 0}, "no pixel counts"},
	} {
		err := must.Get(Task{Settings: c.task}.Head(c.shape))(t).Judges(c.truth)
		if c.want == "" {
			must.Do(t, err)
		} else {
			must.Refuse(t, err, c.want)
		}
	}
}

// rows is the shape of answers of so many numbers.
func rows(n int) onnx.Shape { return onnx.Shape{onnx.Batch, int64(n)} }

// margin runs a head and returns by how much right's score is above wrong's.
func margin(t *testing.T, h *Head, answer, truth []float32) float64 {
	s := must.Get(ort.OpenGraph(h.Graph))(t)
	defer s.Close()
	y := must.Get(s.Run([]ort.Tensor{{Shape: onnx.Shape{1, int64(len(answer) + len(truth))},
		Data: slices.Concat(answer, truth)}}))(t)
	return float64(y[0].Data[Right]) - float64(y[0].Data[Wrong])
}

// slopes returns the gradient of the margin.
func slopes(t *testing.T, h *Head, answer, truth []float32) []float32 {
	g := must.Get(grad.VJP(h.Graph))(t)
	s := must.Get(ort.OpenGraph(g))(t)
	defer s.Close()
	seed := make([]float32, h.Graph.Outputs[0].Shape.Items())
	seed[Right], seed[Wrong] = 1, -1
	y := must.Get(s.Run([]ort.Tensor{
		{Shape: onnx.Shape{1, int64(len(answer) + len(truth))}, Data: slices.Concat(answer, truth)},
		{Shape: onnx.Shape{1, int64(len(seed))}, Data: seed}}))(t)
	return y[1].Data
}

// A head of the user's reads the answer and then the truth, or the answer alone; what is no head is refused.
func TestOwn(t *testing.T) {
	testinput.Runtime(t)
	file := func(sizes []int64, outputs int, last int64, nodes ...string) *onnx.File {
		m := &pb.ModelProto{}
		f := onnxtest.New(17, 1, sizes[0])
		for _, n := range nodes {
			f = f.Node(n)
		}
		must.Do(t, proto.Unmarshal(f.Bytes(1, last), m))
		for i, n := range sizes[1:] {
			m.Graph.Input = append(m.Graph.Input, onnxtest.Value([]string{"t", "u"}[i], int32(onnx.Float), 1, n))
		}
		if outputs == 2 {
			m.Graph.Output = append(m.Graph.Output, onnxtest.Value("z", int32(onnx.Float), 1, last))
		}
		return &onnx.File{Data: must.Get(proto.Marshal(m))(t)}
	}
	classes := must.Get(Task{File: file([]int64{4}, 1, 4, "Neg x → y")}.Head(rows(4)))(t)
	if classes.Truth != 0 || classes.Graph.Outputs[0].Shape.Items() != 4 {
		t.Error(classes)
	}
	sum := "a=1,; ReduceSum x a → s; b=1,; ReduceSum t b → v; Sub s v → y"
	both := must.Get(Task{File: file([]int64{2, 3}, 2, 1, sum, "Mul s v → z")}.Head(rows(2)))(t)
	if got := margin(t, both, []float32{1, 2}, []float32{3, 4, 5}); both.Truth != 3 || got != -9-36 {
		t.Error(both.Truth, got)
	}
	for want, c := range map[string]struct {
		file   *onnx.File
		answer int
	}{
		"the network's answer has 3":  {file([]int64{4}, 1, 4, "Neg x → y"), 3},
		"it gives 1 numbers":          {file([]int64{4}, 1, 1, "a=1,; ReduceSum x a → y"), 4},
		"it gives 1 numbers for an":   {file([]int64{2, 3}, 1, 1, sum), 2},
		"or two, that and the truth,": {file([]int64{2, 3, 1}, 1, 1, sum), 2},
	} {
		_, err := Task{File: c.file}.Head(rows(c.answer))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A task that does not fit a network says so.
func TestCheck(t *testing.T) {
	for want, task := range map[string]Task{
		"tolerance has 3 values": {Settings: Settings{Kind: Regression, Tolerance: []float64{1, 2, 3}}},
		"period has 3 values": {
			Settings: Settings{Kind: Regression, Tolerance: []float64{1}, Period: []float64{1, 2, 3}}},
		"labels 0 to 1":  {Settings: Settings{Kind: MultiLabel, Labels: []int{2}}},
		"have 1 numbers": {Settings: Settings{Kind: ZeroShot}, Texts: [][]float32{{1}, {2}}},
		"a tolerance of 180 takes any value": {
			Settings: Settings{Kind: Regression, Tolerance: []float64{180}, Period: []float64{360}}},
		"threshold 1; it lies between -1 and 1":   {Settings: Settings{Kind: Verification, Threshold: 1}},
		"threshold 0; it lies between 0 and +Inf": {Settings: Settings{Kind: Verification, Metric: Distance}},
		"depth takes one tolerance":               {Settings: Settings{Kind: Depth, Tolerance: []float64{1, 2}}},
		"count takes one tolerance":               {Settings: Settings{Kind: Count, Tolerance: []float64{1, 2}}},
	} {
		if _, err := task.Head(rows(2)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
