package bounds

import (
	"math"
	"os"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
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
