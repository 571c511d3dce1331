package bounds

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// The mean and the deviation that ResNet-2B's images are normalised by.
var cifar = simplify.Options{Mean: []float32{0.4914, 0.4822, 0.4465}, Std: []float32{0.2471, 0.2435, 0.2616}}

// realImages returns a function for the i-th of the real CIFAR-10 images, in [0, 1], and its label.
func realImages(tb testing.TB) func(i int) (x []float32, label int) {
	tb.Helper()
	records := must.Get(os.ReadFile(testinput.Real(tb, "cifar10-test-1000.bin")))(tb)
	return func(i int) ([]float32, int) {
		record := records[3073*i : 3073*(i+1)]
		x := make([]float32, 3072)
		for j, v := range record[1:] {
			x[j] = float32(v) / 255
		}
		return x, int(record[0])
	}
}

// prepared opens a network's file and prepares it for bounds.
func prepared(tb testing.TB, file string, o simplify.Options, unit float64) *Network {
	tb.Helper()
	testinput.Runtime(tb)
	g, _ := must.Get2(simplify.Load(file, o))(tb)
	return ready(tb, g, unit)
}

func ready(tb testing.TB, g *onnx.Graph, unit float64) *Network {
	tb.Helper()
	n := must.Get(New(g, unit))(tb)
	tb.Cleanup(n.Close)
	return n
}

// resNet2B opens the real network for images in [0, 1].
func resNet2B(tb testing.TB) *Network {
	tb.Helper()
	return prepared(tb, testinput.Real(tb, "resnet_2b.onnx"), cifar, Unit)
}

// inf is the p of l-inf.
var inf = math.Inf(1)

// narrow and wide are radii of balls, by their norms.
var narrow, wide = map[float64]float64{inf: 0.03, 2: 0.25, 1: 1.2}, map[float64]float64{inf: 0.1, 2: 0.8, 1: 4}

// balls yields balls in [0, 1] around random images, one in each norm in turn.
func balls(n *Network, rng *rand.Rand, radii map[float64]float64, count int) iter.Seq2[int, Region] {
	return func(yield func(int, Region) bool) {
		for trial := range count {
			p := []float64{inf, 2, 1}[trial%3]
			if !yield(trial, Ball(uniform(rng, n.size(n.input)), p, radii[p], 0, 1)) {
				return
			}
		}
	}
}

func uniform(rng *rand.Rand, count int) []float32 {
	x := make([]float32, count)
	for i := range x {
		x[i] = rng.Float32()
	}
	return x
}

// asked runs a graph on points and returns its outputs.
func asked(t *testing.T, g *onnx.Graph) func(points []float32) []ort.Tensor {
	t.Helper()
	run := must.Get(ort.OpenGraph(g))(t)
	t.Cleanup(run.Close)
	return func(points []float32) []ort.Tensor {
		shape := slices.Clone(g.Inputs[0].Shape)
		shape[0] = int64(len(points)) / shape.Items()
		return must.Get(run.Run([]ort.Tensor{{Shape: shape, Data: points}}))(t)
	}
}

// observed draws points of a region, and runs a network on them: its outputs, and the inputs of its stages.
func observed(t *testing.T, n *Network) func(region Region, rng *rand.Rand, count int) []ort.Tensor {
	t.Helper()
	g := n.graph.Clone()
	for _, s := range n.stages {
		g.Outputs = append(g.Outputs, onnx.Value{Name: s.tensor, DType: onnx.Float, Shape: g.Shapes[s.tensor]})
	}
	run := asked(t, g)
	return func(region Region, rng *rand.Rand, count int) []ort.Tensor {
		return run(drawn(region, rng, count))
	}
}

// products returns the products of rows with outputs, one output after the other.
func products[T float32 | float64](rows []float64, k int, outputs []T) (values []float64) {
	for y := range slices.Chunk(outputs, k) {
		for row := range slices.Chunk(rows, k) {
			value := 0.0
			for j, v := range row {
				value += v * float64(y[j])
			}
			values = append(values, value)
		}
	}
	return values
}

// beaten reports the first of some outputs that is below the proved bound of a row.
func beaten[T float32 | float64](outputs []T, rows []float64, proven []Bound) error {
	for i, value := range products(rows, len(rows)/len(proven), outputs) {
		if b := proven[i%len(proven)]; !(value >= b.Least()) {
			return fmt.Errorf("point %d: row %d is %.9g, proven was %.9g less %.3g", i/len(proven), i%len(proven),
				value, b.Value, b.Slack)
		}
	}
	return nil
}

// drawn returns points of a region: corners of its box, moves along few axes, and points in between.
func drawn(r Region, rng *rand.Rand, count int) []float32 {
	size := len(r.Lower)
	points := make([]float32, count*size)
	for p := range count {
		x := points[p*size : (p+1)*size]
		share := []float64{1, 0.5, 2 / float64(size)}[p%3] // of the values that are moved to an end
		for i := range x {
			at := rng.Float32()
			if rng.Float64() < share {
				at = float32(rng.IntN(2))
			}
			x[i] = min(max(r.Lower[i]+at*(r.Upper[i]-r.Lower[i]), r.Lower[i]), r.Upper[i])
			if r.Centre != nil && p%3 == 2 && rng.Float64() >= share {
				x[i] = r.Centre[i]
			}
		}
		if r.Centre == nil {
			continue
		}
		d := 0.0
		for i, v := range x {
			d += math.Pow(math.Abs(float64(v)-float64(r.Centre[i])), r.P)
		}
		if d = math.Pow(d, 1/r.P); d > r.Epsilon { // back into the ball
			for i := range x {
				x[i] = r.Centre[i] + float32(0.999999*r.Epsilon/d)*(x[i]-r.Centre[i])
			}
		}
	}
	return points
}

// identity returns rows for the least and the largest of each of k values.
func identity(k int) []float64 {
	rows := make([]float64, 2*k*k)
	for j := range k {
		rows[2*j*k+j], rows[(2*j+1)*k+j] = 1, -1
	}
	return rows
}
