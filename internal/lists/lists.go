// Package lists makes lists from lists. Its functions change none of their arguments.
package lists

import (
	"math"
	"slices"
)

// Map returns of applied to each item; nil for none.
func Map[T, V any](list []T, of func(T) V) (out []V) {
	for _, one := range list {
		out = append(out, of(one))
	}
	return out
}

// Only returns the items for which holds is true.
func Only[T any](list []T, holds func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return !holds(v) })
}

// Count returns the number of items for which holds is true.
func Count[T any](list []T, holds func(T) bool) (n int) {
	for _, one := range list {
		if holds(one) {
			n++
		}
	}
	return n
}

// Find returns a pointer to the first item for which holds is true, or nil.
func Find[T any](list []T, holds func(T) bool) *T {
	if i := slices.IndexFunc(list, holds); i >= 0 {
		return &list[i]
	}
	return nil
}

// Indices returns the numbers from 0 to n − 1 for which holds is true; not nil if there is none.
func Indices(n int, holds func(i int) bool) []int {
	all := []int{}
	for i := range n {
		if holds(i) {
			all = append(all, i)
		}
	}
	return all
}

// To returns the numbers from 0 to n − 1.
func To(n int) []int { return Indices(n, func(int) bool { return true }) }

// Once appends v to a list unless it is there.
func Once[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// Distinct returns the values of of for the items, each once, in order.
func Distinct[T any, V comparable](list []T, of func(T) V) (out []V) {
	for _, one := range list {
		out = Once(out, of(one))
	}
	return out
}

// Quantile returns the q-quantile of xs, which has at least one value, in any order. Between the two nearest ranks it
// interpolates linearly, as NumPy does; between a finite and an infinite value it returns the infinite one. NaN counts
// as the smallest.
func Quantile(xs []float64, q float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	below, between := math.Modf(q * float64(len(xs)-1))
	low := xs[int(below)]
	if between == 0 || xs[int(below)+1] == low {
		return low
	}
	return low*(1-between) + xs[int(below)+1]*between
}

// Median returns the middle value, or the mean of the middle two.
func Median(xs []float64) float64 { return Quantile(xs, 0.5) }
