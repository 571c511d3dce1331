// Package crosscheck runs a model on a second engine that shares no code with ONNX Runtime: onnx-go, in pure Go.
// [Logits] runs a model on one item, and [Compare] measures the difference to ONNX Runtime's answer. The engine is slow
// and knows few operators, in old forms. Logits refuses a model that the engine would compute wrong; for all others the
// two engines should agree up to rounding.
package crosscheck

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	engine "github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"
	"gorgonia.org/tensor"

	"selfheal/models/onnx"
)

// one lets one model run at a time: onnx-go numbers its nodes with a global counter.
var one sync.Mutex

// Logits runs a model file's own bytes on one item and returns the first output, flat. x is row-major with the given
// shape, including the batch dimension of 1: [1 C H W]. An error names the engine, and all that it is known to lack.
func Logits(model []byte, x []float32, shape []int64) ([]float32, error) {
	g, err := onnx.Decode(model)
	if err != nil {
		return nil, err
	}
	r := &readers{g, g.Producers(), g.Consumers()}
	if lacks := r.unsupported(); len(lacks) > 0 {
		return nil, fmt.Errorf("onnx-go lacks %s", strings.Join(strings.Fields(strings.Join(lacks, ", ")), " "))
	}
	if len(g.Inputs) != 1 {
		return nil, fmt.Errorf("the model has %d inputs, an image classifier has one", len(g.Inputs))
	}
	dims, err := dimensions(g.Inputs[0], len(x), shape)
	if err != nil {
		return nil, err
	}
	x = slices.Clone(x) // the engine may write over it
	if r.overwrites() {
		// It does so only for a batch of one: run the item twice, side by side.
		x, dims[0] = append(x, x...), 2
	}
	one.Lock()
	defer one.Unlock()
	out, err := run(model, x, dims)
	if err != nil {
		return nil, fmt.Errorf("onnx-go fails: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	return out[:len(out)/dims[0]], nil
}

// dimensions checks the item against the model's input; the engine itself would multiply matrices that do not fit.
func dimensions(in onnx.Value, size int, shape []int64) ([]int, error) {
	if len(shape) == 0 || shape[0] != 1 || onnx.Shape(shape).Items() != int64(size) {
		return nil, fmt.Errorf("%d values for one item of shape %v", size, shape)
	}
	known := func(want, d int64) bool { return d == want || want < 0 }
	if len(in.Shape) == 0 || !slices.EqualFunc(in.Shape[1:], shape[1:], known) {
		return nil, fmt.Errorf("an item of shape %v for input %q of shape %v", shape, in.Name, in.Shape)
	}
	return onnx.Each(shape, func(d int64) int { return int(d) }), nil
}

// run decodes and evaluates on onnx-go, which panics on some graphs.
func run(model []byte, x []float32, shape []int) (out []float32, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("it panics: %v", r)
		}
	}()
	backend := gorgonnx.NewGraph()
	m := engine.NewModel(backend)
	if err := m.UnmarshalBinary(model); err != nil {
		return nil, err
	}
	if len(m.Input) != 1 || len(m.Output) == 0 {
		return nil, fmt.Errorf("it sees %d inputs and %d outputs", len(m.Input), len(m.Output))
	}
	// Model.SetInput takes its argument as a node's number.
	in, ok := backend.Node(m.Input[0]).(engine.DataCarrier)
	if !ok {
		return nil, errors.New("its input takes no tensor")
	}
	if err := in.SetTensor(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))); err != nil {
		return nil, err
	}
	if err := backend.Run(); err != nil {
		return nil, err
	}
	outputs, err := m.GetOutputTensors()
	if err != nil {
		return nil, err
	}
	switch data := outputs[0].Data().(type) {
	case []float32:
		return data, nil
	case float32:
		return []float32{data}, nil
	}
	return nil, fmt.Errorf("it gives %T, not float32 values", outputs[0].Data())
}

// Compare returns the largest difference between a and b as a fraction of the largest absolute value in them: 0 if they
// are equal, +Inf if their lengths differ or one is not finite.
func Compare(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var diff, scale float64
	for i := range a {
		p, q := float64(a[i]), float64(b[i])
		diff = math.Max(diff, math.Abs(p-q))
		scale = math.Max(scale, math.Max(math.Abs(p), math.Abs(q)))
	}
	switch {
	case math.IsNaN(diff) || math.IsInf(scale, 0):
		return math.Inf(1)
	case diff == 0:
		return 0
	}
	return diff / scale
}

// operators are computed by the engine as ONNX defines them; the tests compare each with ONNX Runtime. Constant is
// absent: the engine takes constants that print alike for equal.
var operators = []string{"Abs", "Add", "BatchNormalization", "Conv", "Div", "Exp", "Flatten", "Gemm",
	"GlobalAveragePool", "Identity", "LeakyRelu", "Log", "MatMul", "MaxPool", "Mul", "Neg", "Relu", "Reshape",
	"Sigmoid", "Softmax", "Sqrt", "Sub", "Tanh", "Transpose"}

// readers knows the writers and readers of a graph's tensors.
type readers struct {
	g         *onnx.Graph
	producers map[string]*onnx.Node
	consumers map[string][]*onnx.Node
}

// unsupported lists what the engine lacks for a graph, sorted.
func (r *readers) unsupported() []string {
	lacks := map[string]bool{}
	for _, n := range r.g.Nodes {
		if form := r.lacking(n); form != "" {
			lacks[strings.TrimPrefix(n.Domain+".", ".")+n.Op+strings.TrimPrefix(" "+form, " any")] = true
		}
	}
	if out := r.g.Outputs[0].Name; len(r.consumers[out]) > 0 {
		lacks["an output that other nodes read"] = true // the engine leaves it unset
	}
	return slices.Sorted(maps.Keys(lacks))
}

// overwrites reports whether a BatchNormalization may write over a tensor that another node still needs: on a batch of
// one the engine computes it in place, and other operators pass their input's memory on.
func (r *readers) overwrites() bool {
	return slices.ContainsFunc(r.g.Nodes, func(n *onnx.Node) bool {
		if n.Op != "BatchNormalization" {
			return false
		}
		from := r.producers[n.Input(0)]
		return from == nil || from.Op != "Conv" || len(r.consumers[n.Input(0)]) > 1
	})
}

// lacking names the form of a node's operator if the engine would silently compute it wrong: "any" for all forms, "" if
// the engine is right. Forms that the engine itself refuses are not listed.
func (r *readers) lacking(n *onnx.Node) string {
	window := n.Op == "Conv" || n.Op == "MaxPool"
	constant, pads, auto := r.g.Consts[n.Input(1)], n.Ints("pads", nil), n.Str("auto_pad", "NOTSET")
	switch from := r.producers[n.Input(0)]; {
	case n.Domain != "" || !slices.Contains(operators, n.Op):
		return "any"
	case slices.Contains([]string{"Add", "Sub", "Mul", "Div", "MatMul"}, n.Op) && n.Input(0) == n.Input(1):
		return "of a tensor with itself"
	case n.Op == "Conv" && n.Int("group", 1) != 1:
		return fmt.Sprintf("with group %d", n.Int("group", 1))
	case window && len(n.Ints("kernel_shape", nil)) != 2:
		return "without a kernel_shape of two dimensions"
	case window && auto != "NOTSET":
		return "with auto_pad " + auto
	case window && len(slices.Compact(slices.Clone(pads))) > 1: // it takes them in another order than ONNX's
		return fmt.Sprintf("with pads %v", pads)
	case n.Op == "Flatten" && n.Axis() < 0:
		return fmt.Sprintf("with axis %d", n.Axis())
	case n.Op == "Gemm" && n.Input(2) == "": // which it needs
		return "without a bias"
	case n.Op == "Gemm" && len(r.consumers[n.Input(2)]) > 1: // its register takes the result
		return "with a shared bias"
	case n.Op == "Identity" && r.g.Consts[n.Input(0)] != nil:
		return "of a constant"
	case n.Op == "Reshape" && constant == nil:
		return "to a computed shape"
	case n.Op == "Reshape" && slices.Contains(constant.Ints, -1):
		return fmt.Sprintf("to %v", constant.Ints)
	case n.Op == "Softmax" && (max(n.Int("axis", 1), -n.Int("axis", 1)) != 1 || from == nil || from.Op != "Gemm"):
		return "other than over the classes after Gemm" // it normalises the last dimension of a matrix
	}
	return ""
}
