package view

import "testing"

// A rank that lies between two values is the nearer one's, the higher one's in the middle.
func TestRankOf(t *testing.T) {
	five := []float64{50, 10, 40, 20, 30}
	for q, want := range map[float64]float64{0: 10, 0.1: 10, 0.15: 20, 0.25: 20, 0.37: 20, 0.38: 30, 0.5: 30, 0.9: 50,
		0.85: 40, 1: 50} {
		if got := RankOf(five, q); got != want {
			t.Errorf("the %v-quantile of %v is %v, want %v", q, five, got, want)
		}
	}
	if five[0] != 50 {
		t.Error("the values are sorted in place")
	}
	if got := RankOf([]float64{7}, 0.9); got != 7 {
		t.Errorf("of a single value: %v", got)
	}
}
