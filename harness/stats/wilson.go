// Package stats holds the statistics of a cell.
package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

var z95 = distuv.UnitNormal.Quantile(0.975)

// Wilson returns the 95 % score interval of Wilson (1927, without continuity
// correction) of a share when k of n images are right. It lies in [0,1]; at
// k = 0 the lower end is exactly 0 and at k = n the upper end is exactly 1.
// With n = 0 nothing is known: [0, 1]. It panics unless 0 ≤ k ≤ n.
func Wilson(k, n int) [2]float64 {
	if k < 0 || k > n {
		panic(fmt.Sprintf("stats: Wilson(%d, %d) asks for 0 ≤ k ≤ n", k, n))
	}
	if n == 0 {
		return [2]float64{0, 1}
	}
	size, z2 := float64(n), z95*z95
	p := float64(k) / size
	middle := (p + z2/(2*size)) / (1 + z2/size)
	half := z95 / (1 + z2/size) * math.Sqrt(p*(1-p)/size+z2/(4*size*size))
	ends := [2]float64{max(middle-half, 0), min(middle+half, 1)}
	if k == 0 {
		ends[0] = 0
	}
	if k == n {
		ends[1] = 1
	}
	return ends
}
