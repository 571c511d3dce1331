package gradtest_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"selfheal/models/grad"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

var goldens []*gradtest.Golden

func TestMain(m *testing.M) {
	err := ort.Init(context.Background(), ort.Options{Log: os.Stderr})
	if err == nil {
		goldens, err = gradtest.Load("testdata")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// each runs a test for every golden.
func each(t *testing.T, test func(t *testing.T, g *gradtest.Golden)) {
	for _, g := range goldens {
		t.Run(g.Name, func(t *testing.T) { test(t, g) })
	}
}

// program is a compiled graph whose ports have known sizes.
type program struct {
	pool *ort.Pool
	prog *ort.Program
	out  []int
}

func compile(t *testing.T, pool *ort.Pool, g *onnx.Graph) program {
	t.Helper()
	data, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	prog, err := pool.Compile(g.Name, data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prog.Close)
	p := program{pool: pool, prog: prog}
	for _, o := range g.Outputs {
		p.out = append(p.out, int(o.Shape.Items()))
	}
	return p
}

// run evaluates one item.
func (p program) run(in ...[]float32) ([][]float32, error) {
	out := make([][]float32, len(p.out))
	for i, n := range p.out {
		out[i] = make([]float32, n)
	}
	return out, p.pool.Run(context.Background(), p.prog, in, out)
}

func (p program) mustRun(t *testing.T, in ...[]float32) [][]float32 {
	t.Helper()
	out, err := p.run(in...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newPool(t *testing.T, batch int) *ort.Pool {
	pool := ort.NewPool(1, batch)
	t.Cleanup(pool.Close)
	return pool
}

// derived is the golden's gradient graph, and how to run it on one item of the golden.
func derived(t *testing.T, g *gradtest.Golden) *onnx.Graph {
	t.Helper()
	var d *onnx.Graph
	var err error
	if g.Head != "" {
		d, err = grad.Loss(g.Net, g.Head)
	} else {
		d, err = grad.VJP(g.Net)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// inputs are the derived graph's inputs beside x for item i.
func inputs(g *gradtest.Golden, i int) [][]float32 {
	if g.Head == "" {
		return [][]float32{g.Item(g.W, i)}
	}
	oneHot := func(class int) []float32 {
		v := make([]float32, g.Net.Outputs[0].Shape.Items())
		v[class] = 1
		return v
	}
	in := [][]float32{oneHot(g.Labels[i])}
	if grad.Heads[g.Head].Targeted {
		in = append(in, oneHot(g.Targets[i]))
	}
	return in
}

// worst is the largest |got − want|, relative to want's largest value or 1.
func worst(got, want []float32) float64 {
	scale, e := 1.0, 0.0
	for _, v := range want {
		scale = max(scale, math.Abs(float64(v)))
	}
	for i, v := range want {
		if d := math.Abs(float64(got[i])-float64(v)) / scale; !(d <= e) {
			e = d
		}
	}
	return e
}

// Outputs, losses and gradients agree with PyTorch's.
func TestGoldens(t *testing.T) {
	const tolerance = 3e-6
	pool, largest := newPool(t, 1), map[string]float64{}
	each(t, func(t *testing.T, g *gradtest.Golden) {
		p := compile(t, pool, derived(t, g))
		for i := range g.Items() {
			out := p.mustRun(t, append([][]float32{g.Item(g.X, i)}, inputs(g, i)...)...)
			want := [][]float32{g.Item(g.Y, i)}
			if g.Head != "" {
				want = append(want, g.Item(g.Loss, i))
			}
			want = append(want, g.Item(g.DX, i))
			for k, w := range want {
				e := worst(out[k], w)
				if k == len(want)-1 {
					largest["gradient"] = max(largest["gradient"], e)
				} else {
					largest["value"] = max(largest["value"], e)
				}
				if !(e <= tolerance) {
					t.Errorf("item %d, output %d of %d: off by %.2g\n got %v\nwant %v", i, k, len(want), e, out[k], w)
				}
			}
		}
	})
	t.Logf("%d goldens; largest error of a value %.1g, of a gradient %.1g", len(goldens), largest["value"], largest["gradient"])
}

// Gradients agree with central differences of the outputs.
func TestDirectional(t *testing.T) {
	pool, largest := newPool(t, 1), 0.0
	each(t, func(t *testing.T, g *gradtest.Golden) {
		if g.Kink {
			t.Skip("at a kink only one-sided derivatives exist")
		}
		p := compile(t, pool, derived(t, g))
		r := gradtest.Rand(g.Name, "directional")
		for i := range g.Items() {
			rest := inputs(g, i)
			if g.Head == "" { // another cotangent than the golden's
				rest = [][]float32{gradtest.Vector(r, len(rest[0]))}
			}
			x := g.Item(g.X, i)
			out := p.mustRun(t, append([][]float32{x}, rest...)...)
			f := func(in [][]float32) (float64, error) {
				out, err := p.run(append([][]float32{in[0]}, rest...)...)
				if err != nil {
					return 0, err
				}
				if g.Head != "" {
					return float64(out[1][0]), nil
				}
				return gradtest.Dot(out[0], rest[0]), nil
			}
			e, err := gradtest.Directional(f, [][]float32{x}, [][]float32{out[len(out)-1]}, r, 3)
			if err != nil {
				t.Fatal(err)
			}
			largest = max(largest, e)
			if !(e <= gradtest.Tolerance) {
				t.Errorf("item %d: the difference quotient is off by %.2g of the gradient's norm", i, e)
			}
		}
	})
	t.Logf("largest error %.1g, tolerance %.1g", largest, gradtest.Tolerance)
}

// second returns the graph of S(x, w) = Σ u·y(x) + Σ v·dx(x, w) and its
// gradients: inputs x, w, u, v; outputs dx, y, S's gradient by x and by w. For a
// head w is absent and y the loss.
func second(t *testing.T, g *gradtest.Golden) *onnx.Graph {
	t.Helper()
	first := derived(t, g)
	b := &onnx.Builder{G: onnx.NewGraph(g.Name + "/second")}
	bind, wrt := map[string]string{}, []string{}
	for i, in := range first.Inputs {
		bind[in.Name] = b.Input(in.Name, in.Shape)
		if i == 0 || g.Head == "" {
			wrt = append(wrt, bind[in.Name])
		}
	}
	value, slope := "y", "dx"
	if g.Head != "" {
		value, slope = grad.LossValue, grad.Gradient
	}
	out := b.Inline(first, bind)
	u := b.Input("u", b.Shape(out[value]))
	v := b.Input("v", b.Shape(out[slope]))
	gs, err := grad.Backward(b, map[string]string{out[value]: u, out[slope]: v}, wrt)
	if err != nil {
		t.Fatal(err)
	}
	b.Output("first/value", out[value])
	b.Output("first/slope", out[slope])
	for i, w := range wrt {
		b.Output(fmt.Sprint("second/", i), gs[w])
	}
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	b.G.Prune()
	if err := b.G.Verify(); err != nil {
		t.Fatal(err)
	}
	return b.G
}

// A gradient can be differentiated again: every rule emits operators with
// rules, and the second gradient agrees with differences of the first.
func TestSecondDerivative(t *testing.T) {
	pool, largest := newPool(t, 1), 0.0
	each(t, func(t *testing.T, g *gradtest.Golden) {
		graph := second(t, g)
		if g.Kink {
			return
		}
		p := compile(t, pool, graph)
		r := gradtest.Rand(g.Name, "second")
		for i := range g.Items() {
			in := append([][]float32{g.Item(g.X, i)}, inputs(g, i)...)
			u, v := gradtest.Vector(r, p.out[0]), gradtest.Vector(r, p.out[1])
			vary := 2 // x and w
			if g.Head != "" {
				vary = 1
			}
			all := func(in [][]float32) [][]float32 { return append(slices.Clone(in), u, v) }
			out := p.mustRun(t, all(in)...)
			gradient := make([][]float32, len(in))
			copy(gradient, out[2:2+vary])
			f := func(in [][]float32) (float64, error) {
				out, err := p.run(all(in)...)
				if err != nil {
					return 0, err
				}
				return gradtest.Dot(u, out[0]) + gradtest.Dot(v, out[1]), nil
			}
			e, err := gradtest.Directional(f, in, gradient, r, 3)
			if err != nil {
				t.Fatal(err)
			}
			largest = max(largest, e)
			if !(e <= gradtest.Tolerance) {
				t.Errorf("item %d: the difference quotient is off by %.2g of the gradient's norm", i, e)
			}
		}
	})
	t.Logf("largest error %.1g, tolerance %.1g", largest, gradtest.Tolerance)
}

// An item's results are the same bits alone and in a batch of 5.
func TestBatchIndependence(t *testing.T) {
	const items = 5
	alone, together := newPool(t, 1), newPool(t, items)
	each(t, func(t *testing.T, g *gradtest.Golden) {
		graph := derived(t, g)
		one, five := compile(t, alone, graph), compile(t, together, graph)
		r := gradtest.Rand(g.Name, "batch")
		in, want, got := [items][][]float32{}, [items][][]float32{}, [items][][]float32{}
		for i := range items {
			from := i % g.Items()
			x := slices.Clone(g.Item(g.X, from))
			for j := range x {
				x[j] *= 1 + 0.01*r.Float32()
			}
			in[i] = append([][]float32{x}, inputs(g, from)...)
			want[i] = one.mustRun(t, in[i]...)
		}
		errs := [items]error{}
		var wg sync.WaitGroup
		for range items {
			together.Enter()
		}
		for i := range items {
			wg.Go(func() {
				defer together.Leave()
				got[i], errs[i] = five.run(in[i]...)
			})
		}
		wg.Wait()
		for i := range items {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			for k := range want[i] {
				for j, v := range want[i][k] {
					if math.Float32bits(v) != math.Float32bits(got[i][k][j]) {
						t.Fatalf("item %d, output %d, value %d: %v alone, %v in a batch", i, k, j, v, got[i][k][j])
					}
				}
			}
		}
	})
}

// The simplified graph computes what the file says.
func TestSimplifiedModelEqualsFile(t *testing.T) {
	pool, largest := newPool(t, 1), 0.0
	each(t, func(t *testing.T, g *gradtest.Golden) {
		simple := compile(t, pool, g.Net)
		prog, err := pool.Compile(g.Name, g.File, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		file := program{pool: pool, prog: prog, out: simple.out}
		for i := range g.Items() {
			e := worst(simple.mustRun(t, g.Item(g.X, i))[0], file.mustRun(t, g.Item(g.X, i))[0])
			largest = max(largest, e)
			if !(e <= 1e-6) {
				t.Errorf("item %d: off by %.2g", i, e)
			}
		}
	})
	t.Logf("largest difference %.1g", largest)
}

// differentiated lists the operators through which a golden's gradient runs: they
// depend on the image, and the output or the loss on them, by floating-point values.
func differentiated(golden *gradtest.Golden) map[string]bool {
	g, output := golden.Net, golden.Net.Outputs[0].Name
	if golden.Head != "" {
		var err error
		if g, err = grad.Loss(golden.Net, golden.Head); err != nil {
			panic(err)
		}
		output = grad.LossValue
	}
	active, needed, ops := map[string]bool{g.Inputs[0].Name: true}, map[string]bool{output: true}, map[string]bool{}
	reads := func(n *onnx.Node) []string {
		in := n.Inputs
		switch n.Op {
		case "Where":
			in = in[1:]
		case "GatherElements":
			in = in[:1]
		case "ScatterElements":
			in = []string{in[0], in[2]}
		}
		return in
	}
	var path []*onnx.Node
	for _, n := range g.Nodes {
		if slices.ContainsFunc(reads(n), func(in string) bool { return active[in] }) && grad.HasRule(n.Op) {
			path = append(path, n)
			active[n.Outputs[0]] = true // later ones are indices
		}
	}
	for _, n := range slices.Backward(path) {
		if needed[n.Outputs[0]] {
			ops[n.Op] = true
			for _, in := range reads(n) {
				needed[in] = true
			}
		}
	}
	return ops
}

// uncovered lists the operators and the heads that no golden tests.
func uncovered(all []*gradtest.Golden) []string {
	seen := map[string]bool{}
	for _, g := range all {
		if g.Head != "" {
			seen["head "+g.Head] = true
		}
		for op := range differentiated(g) {
			seen[op] = true
		}
	}
	var missing []string
	for _, op := range grad.Supported() {
		if !seen[op] {
			missing = append(missing, op)
		}
	}
	for _, h := range grad.HeadNames() {
		if !seen["head "+h] {
			missing = append(missing, "head "+h)
		}
	}
	return missing
}

// Every rule and every head has a golden.
func TestComplete(t *testing.T) {
	if missing := uncovered(goldens); len(missing) > 0 {
		t.Errorf("no golden for %v: add cases to scripts/goldens_cases.py", missing)
	}
}

// The check above can fail: without the goldens that use an operator, or a
// head's golden, it names just that.
func TestCompleteNamesWhatIsMissing(t *testing.T) {
	for _, op := range grad.Supported() {
		rest := slices.DeleteFunc(slices.Clone(goldens), func(g *gradtest.Golden) bool { return differentiated(g)[op] })
		if !slices.Contains(uncovered(rest), op) {
			t.Errorf("without goldens of %s it is not missed", op)
		}
	}
	for _, h := range grad.HeadNames() {
		rest := slices.DeleteFunc(slices.Clone(goldens), func(g *gradtest.Golden) bool { return g.Head == h })
		if got := uncovered(rest); !slices.Contains(got, "head "+h) {
			t.Errorf("without the golden of head %s: %v", h, got)
		}
	}
}

// The difference check can fail: it sees a gradient that is twice too large,
// one that lacks a term, and one with a single wrong entry of sixteen.
func TestDirectionalSeesErrors(t *testing.T) {
	r := gradtest.Rand("quadratic", "sees")
	x := gradtest.Vector(r, 16)
	f := func(in [][]float32) (float64, error) { // Σ x² + x₀·Σ x
		s := 0.0
		for _, v := range in[0] {
			s += float64(v)*float64(v) + float64(in[0][0])*float64(v)
		}
		return s, nil
	}
	right := make([]float32, 16)
	sum := float32(0)
	for i, v := range x {
		right[i] = 2*v + x[0]
		sum += v
	}
	right[0] += sum
	broken := func(change func(g []float32)) []float32 {
		g := slices.Clone(right)
		change(g)
		return g
	}
	for name, c := range map[string]struct {
		g  []float32
		ok bool
	}{
		"right": {right, true},
		"twice": {broken(func(g []float32) {
			for i := range g {
				g[i] *= 2
			}
		}), false},
		"half": {broken(func(g []float32) {
			for i := range g {
				g[i] /= 2
			}
		}), false},
		"term":  {broken(func(g []float32) { g[0] -= sum }), false},
		"entry": {broken(func(g []float32) { g[5] = 0 }), false},
		"nan":   {broken(func(g []float32) { g[5] = float32(math.NaN()) }), false},
	} {
		e, err := gradtest.Directional(f, [][]float32{x}, [][]float32{c.g}, gradtest.Rand("quadratic", name), 3)
		if err != nil {
			t.Fatal(err)
		}
		if (e <= gradtest.Tolerance) != c.ok {
			t.Errorf("%s: error %.2g", name, e)
		}
	}
}
