package control

import (
	"slices"
	"testing"

	"selfheal/internal/must"
)

// The sizes of batches change no bit of a network's clean states or of a fit.
func TestCleanStatesBatches(t *testing.T) {
	const images = 70
	var first []float32
	for _, batch := range []int{1, 16} {
		c := newChain(t, testPool(t, batch), 12, 30, 8)
		states := c.cut.CleanStates(1, images, func(i int, out []float32) error {
			x, _ := randomImage(uint64(i), 12)
			copy(out, x)
			return nil
		})
		var all []float32
		if err := states(t.Context(),
			func(x []float32) error { all = append(all, x...); return nil }); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = all
		}
		if len(all) != images*30 || !slices.Equal(all, first) {
			t.Errorf("batches of %d change the states, %d values", batch, len(all))
		}
	}
}

// Cut cuts a network at its boundaries by their indices, 0 for the input.
func TestCutAtBoundaries(t *testing.T) {
	n := newChain(t, testPool(t, 1), 12, 30, 8, 4).net
	for boundary, tensor := range slices.Concat([]string{"x"}, n.Boundaries) {
		c := must.Get(n.Cut(At{Boundary: boundary}))(t)
		if got := c.Segments[c.Places[0]].Inputs[0].Name; got != tensor || len(c.Places) != 1 {
			t.Errorf("boundary %d is %s, not %s", boundary, got, tensor)
		}
	}
	for _, boundary := range []int{-1, len(n.Boundaries) + 1} {
		_, err := n.Cut(At{Boundary: boundary})
		must.Refuse(t, err, "has boundaries 0 to 2")
	}
}
