// Package stats holds the statistics of a cell, and of two cells on the same images: intervals, tests, corrections
// for several tests, and numbers of images that a test needs. Every function is pure, cites its publication, and
// panics for arguments out of range.
package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Wilson returns the 95 % score interval of a fraction when k of n images are right (Wilson 1927, no continuity
// correction), in [0,1] and with exact ends at k = 0 and k = n; [0, 1] with n = 0. It panics unless 0 ≤ k ≤ n.
func Wilson(k, n int) [2]float64 { return WilsonAt(k, n, 0.95) }

// WilsonAt is [Wilson] at another level, in (0,1).
func WilsonAt(k, n int, level float64) [2]float64 {
	counted("Wilson", k, n)
	if n == 0 {
		return [2]float64{0, 1}
	}
	z := twoSided(level)
	size, z2 := float64(n), z*z
	p := float64(k) / size
	middle := (p + z2/(2*size)) / (1 + z2/size)
	half := z / (1 + z2/size) * math.Sqrt(p*(1-p)/size+z2/(4*size*size))
	ends := [2]float64{max(middle-half, 0), min(middle+half, 1)}
	if k == 0 {
		ends[0] = 0
	}
	if k == n {
		ends[1] = 1
	}
	return ends
}

// counted panics unless 0 ≤ k ≤ n.
func counted(what string, k, n int) {
	if k < 0 || k > n {
		panic(fmt.Sprintf("stats: %s(%d, %d) asks for 0 ≤ k ≤ n", what, k, n))
	}
}

// twoSided returns the quantile z of the standard normal distribution with P(|Z| ≤ z) = level.
func twoSided(level float64) float64 {
	if !(level > 0 && level < 1) {
		panic(fmt.Sprintf("stats: a level of %v, it must be in (0,1)", level))
	}
	return distuv.UnitNormal.Quantile(1 - (1-level)/2)
}
