package words

import (
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
)

func TestTitles(t *testing.T) {
	e := 8. / 255
	for want, c := range map[string]Column{
		"Clean": {Column: cell.Column{Attack: "none"}},
		"AA ℓ∞ (8/255)": {Column: cell.Column{Attack: "x", Epsilon: cell.Epsilon(e)}, Norm: "linf",
			Recipe: "autoattack-standard/1"},
		"AA+ ℓ2": {Column: cell.Column{Attack: "x"}, Norm: "l2", Recipe: "autoattack-plus/2"},
		"FAB-T ℓ1 (8/255) x": {Column: cell.Column{Attack: "x", Epsilon: cell.Epsilon(e)}, Norm: "l1",
			Recipe: "fab-t/1", Ambiguous: true},
		"my-own ℓ∞": {Column: cell.Column{Attack: "my-own"}, Norm: "linf", Recipe: "unheard-of/1"},
		"planned":   {Column: cell.Column{Attack: "planned"}},
		"AA-few ℓ2": {Column: cell.Column{Attack: "x"}, Norm: "l2",
			Recipe: "autoattack-standard-few/1"},
		"Bisection ℓ1 (8/255)": {Column: cell.Column{Attack: "x", Epsilon: cell.Epsilon(e)}, Norm: "l1",
			Recipe: "bisection/1"},
		"odd\uFFFD name l∞ (8/255)": {Column: cell.Column{Attack: "odd\x00\nname", Epsilon: cell.Epsilon(e)},
			Norm: "l∞"},
	} {
		if got := c.Title(); got != want {
			t.Errorf("title %q, want %q", got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	cell := func(k, n int) *result.Cell {
		return &result.Cell{N: n, Correct: k, Accuracy: float64(k) / float64(n)}
	}
	for _, c := range []struct{ got, want string }{
		{Accuracy(nil), "–"}, {Accuracy(cell(107, 200)), "53.5"}, {Accuracy(cell(9471, 10000)), "94.71"},
		{Accuracy(cell(0, 1000)), "0.00"}, {Accuracy(cell(3, 3)), "100.0"},
		{Interval(cell(1, 2)), ""},
		{ThreeDigits(0), "0"}, {ThreeDigits(-1.5), "−1.5"}, {ThreeDigits(12345), "12345"},
		{ThreeDigits(-0.00012), "−1.20e−04"}, {ThreeDigits(0.0313725), "0.0314"},
		{Duration(0.004), "0.00 s"}, {Duration(59.94), "59.9 s"}, {Duration(59.96), "1 min 00 s"},
		{Duration(3599.6), "1 h 00 min"}, {Duration(7620), "2 h 07 min"},
		{Strength("linf", 2./255), "2/255"}, {Strength("linf", float64(float32(0.5+8./255))-0.5), "8/255"},
		{Strength("linf", 0.03), "0.03"}, {Strength("l2", 0.5), "0.5"}, {Strength("l2", 2./255), "0.00784"},
		{Strength("linf", 0), "0"}, {Strength("linf", 1.5/255), "0.00588"},
		{PlainPasses(1), "1 plain pass"}, {PlainPasses(1.004), "1 plain pass"},
		{PlainPasses(2.314), "2.31 plain passes"}, {Points(0, 2), "0.00"}, {Points(-0.00001, 2), "0.00"},
		{Points(0.0366, 2), "+3.66"}, {Points(-0.1, 2), "−10.00"}, {Points(-0.0004, 1), "0.0"},
		{Points(-0.41, 1), "−41.0"},
		{Thousands(0), "0"}, {Thousands(999), "999"},
		{Thousands(1234567), "1" + Thin + "234" + Thin + "567"}, {Thousands(-1000), "-1" + Thin + "000"},
	} {
		if strings.ReplaceAll(c.got, Nbsp, " ") != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestSlugs(t *testing.T) {
	taken := map[string]bool{}
	for _, c := range [][2]string{{"real", "real"}, {"../../etc/passwd", "-..-etc-passwd"}, {"Real", "Real-2"},
		{"..", "suite"}, {"", "suite-2"}, {"a\x00b/é", "a-b--"}} {
		if got := UniqueSlug(c[0], taken); got != c[1] {
			t.Errorf("slug of %q is %q, want %q", c[0], got, c[1])
		}
	}
}

// A component's name has its loss and the gradient that it follows.
func TestComponent(t *testing.T) {
	for kind, want := range map[string]string{
		"apgd-ce": "APGD-CE", "apgd-t": "APGD-T", "square": "Square", "other": "other",
		"apgd-ce-detached": "APGD-CE, detached", "apgd-margin": "APGD margin",
		"apgd-margin-slopes":           "APGD margin, slopes",
		"apgd-logit-difference-nearby": "APGD logit difference, nearby",
	} {
		if got := Component(kind); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}
