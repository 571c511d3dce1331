package words

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Tenths is a difference in percentage points.
func Tenths(share float64) string {
	s := fmt.Sprintf("%+.1f", 100*share)
	if s == "-0.0" || s == "+0.0" {
		return "0.0"
	}
	return strings.Replace(s, "-", "−", 1)
}

// CorruptionTitle is how a corruption reads: "Gaussian noise".
func CorruptionTitle(name string) string {
	if name == "jpeg_compression" {
		return "JPEG compression"
	}
	name = strings.ReplaceAll(Clean(name), "_", " ")
	return strings.ToUpper(name[:min(len(name), 1)]) + name[min(len(name), 1):]
}

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
	return strings.ReplaceAll(strconv.FormatFloat(x, 'g', 4, 64), "-", "−")
}

// Clip shortens s to at most so many letters.
func Clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Heading writes an experiment's name as a heading.
func Heading(s string) string {
	s = Clean(s)
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// LayerName is how a layer reads; a config has boundaries as numbers.
func LayerName(at string) string {
	if _, err := strconv.Atoi(at); err == nil {
		return "boundary " + at
	}
	return Clean(at)
}
