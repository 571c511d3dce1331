package stats

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Holm returns the step-down adjusted p-values of Holm (Scandinavian Journal of Statistics
// 6 (1979) 65–70), in the order of p. Rejecting what is at most α keeps the probability of
// any wrong rejection among them below α, however they depend on each other: cells on the same images do.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	floats.ArgsortStable(slices.Clone(p), order)
	adjusted, most := make([]float64, len(p)), 0.0
	for rank, i := range order {
		most = max(most, min(1, float64(len(p)-rank)*p[i])) // never below an earlier step's
		adjusted[i] = most
	}
	return adjusted
}
