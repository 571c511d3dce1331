// Package zoo_test opens every architecture in models/zoo/skeletons: graphs as PyTorch's exporters write them, without
// weights, which are drawn here.
package zoo_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"selfheal/control"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/crosscheck"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
	"selfheal/models/split"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

const (
	seed             = 1
	shortParameters  = 15_000_000 // -short leaves out networks with more
	mostParameters   = 25_000_000 // and so does every run that SELFHEAL_TEST_LARGE does not ask for them
	composeTolerance = 1e-4       // relative: cuts undo some fusing, over up to 76 layers
	slopeTolerance   = 0.02       // relative, of float32 differences through kinks
	longest          = 2e-3       // step to either side, along a direction of length 1
	rise             = 0.02       // of the outputs' size on one step, at most: steep networks get a shorter one
	points           = 2          // at which the slope is taken between the ends
)

// like lists large networks, each with a smaller one that has the same blocks; both exporters are also tried on RN-18.
var like = map[string]string{"rn-34": "rn-18", "wrn-28-8-dynamo": "wrn-28-8",
	"efficientnet-b1": "efficientnet-b0", "efficientnet-b2": "efficientnet-b0"}

// Each skeleton opens, splits into segments that compose to it, differentiates
// to the gradient that differences show, and runs.
func TestSkeletons(t *testing.T) {
	testinput.Runtime(t)
	files, err := filepath.Glob("skeletons/*.onnx")
	if err != nil || len(files) == 0 {
		t.Fatal("no skeletons: ", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".onnx")
		t.Run(name, func(t *testing.T) {
			// Hundreds of megabytes of weights each: give them back before the next.
			defer debug.FreeOSMemory()
			data := must.Get(os.ReadFile(file))(t)
			_, err := simplify.Open(data, simplify.Options{})
			must.Refuse(t, err, "is a skeleton")
			n := int64(0)
			for _, c := range must.Get(onnx.DecodeSkeleton(data))(t).Consts {
				n += c.Shape.Items()
			}
			if n > shortParameters && testing.Short() || n > mostParameters && !testinput.Large() {
				t.Skip(n, " parameters")
			}
			if other := like[name]; other != "" && !testinput.Large() {
				t.Skip("SELFHEAL_TEST_LARGE=1 runs it: it has the same blocks as ", other)
			}
			net := must.Get(onnxtest.FillSkeleton(data, seed))(t)
			must.Do(t, simplify.Graph(net))
			check(t, net)
		})
	}
}

// check runs a network on noise.
func check(t *testing.T, net *onnx.Graph) {
	pool := ort.NewPool(runtime.NumCPU(), 1)
	defer pool.Close()
	r := rand.New(rand.NewPCG(seed, 2))
	x := make([]float32, net.Inputs[0].Shape.Items())
	for i := range x {
		x[i] = r.Float32()
	}

	y := x
	segments := must.Get(split.At(net, split.Boundaries(net)))(t)
	for _, s := range segments {
		y = onnxtest.Run(t, s, y)
	}

	v := must.Get(grad.VJP(net))(t)
	size := 0.0
	w := make([]float32, len(y))
	for i := range w {
		w[i] = float32(1 - 2*r.IntN(2))
		size += float64(y[i]) * float64(y[i]) / float64(len(y))
	}
	size = math.Sqrt(size)
	t.Logf("%d parameters, %d FLOPs, %d segments, %d nodes and %d with the gradient; outputs of size %.3g",
		net.Parameters(), net.FLOPs(), len(segments), len(net.Nodes), len(v.Nodes), size)
	if !(size > 1e-4 && size < 1e4) {
		t.Errorf("outputs of size %g: the weights don't keep activations near order 1", size)
	}
	// evaluator runs a vector-Jacobian graph, with fixed inputs between the point and the cotangent.
	evaluator := func(g *onnx.Graph, fixed ...[]float32) func(ctx context.Context, at []float32) (y, dx []float32,
		err error) {
		program := must.Get(pool.Compile(g.Name, must.Get(g.Encode())(t)))(t)
		return func(ctx context.Context, at []float32) (y, dx []float32, err error) {
			y, dx = make([]float32, len(w)), make([]float32, len(x))
			in := slices.Concat([][]float32{at}, fixed, [][]float32{w})
			return y, dx, pool.Run(ctx, program, in, [][]float32{y, dx})
		}
	}
	evaluate := evaluator(v)
	whole, dx := must.Get2(evaluate(context.Background(), x))(t)
	if e := crosscheck.Compare(y, whole); !(e <= composeTolerance) {
		t.Errorf("the segments' output differs from the whole's by %.2g", e)
	}

	norm := math.Sqrt(dot(dx, dx))
	if !(norm > 0) {
		t.Fatal("the gradient is 0")
	}
	// The direction is along the gradient, plus noise.
	d := make([]float64, len(x))
	for i := range d {
		d[i] = float64(dx[i])/norm + 0.5*r.NormFloat64()/math.Sqrt(float64(len(d)))
	}
	// If outputs jump, take the network that agrees with this one at x and is continuous.
	if f := frozen(net); f != nil {
		evaluate = evaluator(f, x)
		_, same := must.Get2(evaluate(context.Background(), x))(t)
		if e := crosscheck.Compare(dx, same); !(e <= composeTolerance) {
			t.Errorf("the gradient differs by %.2g from that with fixed indices", e)
		}
	}
	// Σ w·y and its slope, at a point of the line.
	at := func(ctx context.Context, s float64) (value, slope float64, err error) {
		moved := make([]float32, len(x))
		for j := range moved {
			moved[j] = x[j] + float32(s*d[j])
		}
		y, dx, err := evaluate(ctx, moved)
		for j, g := range dx {
			slope += float64(g) * d[j]
		}
		return dot(y, w), slope, err
	}
	scale := size * math.Sqrt(float64(len(y)))
	step := min(longest, rise*scale/norm)
	slope, difference := must.Get2(alongLine(pool, step, at))(t)
	// Each of the sums is rounded to about 1e-6 of its terms' size.
	rounding := 1e-6 * scale / step
	t.Logf("slope %.6g, differences %.6g", slope, difference)
	if !(math.Abs(difference-slope) <= slopeTolerance*math.Abs(slope)+rounding) || !(rounding < 0.1*math.Abs(slope)) {
		t.Errorf("slope %g, differences %g, their rounding about %.1g", slope, difference, rounding)
	}
}

// frozen returns the vector-Jacobian graph of a network with MaxUnpool whose indices come from a second image. When
// another value of a pool's window becomes the largest, MaxUnpool moves it: the network's output jumps, and differences
// of it say nothing about its gradient. With the indices of one image fixed it is continuous, and at that image the
// gradients are the same. The inputs are x, x0 and cotangent, the outputs y and dx; nil for a network without indices.
func frozen(net *onnx.Graph) *onnx.Graph {
	const fixed = "/fixed"
	g, copies := net.Clone(), net.Clone()
	jumps := false
	for _, n := range g.Nodes {
		if n.Op == "MaxPool" && len(n.Outputs) > 1 && n.Outputs[1] != "" {
			jumps = true
			g.Replace(n.Outputs[1], n.Outputs[1]+fixed)
		}
	}
	if !jumps {
		return nil
	}
	for _, n := range copies.Nodes {
		for i, in := range n.Inputs {
			if _, constant := g.Consts[in]; !constant && in != "" {
				n.Inputs[i] = in + fixed
			}
		}
		for i, out := range n.Outputs {
			if out != "" {
				n.Outputs[i] = out + fixed
				g.Shapes[out+fixed] = net.Shapes[out]
			}
		}
	}
	in, out := g.Inputs[0], g.Outputs[0].Name
	g.Nodes = append(copies.Nodes, g.Nodes...)
	b := &onnx.Builder{G: g}
	b.Input(in.Name+fixed, in.Shape)
	w := b.Input("cotangent", g.Outputs[0].Shape)
	dx, err := grad.Backward(b, map[string]string{out: w}, []string{in.Name})
	if err != nil {
		panic(err)
	}
	g.Outputs = append(g.Outputs[:1:1], onnx.Value{Name: dx[in.Name], DType: onnx.Float, Shape: in.Shape})
	g.Prune()
	return g
}

// line returns the value and the slope at a point of a line.
type line func(ctx context.Context, s float64) (value, slope float64, err error)

// alongLine returns the mean slope on the line and the rise of the value along it. They are equal even for a network
// with kinks, unlike the slope at one point.
func alongLine(pool *ort.Pool, step float64, at line) (slope, difference float64, err error) {
	var ends [2]float64
	var slopes [points]float64
	err = control.ForEach(context.Background(), pool, points+2, 0, func(ctx context.Context, i int) (err error) {
		if i >= points {
			ends[i-points], _, err = at(ctx, step*float64(2*(i-points)-1))
			return err
		}
		_, slopes[i], err = at(ctx, step*(float64(2*i+1)/points-1))
		return err
	})
	for _, s := range slopes {
		slope += s / points
	}
	return slope, (ends[1] - ends[0]) / (2 * step), err
}

func dot(a, b []float32) float64 {
	s := 0.0
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}
