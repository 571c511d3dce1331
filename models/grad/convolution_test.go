package grad

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

// An axis' phases together are the transposed convolution, and each has the values of its residue in x. There are none
// if one would leave out values at an end of g, or all of them.
func TestAxisPhases(t *testing.T) {
	g, w := func(j int64) int64 { return (7*j + 3) % 11 }, func(k int64) int64 { return (5*k + 2) % 7 }
	for at := range int64(6 * 3 * 4 * 4 * 20) {
		kernel, stride, pad, end, x := at%6+1, at/6%3+1, at/18%4, at/72%4, at/288+1
		if x+pad+end < kernel {
			continue
		}
		name := fmt.Sprintf("kernel %d, stride %d, pads %d and %d, %d places", kernel, stride, pad, end, x)
		y, each := (x+pad+end-kernel)/stride+1, (x+stride-1)/stride
		want, got, takes := make([]int64, each*stride), make([]int64, each*stride), map[[2]int64]bool{}
		for j := range y {
			for k := range kernel {
				if i := stride*j + k - pad; i >= 0 && i < each*stride {
					want[i] += g(j) * w(k)
					takes[[2]int64{i % stride, j}] = true
				}
			}
		}
		whole := true
		for r := range stride {
			whole = whole && takes[[2]int64{r, 0}] && takes[[2]int64{r, y - 1}]
		}
		phases := axisPhases(kernel, stride, pad, x, y)
		if (phases != nil) != whole {
			t.Fatalf("%s: phases %v", name, phases)
		}
		for r, p := range phases {
			if n := p.before + y + p.after - int64(len(p.taps)) + 1; n != each {
				t.Fatalf("%s: phase %d has %d values", name, r, n)
			}
			for i := range each {
				for k, tap := range p.taps {
					if j := i + int64(k) - p.before; j >= 0 && j < y {
						got[stride*i+int64(r)] += g(j) * w(tap)
					}
				}
			}
		}
		if whole && !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", name, got, want)
		}
	}
}

// A transposed convolution with groups gives the same result by phases; one with a single group stays.
func TestPhased(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		channels, group, kernel, pad, size int64
		phased                             bool
	}{
		{8, 8, 3, 1, 40, true}, {8, 8, 5, 2, 35, true}, {6, 3, 3, 1, 33, true}, {8, 8, 2, 0, 34, true},
		{8, 1, 3, 1, 40, false},
	} {
		name, r := fmt.Sprintf("%+v", c), rand.New(rand.NewPCG(3, 4))
		weight := onnx.FloatTensor(onnx.Shape{c.channels, c.channels / c.group, c.kernel, c.kernel}, nil)
		for range weight.Shape.Items() {
			weight.Floats = append(weight.Floats, float32(r.NormFloat64()))
		}
		reach := c.size + 2*c.pad - c.kernel
		rest := reach % 2
		b := &onnx.Builder{G: onnx.NewGraph("test")}
		g := b.Input("g", onnx.Shape{onnx.Batch, c.channels, reach/2 + 1, reach/2 + 1})
		b.Output("x", b.Op("Neg", b.OpWith("ConvTranspose", onnx.Attrs{"group": c.group, "strides": []int64{2, 2},
			"pads": slices.Repeat([]int64{c.pad}, 4), "kernel_shape": []int64{c.kernel, c.kernel},
			"output_padding": []int64{rest, rest}}, g, b.Const(weight))))
		must.Do(t, b.Err())
		phased := must.Get(Phased(b.G))(t)
		if slices.ContainsFunc(phased.Nodes, func(n *onnx.Node) bool { return n.Op == "ConvTranspose" }) == c.phased {
			t.Fatalf("%s: phased wrongly", name)
		}
		at := onnxtest.Ramp(b.Shape(g).Items())
		want, got := onnxtest.Run(t, b.G, at), onnxtest.Run(t, phased, at)
		for i, v := range want {
			if math.Abs(float64(v-got[i])) > 1e-5 {
				t.Fatalf("%s: value %d is %v, not %v", name, i, got[i], v)
			}
		}
	}
}
