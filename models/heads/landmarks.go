package heads

import (
	"fmt"
	"math"

	"selfheal/models/onnx"
)

// Landmarks are points in the image, x and y one after the other.
const Landmarks = "landmarks"

var landmarks = Kind{Name: Landmarks, Doc: "points, x and y each; the answer is right if a share `bar` of them lies " +
	"within `tolerance` of the truth", Keys: []string{"tolerance", "bar"}, truths: asMany, placed: true,
	check: func(t Task, answer onnx.Shape) error {
		if n := asMany(answer); n%2 != 0 {
			return fmt.Errorf("landmarks are pairs of numbers, not %d numbers", n)
		}
		return t.single()
	},
	// right − wrong is 1 − d/tolerance for the distance d that decides
	scores: func(b *builder, t Task) []string {
		points := b.values / 2
		must := int64(max(math.Ceil(t.Bar*float64(points)-1e-6), 1))
		d := b.Reshape(b.Op("Sub", b.answer, b.truth), onnx.Shape{onnx.Batch, int64(points), 2})
		far := b.Op("Sqrt", b.Op("Add", b.Sum(b.Op("Mul", d, d), []int64{2}), b.Float(1e-12)))
		nearest := b.Multi("TopK", onnx.Attrs{"axis": int64(1), "largest": int64(0)}, 2,
			b.Reshape(far, onnx.Shape{onnx.Batch, int64(points)}), b.Ints(must))[0]
		decides := b.part(nearest, int(must)-1, int(must))
		return []string{b.zero(), b.Op("Sub", b.Op("Div", decides, b.Float(float32(t.Tolerance[0]))), b.Float(1))}
	},
	measured: numbered("mean distance of"),
	measures: func(_ Task, answer onnx.Shape) Measure {
		return each(asMany(answer)/2, func(k int, y []float64, truth []float32) Part {
			d := math.Hypot(y[2*k]-float64(truth[2*k]), y[2*k+1]-float64(truth[2*k+1]))
			if d-d != 0 {
				return Part{}
			}
			return Part{d, 1}
		})
	}}
