// Package crosscheck runs a model on a second engine that shares no code with ONNX Runtime: onnx-go, in pure Go. It
// knows few operators and old forms of them, and it is slow; where it runs a model, it says whether ONNX Runtime
// computes the same.
package crosscheck

import (
	"cmp"
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

// ErrUnsupported lists the operators that a model needs and the second engine lacks, as "Pad" or "Conv with group 4".
type ErrUnsupported []string

func (e ErrUnsupported) Error() string { return "the second engine does not run " + e.List() }

// List is the operators on one line.
func (e ErrUnsupported) List() string {
	return strings.Join(strings.Fields(strings.Join(e, ", ")), " ")
}

// one lets one model run at a time: onnx-go numbers its nodes with a global counter.
var one sync.Mutex

// Logits runs a model file's own bytes on one item and returns the first output, flat. x is row-major with the given
// shape, the batch dimension of 1 included: [1 C H W]. The error is an [ErrUnsupported] where the engine is known to
// lack something, and names the engine where it fails otherwise.
func Logits(model []byte, x []float32, shape []int64) ([]float32, error) {
	g, err := onnx.Decode(model)
	if err != nil {
		return nil, err
	}
	r := &readers{g, g.Producers(), g.Consumers()}
	if lacks := r.unsupported(); len(lacks) > 0 {
		return nil, ErrUnsupported(lacks)
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
		// Only with a batch of one: let the item run twice, side by side.
		x, dims[0] = append(x, x...), 2
	}
	one.Lock()
	defer one.Unlock()
	out, err := run(model, x, dims)
	var lacks *engine.ErrNotImplemented
	if errors.As(err, &lacks) {
		return nil, ErrUnsupported{reason(lacks)}
	}
	if err != nil {
		return nil, fmt.Errorf("the second engine (onnx-go) fails: %w", err)
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
	// Model.SetInput takes its argument for a node's number.
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

// reason shortens the engine's message to one entry of a list.
func reason(e *engine.ErrNotImplemented) string {
	switch {
	case e.AttributeName != "":
		return fmt.Sprintf("%s with %s %v", e.Operator, e.AttributeName, e.AttributeValue)
	case e.Message != "":
		return fmt.Sprintf("%s (%s)", e.Operator, e.Message)
	}
	return e.Operator
}

// Compare returns the largest difference between a and b as a share of the largest absolute value in them: 0 when they
// are equal, +Inf when their lengths differ or one is not finite.
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

// limit says which form of its operator a node is that the engine lacks, or "".
type limit func(r *readers, n *onnx.Node) string

// operators are those that the engine runs as ONNX defines them; the tests compare each with ONNX Runtime. A limit
// names the forms that the engine would compute wrong without a word; those that it refuses are left to it. Constant is
// absent: the engine takes constants that print alike for equal.
var operators = map[string]limit{
	"Abs": nil, "Add": distinct, "BatchNormalization": nil, "Conv": conv, "Div": distinct, "Exp": nil,
	"Flatten": flatten, "Gemm": gemm, "GlobalAveragePool": nil, "Identity": identity, "LeakyRelu": nil,
	"Log": nil, "MatMul": distinct, "MaxPool": window, "Mul": distinct, "Neg": nil, "Relu": nil,
	"Reshape": reshape, "Sigmoid": nil, "Softmax": softmax, "Sqrt": nil, "Sub": distinct, "Tanh": nil, "Transpose": nil,
}

// readers knows who writes and who reads a graph's tensors.
type readers struct {
	g         *onnx.Graph
	producers map[string]*onnx.Node
	consumers map[string][]*onnx.Node
}

// unsupported lists what the engine lacks for a graph, sorted.
func (r *readers) unsupported() []string {
	lacks := map[string]bool{}
	for _, n := range r.g.Nodes {
		check, known := operators[n.Op]
		switch {
		case n.Domain != "":
			lacks[n.Domain+"."+n.Op] = true
		case !known:
			lacks[n.Op] = true
		case check != nil:
			if form := check(r, n); form != "" {
				lacks[n.Op+" "+form] = true
			}
		}
	}
	if out := r.g.Outputs[0].Name; len(r.consumers[out]) > 0 {
		lacks["an output that other nodes read"] = true // it is left unset
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

// when is a form where something holds.
func when(holds bool, form string, args ...any) string {
	if holds {
		return fmt.Sprintf(form, args...)
	}
	return ""
}

func distinct(_ *readers, n *onnx.Node) string {
	return when(n.Input(0) == n.Input(1), "of a tensor with itself")
}

func conv(r *readers, n *onnx.Node) string {
	group := n.Int("group", 1)
	return cmp.Or(when(group != 1, "with group %d", group), window(r, n))
}

// window is for operators with a kernel: pads are taken in another order than ONNX's, so they must be equal.
func window(_ *readers, n *onnx.Node) string {
	pads, auto := n.Ints("pads", nil), n.Str("auto_pad", "NOTSET")
	return cmp.Or(
		when(len(n.Ints("kernel_shape", nil)) != 2, "without a kernel_shape of two dimensions"),
		when(auto != "NOTSET", "with auto_pad %s", auto),
		when(len(slices.Compact(slices.Clone(pads))) > 1, "with pads %v", pads))
}

func flatten(_ *readers, n *onnx.Node) string {
	return when(n.Int("axis", 1) < 0, "with axis %d", n.Int("axis", 1))
}

// gemm: the engine needs the bias, and its register takes the result.
func gemm(r *readers, n *onnx.Node) string {
	c := n.Input(2)
	return cmp.Or(when(c == "", "without a bias"), when(len(r.consumers[c]) > 1, "with a shared bias"))
}

func identity(r *readers, n *onnx.Node) string {
	return when(r.g.Consts[n.Input(0)] != nil, "of a constant")
}

func reshape(r *readers, n *onnx.Node) string {
	c := r.g.Consts[n.Input(1)]
	if c == nil {
		return "to a computed shape"
	}
	return when(slices.Contains(c.Ints, -1), "to %v", c.Ints)
}

// softmax: the engine normalises the last dimension of a matrix.
func softmax(r *readers, n *onnx.Node) string {
	from, a := r.producers[n.Input(0)], n.Int("axis", 1)
	return when((a != 1 && a != -1) || from == nil || from.Op != "Gemm", "other than over the classes after Gemm")
}
