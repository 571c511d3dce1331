package ort

import (
	"slices"
	"testing"
)

// Whatever waits is run in few runs that are nearly full.
func TestOpenVINOSizes(t *testing.T) {
	p := &Program{on: Target{Provider: ProviderOpenVINO}}
	runs := func(waiting int) (all []int) {
		for ; waiting > 0; waiting -= all[len(all)-1] {
			all = append(all, p.size(waiting))
		}
		return all
	}
	for waiting, want := range map[int][]int{
		1: {1}, 2: {1, 1}, 3: {4}, 5: {4, 1}, 11: {4, 4, 4}, 12: {16}, 16: {16}, 18: {16, 1, 1}, 64: {16, 16, 16, 16},
	} {
		if got := runs(waiting); !slices.Equal(got, want) {
			t.Errorf("%d wait: %v, not %v", waiting, got, want)
		}
	}
}
