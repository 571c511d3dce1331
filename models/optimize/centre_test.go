package optimize

import (
	"slices"
	"testing"

	"selfheal/models/onnx"
)

// A subtraction at the front is removed, and its mean is returned value by value; any other front stays.
func TestCentre(t *testing.T) {
	item := onnx.Shape{onnx.Batch, 3, 4, 5}
	for _, c := range []struct {
		name  string
		mean  onnx.Shape
		stays func(n network, x, k string) string // nil: x − mean, which is removed
	}{
		{"a channel", onnx.Shape{1, 3, 1, 1}, nil},
		{"no batch", onnx.Shape{3, 1, 1}, nil},
		{"one number", onnx.Shape{}, nil},
		{"an image", onnx.Shape{3, 4, 5}, nil},
		{"a row", onnx.Shape{5}, nil},
		{"from a mean", item[1:], func(n network, x, k string) string { return n.Op("Sub", k, x) }},
		{"an addition", item[1:], func(n network, x, k string) string { return n.Op("Add", x, k) }},
		{"read twice", item[1:], func(n network, x, k string) string { return n.Op("Mul", x, n.Op("Sub", x, k)) }},
		{"no constant", item[1:], func(n network, x, _ string) string { return n.Op("Sub", x, n.Op("Sin", x)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := grow(t, 1, item, func(n network, x string) string {
				mean := n.Const(onnx.FloatTensor(c.mean, random(4, 1, append(onnx.Shape{onnx.Batch}, c.mean...))[0]))
				if c.stays != nil {
					return n.conv(c.stays(n, x, mean), 2, 3, 1)
				}
				return n.conv(n.Op("Sub", x, mean), 2, 3, 1)
			})
			g, mean := Centre(before)
			if stays := mean == nil; stays != (c.stays != nil) || stays != (g == before) {
				t.Fatalf("a mean of %d values", len(mean))
			}
			if mean == nil {
				return
			}
			images := random(1, 2, item)
			want := batch(t, before, images)
			for _, im := range images {
				for j := range im {
					im[j] -= mean[j]
				}
			}
			for i, got := range batch(t, g, images) {
				if !slices.Equal(got[0], want[i][0]) {
					t.Errorf("item %d differs", i)
				}
			}
		})
	}
}
