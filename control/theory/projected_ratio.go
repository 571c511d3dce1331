package theory

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// ProjectedRatio tests Proposition 1 by Monte Carlo: the ratio d_e/d_M of a linear classifier with a random decision
// boundary, for data in an r-dimensional subspace of R^d.
type ProjectedRatio struct {
	Draws int         `json:"draws"`
	Cells []RatioCell `json:"cells"`
	// SamePoint is the fraction of draws whose d_e and d_M are attained at the same data point.
	SamePoint float64 `json:"same_point"`
}

// RatioCell is one pair of dimensions.
type RatioCell struct {
	D     int     `json:"d"`
	R     int     `json:"r"`
	Mean  float64 `json:"mean"`  // of d_e/d_M over the draws
	Half  float64 `json:"half"`  // half the 95 % interval of the mean
	Exact float64 `json:"exact"` // E[d_e/d_M] in closed form
	Bound float64 `json:"bound"` // √(r/d)
	// Raw is the mean of ‖Vᵀn‖ for n ~ N(0, I/d). The proof equates it with the ratio; the margins divide it by ‖n‖.
	Raw     float64 `json:"raw"`
	RawHalf float64 `json:"raw_half"`
}

// errors5 times half a 95 % interval is five standard errors, which none of dozens of means exceeds by chance.
const errors5 = 5 / 1.96

// projectedRatio measures both margins on points of the subspace: d_e as the distance in R^d from a point to the
// hyperplane, d_M as the distance within the subspace, in its own coordinates, to the hyperplane's trace.
func projectedRatio(into *Result, o Options, rng *rand.Rand) []Check {
	const points = 4
	p := &ProjectedRatio{Draws: o.pick(4000, 600)}
	into.ProjectedRatio = p
	same := 0
	var worst, rawWorst, score, equality, gap float64
	for _, d := range []int{4, 16, 64, 256} {
		for _, r := range []int{1, 4, 16, 64, 256} {
			if r > d {
				break
			}
			basis := orthonormal(gaussian(rng, d, r))
			within := gaussian(rng, r, points) // data, coordinates in the subspace
			data := product(basis, within)     // and in R^d
			ratios, raw := make([]float64, p.Draws), make([]float64, p.Draws)
			for i := range p.Draws {
				n := normals(rng, d)
				for j := range n {
					n[j] /= math.Sqrt(float64(d))
				}
				trace := times(basis.T(), n)
				euclidean, at := distance(data, n)
				manifold, on := distance(within, trace)
				if at == on {
					same++
				}
				ratios[i], raw[i] = euclidean/manifold, norm(trace)
			}
			cell := RatioCell{D: d, R: r, Exact: meanCosine(r, d), Bound: math.Sqrt(float64(r) / float64(d))}
			cell.Mean, cell.Half = interval(ratios)
			cell.Raw, cell.RawHalf = interval(raw)
			p.Cells = append(p.Cells, cell)
			rawWorst = max(rawWorst, (cell.Raw-errors5*cell.RawHalf)/cell.Bound)
			if off := math.Abs(cell.Mean - o.factor("closed form")*cell.Exact); r == d {
				equality = max(equality, math.Abs(cell.Mean-o.factor("ratio")*cell.Bound))
			} else {
				worst = max(worst, (cell.Mean-errors5*cell.Half)/cell.Bound)
				score = max(score, off/(errors5*cell.Half))
			}
			if r >= 16 {
				gap = max(gap, 1-(cell.Mean+errors5*cell.Half)/(o.factor("ratio")*cell.Bound))
			}
		}
	}
	p.SamePoint = float64(same) / float64(p.Draws*len(p.Cells))
	return []Check{
		atMost("expected ratio",
			"E[d_e/d_M] ≤ √(r/d) for r < d: the means less five standard errors over the bound, the largest", worst,
			o.factor("ratio"), 1e-12).within(1.05),
		atMost("expected projection", "E‖Vᵀn‖ ≤ √(r/d), the proof's ratio, likewise", rawWorst,
			o.factor("ratio"), 1e-12).within(1.05),
		equal("equality at r = d", "d_e/d_M = 1 where the subspace is the whole space: largest difference", equality, 0,
			1e-12),
		atMost("closed form",
			"E[d_e/d_M] = Γ((r+1)/2)Γ(d/2) / (Γ(r/2)Γ((d+1)/2)): largest deviation over five standard errors",
			score, 1, 0),
		atMost("nearly tight", "for r ≥ 16 the mean and five standard errors are below the bound by at most 2 %", gap,
			0.02, 0),
		equal("same point", "d_e and d_M are attained at the same data point: share of draws", p.SamePoint,
			o.factor("accuracy"), 0),
	}
}

// distance returns the smallest distance from the columns of points to the hyperplane through the origin with normal
// n, and the index of that column.
func distance(points *mat.Dense, n []float64) (least float64, at int) {
	least = math.Inf(1)
	length := norm(n)
	for j, dot := range times(points.T(), n) {
		if d := math.Abs(dot) / length; d < least {
			least, at = d, j
		}
	}
	return least, at
}

// meanCosine returns E‖Vᵀn‖/‖n‖ for a random direction n and an r-dimensional subspace of R^d.
func meanCosine(r, d int) float64 {
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	a, b := float64(r)/2, float64(d)/2
	return math.Exp(lgamma(a+0.5) + lgamma(b) - lgamma(a) - lgamma(b+0.5))
}

// interval returns the mean of x and half its normal 95 % interval.
func interval(x []float64) (mean, half float64) {
	mean, deviation := stat.MeanStdDev(x, nil)
	return mean, 1.96 * deviation / math.Sqrt(float64(len(x)))
}
