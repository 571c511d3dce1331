package gradtest_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// byParameters returns the gradient graph of a network by some of its constants, as sums over the batch. Its inputs are
// x, the cotangent of the output and the constants, which keep their names; its outputs are the output, the gradient by
// each constant and by x.
func byParameters(net *onnx.Graph, names ...string) (*onnx.Graph, error) {
	open := net.Clone()
	b := &onnx.Builder{G: onnx.NewGraph(net.Name + "/parameters")}
	x, w := b.Input("x", net.Inputs[0].Shape), b.Input(grad.Cotangent, net.Outputs[0].Shape)
	bind, wrt := map[string]string{net.Inputs[0].Name: x}, []string{}
	for _, name := range names {
		shape := net.Consts[name].Shape
		delete(open.Consts, name)
		open.Inputs = append(open.Inputs, onnx.Value{Name: name, DType: onnx.Float, Shape: shape})
		bind[name] = b.Input(name, shape)
		wrt = append(wrt, bind[name])
	}
	y := b.Inline(open, bind)[net.Outputs[0].Name]
	g, err := grad.Backward(b, map[string]string{y: w}, append(wrt, x))
	if err != nil {
		return nil, err
	}
	b.Output("out/y", y)
	for _, p := range append(wrt, x) {
		b.Output("out/"+p, g[p])
	}
	b.G.Prune()
	return b.G, b.Err()
}

// names lists the parameters, without x.
func (g *Golden) names() (names []string) {
	for _, p := range g.Parameters[1:] {
		names = append(names, p.Name)
	}
	return names
}

// inputs returns x, the cotangent of y and the parameters, in the order of the graph that [byParameters] makes.
func (g *Golden) inputs() []ort.Tensor {
	in := []ort.Tensor{{Shape: g.Shape, Data: g.X}, {Shape: concrete(g.Net.Outputs[0].Shape, g.Items()), Data: g.W}}
	for _, name := range g.names() {
		t := g.Net.Consts[name]
		in = append(in, ort.Tensor{Shape: t.Shape, Data: t.Floats})
	}
	return in
}

// concrete puts a batch size into a shape.
func concrete(s onnx.Shape, batch int) []int64 {
	out := slices.Clone(s)
	if i := slices.Index(out, onnx.Batch); i >= 0 {
		out[i] = int64(batch)
	}
	return out
}

func loadTrained(t *testing.T) []*Golden {
	t.Helper()
	return must.Get(load(filepath.Join("testdata", "parameters")))(t)
}

// graph returns the golden's gradient graph by x and all parameters.
func (g *Golden) graph(t *testing.T) *onnx.Graph {
	t.Helper()
	return must.Get(byParameters(g.Net, g.names()...))(t)
}

func open(t *testing.T, g *onnx.Graph) *ort.Session {
	t.Helper()
	s := must.Get(ort.Open(g.Name, must.Get(g.Encode())(t)))(t)
	t.Cleanup(s.Close)
	return s
}

func values(t *testing.T, s *ort.Session, in []ort.Tensor) [][]float32 {
	t.Helper()
	out := must.Get(s.Run(in))(t)
	v := make([][]float32, len(out))
	for i := range out {
		v[i] = out[i].Data
	}
	return v
}

// xFirst turns the outputs' order, parameters and then x, into that of
// [Golden.Parameters] and of the inputs without the cotangent.
func xFirst(gradients [][]float32) [][]float32 {
	last := len(gradients) - 1
	return append([][]float32{gradients[last]}, gradients[:last]...)
}

// Gradients with respect to parameters agree with PyTorch's.
func TestParameterGoldens(t *testing.T) {
	const tolerance = 5e-6
	for _, g := range loadTrained(t) {
		t.Run(g.Name, func(t *testing.T) {
			out := values(t, open(t, g.graph(t)), g.inputs())
			if e := worst(out[0], g.Y); !(e <= tolerance) {
				t.Errorf("y is off by %.2g", e)
			}
			for i, d := range xFirst(out[1:]) {
				p := g.Parameters[i]
				if len(d) != len(p.Gradient) {
					t.Fatalf("the gradient of %q has %d values, not %d", p.Name, len(d), len(p.Gradient))
				}
				if e := worst(d, p.Gradient); !(e <= tolerance) {
					t.Errorf("the gradient of %q is off by %.2g\n got %v\nwant %v", p.Name, e, d, p.Gradient)
				}
			}
		})
	}
}

// vary returns f as a function of x and the parameters, with the cotangent fixed.
func vary(s *ort.Session, in []ort.Tensor, f func(out []ort.Tensor) float64) func([][]float32) (float64, error) {
	return func(at [][]float32) (float64, error) {
		moved := slices.Clone(in)
		moved[0].Data = at[0]
		for i, v := range at[1:] {
			moved[i+2].Data = v
		}
		out, err := s.Run(moved)
		if err != nil {
			return 0, err
		}
		return f(out), nil
	}
}

// compare checks a gradient by x and every parameter with differences of f, one argument at a time.
func compare(t *testing.T, g *Golden, f func([][]float32) (float64, error), gradient [][]float32, purpose string) {
	t.Helper()
	at := [][]float32{g.X}
	for _, in := range g.inputs()[2:] {
		at = append(at, in.Data)
	}
	r := gradtest.Rand(g.Name, purpose)
	for i := range at {
		only := make([][]float32, len(at))
		only[i] = gradient[i]
		e := must.Get(gradtest.Directional(f, at, only, r, 3))(t)
		if !(e <= gradtest.Tolerance) {
			t.Errorf("%q: the difference quotient is off by %.2g of the gradient's norm", g.Parameters[i].Name, e)
		}
	}
}

// Gradients with respect to parameters agree with differences of Σ w·y.
func TestParameterDirectional(t *testing.T) {
	for _, g := range loadTrained(t) {
		t.Run(g.Name, func(t *testing.T) {
			s := open(t, g.graph(t))
			f := vary(s, g.inputs(), func(out []ort.Tensor) float64 { return dot(g.W, out[0].Data) })
			compare(t, g, f, xFirst(values(t, s, g.inputs())[1:]), "parameters")
		})
	}
}

// They can be differentiated again, by x and by the parameters, and agree with PyTorch's double backward and with
// differences.
func TestParameterSecondDerivative(t *testing.T) {
	const tolerance = 1e-5
	for _, g := range loadTrained(t) {
		t.Run(g.Name, func(t *testing.T) {
			first := g.graph(t)
			b := &onnx.Builder{G: onnx.NewGraph(g.Name + "/second")}
			bind, wrt := map[string]string{}, []string{}
			for i, in := range first.Inputs {
				bind[in.Name] = b.Input(in.Name, in.Shape)
				if i != 1 {
					wrt = append(wrt, bind[in.Name])
				}
			}
			out := b.Inline(first, bind)
			seeds, in := map[string]string{}, g.inputs()
			for i, o := range append(first.Outputs[len(first.Outputs)-1:], first.Outputs[1:len(first.Outputs)-1]...) {
				seeds[out[o.Name]] = b.Input(fmt.Sprint("v/", i), o.Shape)
				in = append(in, ort.Tensor{Shape: concrete(o.Shape, g.Items()), Data: g.Parameters[i].V})
			}
			// A value that does not depend on an argument, a bias mostly, has no gradient by it.
			var depends []int
			var gradients []string
			for i, w := range wrt {
				if allZero(g.Parameters[i].H) {
					continue
				}
				gs := must.Get(grad.Backward(b, seeds, []string{w}))(t)
				depends, gradients = append(depends, i), append(gradients, gs[w])
			}
			if len(depends) == 0 {
				t.Fatal("no second derivative at all")
			}
			for i, d := range gradients {
				b.Output(fmt.Sprint("second/", i), d)
			}
			for i, o := range first.Outputs[1:] {
				b.Output(fmt.Sprint("first/", i), out[o.Name])
			}
			must.Do(t, b.Err())
			s := open(t, b.G)
			got, h := values(t, s, in), make([][]float32, len(wrt))
			for i := range wrt {
				h[i] = make([]float32, len(g.Parameters[i].H))
			}
			for k, i := range depends {
				h[i] = got[k]
				if e := worst(got[k], g.Parameters[i].H); !(e <= tolerance) {
					t.Errorf("by %q: off by %.2g\n got %v\nwant %v", g.Parameters[i].Name, e, got[k], g.Parameters[i].H)
				}
			}
			f := vary(s, in, func(out []ort.Tensor) float64 {
				sum := 0.0
				d := make([][]float32, len(wrt))
				for i := range d {
					d[i] = out[len(depends)+i].Data
				}
				for i, v := range xFirst(d) {
					sum += dot(g.Parameters[i].V, v)
				}
				return sum
			})
			compare(t, g, f, h, "parameters again")
		})
	}
}

func allZero(v []float32) bool {
	return !slices.ContainsFunc(v, func(x float32) bool { return x != 0 })
}

// Every rule that gives gradients by parameters has a golden for each of them.
func TestParametersComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range loadTrained(t) {
		for _, n := range g.Net.Nodes {
			for i, in := range n.Inputs {
				if slices.Contains(g.names(), in) {
					seen[fmt.Sprint(n.Op, " ", i)] = true
				}
			}
		}
	}
	for _, op := range onnx.Operators() {
		for _, i := range onnx.TraitsOf(op).Parameters {
			if !seen[fmt.Sprint(op, " ", i)] {
				t.Errorf("no golden for %s by parameter %d: add a case to scripts/goldens/parameters.py", op, i)
			}
		}
	}
}
