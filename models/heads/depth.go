package heads

import (
	"fmt"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// Depth is a distance for each pixel.
const Depth = "depth"

// leastDepth is the least answer, in units of the truth: those below count as it.
const leastDepth = 1e-6

var depth = Kind{Name: Depth, Doc: "a distance for each pixel; the answer is right if for a share `bar` of the " +
	"pixels neither it nor the truth is 1 + `tolerance` times as large as the other. A truth of 0 or less does not " +
	"count",
	Keys: []string{"tolerance", "bar"}, truths: asMany, steps: true, placed: true,
	judges: func(_ Task, _ onnx.Shape, truth []float32) error {
		return judged(slices.ContainsFunc(truth, func(v float32) bool { return v > 0 }), "pixel")
	},
	check: func(t Task, answer onnx.Shape) error {
		if asMany(answer) > mostPixels {
			return fmt.Errorf("a map of depth has at most %d pixels, not %d", mostPixels, asMany(answer))
		}
		return t.single()
	},
	// The scores differ by four times what the share lacks of the bar, in steps, with the slope of the mean |log y/t|.
	scores: func(b *builder, t Task) []string {
		counts := b.Op("Where", b.Op("Greater", b.truth, b.Float(0)), b.Float(1), b.Float(0))
		truth := b.Op("Where", b.Op("Greater", b.truth, b.Float(0)), b.truth, b.Float(1))
		ratio := b.Op("Max", b.Op("Div", b.answer, truth), b.Float(leastDepth))
		off := b.Op("Abs", b.Op("Log", ratio))
		most := float32(math.Log1p(t.Tolerance[0]))
		near := b.Op("Where", b.Op("Less", off, b.Float(most)), counts, b.Float(0))
		all := func(x string) string { return b.Sum(x, []int64{1}) }
		n := b.Op("Max", all(counts), b.Float(1))
		mean := b.Op("Div", all(b.Op("Mul", off, counts)), n)
		return []string{b.zero(), Steps(&b.Builder, b.lacks(all(near), n, t.Bar), mean)}
	},
	measured: func(k int) string { return []string{"mean relative error", "within the tolerance"}[k] },
	measures: func(t Task, _ onnx.Shape) Measure {
		return func(y []float64, truth []float32) []Part {
			parts := make([]Part, 2)
			for i, v := range truth {
				distance := float64(v)
				if !(distance > 0) || y[i]-y[i] != 0 {
					continue
				}
				off := math.Abs(math.Log(max(y[i]/distance, leastDepth)))
				parts[0].Value, parts[0].Weight = parts[0].Value+math.Abs(y[i]-distance)/distance, parts[0].Weight+1
				parts[1].Value, parts[1].Weight = parts[1].Value+one(off < math.Log1p(t.Tolerance[0])),
					parts[1].Weight+1
			}
			return parts
		}
	}}
