package words

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Points writes a difference of shares in points, with its sign and so many decimals.
func Points(difference float64, decimals int) string {
	out := fmt.Sprintf("%+.*f", decimals, 100*difference)
	if strings.Trim(out, "+-0.") == "" {
		return out[1:]
	}
	return strings.Replace(out, "-", "−", 1)
}

// Digits writes x with at most so many significant digits.
func Digits(x float64, n int) string {
	return strings.ReplaceAll(strconv.FormatFloat(x, 'g', n, 64), "-", "−")
}

// CorruptionTitle is how a corruption reads: "Gaussian noise".
func CorruptionTitle(name string) string {
	if name == "jpeg_compression" {
		return "JPEG compression"
	}
	return Heading(strings.ReplaceAll(name, "_", " "))
}

// OrMinusOne is an epsilon as a key: −1 for none.
func OrMinusOne(e *float64) float64 {
	if e == nil {
		return -1
	}
	return *e
}

// Same reports whether two columns are one attack at one strength.
func (c Column) Same(as Column) bool {
	return c.Attack == as.Attack && OrMinusOne(c.Epsilon) == OrMinusOne(as.Epsilon)
}

// Plural counts: "1 image", "2 images"; many is a plural that does not end so.
func Plural(n int, one string, many ...string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, append(many, one+"s")[0])
}

// PlainPasses is a number of plain passes as a text.
func PlainPasses(n float64) string {
	if said := ThreeDigits(n); said != "1" {
		return said + " plain passes"
	}
	return "1 plain pass"
}

// Some joins names, the first dozen where there are many more.
func Some(names []string) string {
	const most = 12
	if len(names) <= most+2 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// FourDigits writes an objective with four significant digits: where the greedy start is
// nearly optimal, as with linear embeddings, fewer don't show what a solver gains.
func FourDigits(x float64) string {
	if x >= 1e3 {
		return ThreeDigits(x) // a diverging one
	}
	return Digits(x, 4)
}

// Clip shortens s to at most so many letters.
func Clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Heading writes a name as a heading.
func Heading(s string) string {
	s = Clean(s)
	return strings.ToUpper(s[:min(len(s), 1)]) + s[min(len(s), 1):]
}

// LayerName is how a layer reads; a config has boundaries as numbers.
func LayerName(at string) string {
	if _, err := strconv.Atoi(at); err == nil {
		return "boundary " + at
	}
	return Clean(at)
}
