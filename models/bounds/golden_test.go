package bounds

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/simplify"
)

// goldens holds auto_LiRPA's bounds (scripts/goldens/bounds.py).
type goldens struct {
	Inputs [][]float32
	Cases  []struct {
		Input, Label int
		Norm         string
		Epsilon      float64
		Method       Method
		Margins      []float64
	}
}

// convolved are the networks that begin with a convolution whose intervals auto_LiRPA has wider than they are: in l2
// where it is padded, as it takes all its windows for full ones, in l1 always.
var convolved = map[string][]string{
	"l2": {"residual.onnx", "joined.onnx", "gated.onnx", "resnet_2b.onnx"},
	"l1": {"residual.onnx", "joined.onnx", "gated.onnx", "resnet_2b.onnx", "pooled.onnx"},
}

var norms = map[string]float64{"linf": inf, "l2": 2, "l1": 1}

// Bounds before slack are auto_LiRPA's, those with free slopes at least as tight on average.
func TestGoldens(t *testing.T) {
	testinput.Runtime(t)
	files := must.Get(filepath.Glob("testdata/*.onnx"))(t)
	if len(files) < 6 {
		t.Fatalf("only %v", files)
	}
	gain := 0.0 // on average over a network's bounds
	for _, file := range files {
		golden := read(t, file[:len(file)-4]+"json")
		gain += compareGoldens(t, file, golden, func(c int) Region {
			k := golden.Cases[c]
			return Ball(golden.Inputs[k.Input], norms[k.Norm], k.Epsilon, -float32(inf), float32(inf))
		})
	}
	if gain < 0 {
		t.Errorf("α-CROWN's bounds are smaller by %g on average", -gain/float64(len(files)))
	}
}

func read(t *testing.T, file string) (golden goldens) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(file))(t), &golden))
	return golden
}

// The same of ResNet-2B, in l-inf cut to [0, 1], and in l2 and l1 of normalised images: for one image at each norm's
// largest radius, with SELFHEAL_TEST_LARGE for three at two radii each.
func TestGoldensOfResNet2B(t *testing.T) {
	testinput.Runtime(t)
	file, golden := testinput.Real(t, "resnet_2b.onnx"), read(t, "testdata/resnet_2b.json")
	if !testinput.Large() {
		largest := map[string]float64{}
		for _, c := range golden.Cases {
			largest[c.Norm] = max(largest[c.Norm], c.Epsilon)
		}
		some := golden.Cases[:0]
		for _, c := range golden.Cases {
			if c.Input == golden.Cases[0].Input && c.Epsilon == largest[c.Norm] {
				some = append(some, c)
			}
		}
		golden.Cases = some
	}
	image := realImages(t)
	normal := func(v float32, i int) float32 { return (v - cifar.Mean[i/1024]) / cifar.Std[i/1024] }
	gain := compareGoldens(t, file, golden, func(c int) Region {
		k := golden.Cases[c]
		x, _ := image(k.Input)
		if k.Norm != "linf" {
			for i, v := range x {
				x[i] = normal(v, i)
			}
			return Ball(x, norms[k.Norm], k.Epsilon, -float32(inf), float32(inf))
		}
		r := Ball(x, inf, k.Epsilon, 0, 1)
		for i := range x {
			r.Lower[i], r.Upper[i] = normal(r.Lower[i], i), normal(r.Upper[i], i)
		}
		return r
	})
	if gain < 0 {
		t.Errorf("α-CROWN's bounds are smaller by %g on average", -gain)
	}
}

// compareGoldens checks a network's bounds against the goldens and returns by how much optimised slopes raise them.
func compareGoldens(t *testing.T, file string, golden goldens, region func(c int) Region) (gain float64) {
	t.Helper()
	n := prepared(t, file, simplify.Options{}, 0)
	n.alone = true
	count := 0
	for i, c := range golden.Cases {
		found := must.Get(n.Rows(context.Background(), c.Method, region(i), n.MarginRows(c.Label)))(t)
		least, most := math.Inf(1), math.Inf(-1)
		for _, v := range c.Margins {
			least, most = min(least, v), max(most, v)
		}
		within := 1e-4*(most-least) + 2e-6 // which the goldens are rounded by
		for k, want := range c.Margins {
			got := found[k].Value
			switch {
			case c.Method == AlphaCROWN:
				gain += got - want
				count++
			case c.Method == IBP && got > want && slices.Contains(convolved[c.Norm], filepath.Base(file)):
			case math.Abs(got-want) > within:
				t.Errorf("input %d, %s %g, %s, margin %d: %.6f, not %.6f", c.Input, c.Norm, c.Epsilon, c.Method, k,
					got, want)
			}
		}
	}
	gain /= float64(count)
	t.Logf("%s: α-CROWN's bounds are larger by %.2g on average of %d", file, gain, count)
	return gain
}
