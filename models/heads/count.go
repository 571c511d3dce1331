package heads

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"selfheal/models/onnx"
)

// Count is how many things an image shows.
const Count = "count"

var count = Kind{Name: Count, Doc: "how many things an image shows, by the sum of all values, such as those of a map " +
	"of their density; the answer is right if it lies within `tolerance` of the truth, one number",
	Keys:   []string{"tolerance"},
	truths: func(onnx.Shape) int { return 1 },
	check:  func(t Task, _ onnx.Shape) error { return t.single() },
	scores: func(b *builder, t Task) []string {
		off := b.Op("Abs", b.Op("Sub", b.Sum(b.answer, []int64{1}), b.truth))
		return []string{b.zero(), b.Op("Sub", b.Op("Div", off, b.Float(float32(t.Tolerance[0]))), b.Float(1))}
	},
	measured: func(int) string { return "mean error" },
	measures: func(Task, onnx.Shape) Measure {
		return func(y []float64, truth []float32) []Part {
			off := floats.Sum(y) - float64(truth[0])
			if off-off != 0 {
				return []Part{{}}
			}
			return []Part{{math.Abs(off), 1}}
		}
	}}
