package table

import (
	"slices"
	"strings"
	"testing"
)

// A pair's row counts the images that one of the two is right on, with the exact p-value and, of all rows, Holm's.
func TestPairs(t *testing.T) {
	all := map[string]map[string][]string{
		"a": {"none": {"1111111111", "1111111100", "0000000011"}, "greedy": {"1111111110", "1111111100", "1111110011"}},
		"b": {"none": {"1111111111", "0000000100", "0000000011"}, "greedy": {"1111111111", "1111111100", "011111110"}},
	}
	s := evidenced(solved(), all, "none", "greedy")
	if rows := plainly(s.PairTable()); rows != nil {
		t.Errorf("a suite without pairs has the rows %q", rows)
	}
	for model, defenses := range all {
		for defense, verdicts := range defenses {
			for i, col := range s.Columns {
				right := strings.Count(verdicts[i], "1")
				s.Cell(model, defense, col).Accuracy = float64(right) / float64(len(verdicts[i]))
			}
		}
	}
	s.Pairs = [][]string{{"a", "b"}, {"b", "gone"}}
	got := plainly(s.PairTable())
	want := []string{ // 7 of 7: 2/2^7, of five tests
		"a / b | undefended | Clean | 10 | 100.0 | 100.0 | 0.0 [−27.8, +27.8] | 0 | 0 | 1.00 | 1.00",
		"a / b | undefended | pgd ℓ∞ (2/255) | 10 | 80.0 | 10.0 | −70.0 [−92.0, 0.0] | 7 | 0 | 0.0156 | 0.0781",
		"a / b | undefended | square ℓ∞ (2/255) | 10 | 20.0 | 20.0 | 0.0 [−27.8, +27.8] | 0 | 0 | 1.00 | 1.00",
		"a / b | greedy | Clean | 10 | 90.0 | 100.0 | +10.0 [−20.5, +40.4] | 0 | 1 | 1.00 | 1.00",
		"a / b | greedy | pgd ℓ∞ (2/255) | 10 | 80.0 | 80.0 | 0.0 [−27.8, +27.8] | 0 | 0 | 1.00 | 1.00",
	}
	if !slices.Equal(got, want) { // the last cell of b has verdicts on fewer images
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
