package simplify

import (
	"math"
	"slices"
	"testing"

	"selfheal/models/onnx"
)

func TestCountUp(t *testing.T) {
	const most = 100
	for _, c := range []struct {
		start, limit, step int64
		want               []int64 // nil: refused
	}{
		{0, 10, 3, []int64{0, 3, 6, 9}},
		{0, 9, 3, []int64{0, 3, 6}},
		{10, 0, -3, []int64{10, 7, 4, 1}},
		{9, 0, -3, []int64{9, 6, 3}},
		{5, 5, 1, []int64{}},
		{5, 4, 1, []int64{}},
		{4, 5, -1, []int64{}},
		{0, most, 1, nil},
		{0, most + 1, 1, nil},
		{0, 1, onnx.MaxDimension, []int64{0}},
		{-onnx.MaxDimension, onnx.MaxDimension, onnx.MaxDimension, []int64{-onnx.MaxDimension, 0}},
		{-onnx.MaxDimension, onnx.MaxDimension, 1, nil},
		{0, 1, 0, nil},
		{-5, -10, math.MinInt64, nil},
		{5, 10, math.MaxInt64, nil},
		{math.MinInt64, 0, 1, nil},
		{0, math.MaxInt64, 1, nil},
	} {
		if c.limit == most { // just within the bound
			for i := range int64(most) {
				c.want = append(c.want, i)
			}
		}
		got, err := func() (list []int64, err error) {
			defer onnx.Refused(&err)
			return countUp(c.start, c.limit, c.step, most), nil
		}()
		if (err == nil) != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("from %d to %d by %d: %v, %v", c.start, c.limit, c.step, got, err)
		}
	}
}
