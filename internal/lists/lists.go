// Package lists makes lists of others.
package lists

import (
	"math"
	"slices"
)

// Map is what of gives for each of a list; nil for none.
func Map[T, V any](list []T, of func(T) V) (out []V) {
	for _, one := range list {
		out = append(out, of(one))
	}
	return out
}

// Only are those of a list that something holds of.
func Only[T any](list []T, holds func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return !holds(v) })
}

// Count counts what holds of a list.
func Count[T any](list []T, holds func(T) bool) (n int) {
	for _, one := range list {
		if holds(one) {
			n++
		}
	}
	return n
}

// Find is the first of a list that something holds of, or nil.
func Find[T any](list []T, holds func(T) bool) *T {
	if i := slices.IndexFunc(list, holds); i >= 0 {
		return &list[i]
	}
	return nil
}

// Once appends v to a list that lacks it.
func Once[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// Distinct are the values that of gives for a list, each once, in their order.
func Distinct[T any, V comparable](list []T, of func(T) V) (out []V) {
	for _, one := range list {
		out = Once(out, of(one))
	}
	return out
}

// Quantile is the q-quantile of xs, which has at least one value, in any order: between the two nearest ranks it is
// on the line through them, as NumPy has it, and between a finite and an infinite value the infinite one. NaN counts as
// the smallest.
func Quantile(xs []float64, q float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	below, between := math.Modf(q * float64(len(xs)-1))
	low := xs[int(below)]
	if between == 0 || xs[int(below)+1] == low {
		return low
	}
	return low*(1-between) + xs[int(below)+1]*between
}

// Median is the middle value, of an even count the mean of the middle two.
func Median(xs []float64) float64 { return Quantile(xs, 0.5) }
