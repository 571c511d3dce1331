package open

import (
	"testing"

	"selfheal/internal/must"
)

// The threshold accepts at most the requested share and never separates equal values.
func TestSplit(t *testing.T) {
	values := []float64{0.5, 0.1, 0.3, 0.3, 0.4, 0.2, 0.3, 0.6, 0.7, 0.8}
	for share, want := range map[float64]int{0.1: 1, 0.3: 3, 0.59: 5, 0.7: 5, 0.8: 8, 0.9: 9} {
		threshold, above, err := split(values, share)
		must.Do(t, err)
		n := 0
		for _, v := range values {
			if v > threshold {
				n++
			}
		}
		if above != want || n != want {
			t.Errorf("%v: %d above %v, said %d, not %d", share, n, threshold, above, want)
		}
	}
	for _, values := range [][]float64{nil, {1}, {1, 2, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		_, _, err := split(values, 0.2)
		must.Refuse(t, err, "less than one or all of them")
	}
}
