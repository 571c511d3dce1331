package figure

import (
	"strings"
	"testing"

	"selfheal/reports/view"
)

func TestGreyTicks(t *testing.T) {
	for _, c := range []struct {
		end  float64
		most int
		want string
	}{
		{8. / 255, 4, "0 2/255 4/255 6/255 8/255"}, {8. / 255, 3, "0 4/255 8/255"}, {1. / 255, 5, "0 1/255"},
		{8. / 255, 0, "0 8/255"}, {0.3, 6, ""},
	} {
		points := []view.Point{{Accuracy: 1}, {Epsilon: c.end, Accuracy: 0.5}}
		panel := view.Curves{Lines: []view.Curve{{Points: points}}}
		var got []string
		for _, tick := range greyTicks(panel, c.most) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("up to %v in %d steps: %v, want %s", c.end, c.most, got, c.want)
		}
	}
}

// The methods of a solver study have colours of their own.
func TestMethodLooks(t *testing.T) {
	seen := map[int]string{}
	for method, look := range methodLooks {
		if other, taken := seen[look.colour]; taken {
			t.Errorf("%s and %s have one colour", method, other)
		}
		seen[look.colour] = method
	}
}
