package attacks_test

import (
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/attacks/attacktest"
)

// TestConformance runs every attack through the suite.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, row := range attacktest.Rows {
		t.Run(row.Kind, func(t *testing.T) { attacktest.Conform(t, row) })
	}
	for _, s := range attacks.Specs {
		if s.Versions == nil && !s.Proves &&
			!slices.ContainsFunc(attacktest.Rows, func(r attacktest.Row) bool { return r.Kind == s.Kind }) {
			t.Errorf("%s has no row in attacktest.Rows", s.Kind)
		}
	}
}
