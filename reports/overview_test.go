package reports

import (
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/reports/figure"
	"selfheal/reports/view"
)

// The first screen compares all models: one by itself, up to six over each other, more in the order of robustness.
func TestOverview(t *testing.T) {
	two, other := several(2, 3), several(1, 3)
	other.Suites[0].Name = "another"
	for _, c := range other.Cells {
		c.Suite = "another"
		two.Cells = append(two.Cells, c)
	}
	two.Suites = append(two.Suites, other.Suites...)
	back := several(8, 3)
	slices.Reverse(back.Suites[0].Models)
	const radar, bars = "Radar plot of accuracy in %, s (d · n = 100 · oblivious), ", "Bars of all models, the most "
	for _, c := range []struct {
		name string
		v    *view.Report
		want []string // how each figure's description begins
		has  string   // the last one's
	}{
		{"one", view.Of(several(1, 3)), []string{"Radar plot of accuracy in %, s"}, ""},
		{"one, without axes enough", view.Of(several(1, 1)), []string{"Bars of accuracy in %, s"}, ""},
		{"four", view.Of(several(4, 3)), []string{radar + "undefended", radar + "controlled: pca"},
			"m03, pca: None 92.0, a0 ℓ∞ (1/255) 74.0, a1 ℓ∞ (2/255) 73.0, a2 ℓ∞ (3/255) 72.0."},
		{"six", view.Of(several(6, 2)), []string{radar + "undefended", radar + "controlled: pca"}, "m05, pca"},
		{"four, without axes enough", view.Of(several(4, 1)), []string{bars}, ""},
		{"eight", view.Of(back), []string{bars}, " m00, controlled: pca: 93.0, clean 92.0. m01, controlled: pca: 86.0"},
		{"of two suites", view.Of(two), []string{bars}, "m00 · another, undefended: 90.0, clean 95.0."},
		{"thirty", view.Of(several(30, 1)), []string{bars}, "the first 24 of 30"},
		{"none", view.Of(&result.File{}), nil, ""},
		{"published", view.Paper(), nil, ""},
	} {
		got := figure.Overview(c.v)
		if len(got) != len(c.want) {
			t.Fatalf("%s: %d figures", c.name, len(got))
		}
		for i, f := range got {
			if !strings.HasPrefix(f.Alt, c.want[i]) || i == len(got)-1 && !strings.Contains(f.Alt, c.has) {
				t.Errorf("%s: figure %d: %s", c.name, i, f.Alt)
			}
		}
	}
}
