package control

import (
	"slices"
	"testing"
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
