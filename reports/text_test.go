package reports

import (
	"strings"
	"testing"

	"selfheal/harness/result"
)

func TestTitles(t *testing.T) {
	e := 8. / 255
	for want, c := range map[string]column{
		"None":                      {Attack: "none"},
		"AA ℓ∞ (8/255)":             {Attack: "x", norm: "linf", recipe: "autoattack-standard/1", Epsilon: &e},
		"AA+ ℓ2":                    {Attack: "x", norm: "l2", recipe: "autoattack-plus/2"},
		"FAB-T ℓ1 (8/255) x":        {Attack: "x", norm: "l1", recipe: "fab-t/1", Epsilon: &e, ambiguous: true},
		"my-own ℓ∞":                 {Attack: "my-own", norm: "linf", recipe: "unheard-of/1"},
		"planned":                   {Attack: "planned"},
		"AA-few ℓ2":                 {Attack: "x", norm: "l2", recipe: "autoattack-standard-few/1"},
		"Bisection ℓ1 (8/255)":      {Attack: "x", norm: "l1", recipe: "bisection/1", Epsilon: &e},
		"odd\uFFFD name l∞ (8/255)": {Attack: "odd\x00\nname", norm: "l∞", Epsilon: &e},
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
		{accuracy(nil), "–"}, {accuracy(cell(107, 200)), "53.5"}, {accuracy(cell(9471, 10000)), "94.71"},
		{accuracy(cell(0, 1000)), "0.00"}, {accuracy(cell(3, 3)), "100.0"},
		{interval(cell(1, 2)), ""},
		{threeDigits(0), "0"}, {threeDigits(-1.5), "−1.5"}, {threeDigits(12345), "12345"},
		{threeDigits(-0.00012), "−1.20e−04"}, {threeDigits(0.0313725), "0.0314"},
		{duration(0.004), "0.00 s"}, {duration(59.94), "59.9 s"}, {duration(59.96), "1 min 00 s"},
		{duration(3599.6), "1 h 00 min"}, {duration(7620), "2 h 07 min"},
		{thousands(0), "0"}, {thousands(999), "999"},
		{thousands(1234567), "1" + thin + "234" + thin + "567"}, {thousands(-1000), "-1" + thin + "000"},
	} {
		if strings.ReplaceAll(c.got, nbsp, " ") != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestSlugs(t *testing.T) {
	taken := map[string]bool{}
	for _, c := range [][2]string{{"real", "real"}, {"../../etc/passwd", "-..-etc-passwd"}, {"Real", "Real-2"},
		{"..", "suite"}, {"", "suite-2"}, {"a\x00b/é", "a-b--"}} {
		if got := uniqueSlug(c[0], taken); got != c[1] {
			t.Errorf("slug of %q is %q, want %q", c[0], got, c[1])
		}
	}
}
