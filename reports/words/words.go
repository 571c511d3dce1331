// Package words writes numbers, names and attacks for the reports. All formats call it, so that a value looks the same
// everywhere.
package words

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/number"
)

// Dash stands for a value that was not measured; nbsp and thin keep a value on one line.
const (
	Dash = "–"
	Nbsp = "\u00a0"
	Thin = "\u202f"
)

// Column is one attack at one strength, or the clean images.
type Column struct {
	cell.Column
	Norm        string
	Recipe      string
	AttackTitle string // the attack with its settings; "" in files of older versions
	Ambiguous   bool   // another column has the same title
}

// ColumnOf returns the column of an attack without epsilon, or of clean images.
func ColumnOf(attack string) Column { return Column{Column: cell.Column{Attack: attack}} }

// Learn takes norm and recipe from one of the column's cells. A cell without an attack of its own has no recipe.
func (c *Column) Learn(from *result.Cell) {
	if from.Norm != nil {
		c.Norm = max(c.Norm, *from.Norm)
	}
	c.Recipe = max(c.Recipe, from.Recipe)
}

// Corrupted reports whether corruptions made the column's images.
func (c Column) Corrupted() bool { return strings.HasPrefix(c.Recipe, attacks.CorruptionKind+"/") }

// AttackNames maps a recipe (without its version) to its usual short name.
var AttackNames = attacks.ShortNames()

// Short returns the attack alone, by its usual name if its recipe has one: "AA", "Clean". The name includes a fallback
// for lack of classes, "AA-few", and another precision, "AA bf16".
func (c Column) Short() string {
	switch {
	case c.Attack == cell.None:
		return "Clean"
	case c.Corrupted():
		return "Corruptions, mean"
	}
	base, version, _ := strings.Cut(c.Recipe, "/")
	base, few := strings.CutSuffix(base, "-few")
	name, known := AttackNames[base]
	if !known { // an attack of another version of the program
		title, _, _ := strings.Cut(cmp.Or(c.AttackTitle, c.Attack), ",")
		name = Clean(title)
	} else if few {
		name += "-few"
	}
	_, value, _ := strings.Cut(c.Attack, ":")
	if variant := attacks.Variant(base, Clean(value)); variant != "" {
		name += " " + variant
	}
	if _, precision, other := strings.Cut(version, "+"); other {
		name += " " + Clean(precision)
	}
	return name
}

// Component writes the kind of an attack's component, with its loss and its gradient if these are others than usual:
// "APGD-CE", "APGD margin, slopes".
func Component(kind string) string {
	if name, known := AttackNames[kind]; known {
		return name
	}
	for _, g := range attacks.Gradients {
		if base, of := strings.CutSuffix(kind, "-"+g); of {
			return Component(base) + ", " + g
		}
	}
	if loss, climbs := strings.CutPrefix(kind, "apgd-"); climbs {
		return "APGD " + Clean(strings.ReplaceAll(loss, "-", " "))
	}
	return Clean(kind)
}

// Components names a cell's components; a repeated one is numbered.
func Components(steps []result.Step) (out []string) {
	seen := map[string]int{}
	for _, st := range steps {
		name := Component(st.Attack)
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		out = append(out, name)
	}
	return out
}

// Name returns the attack without its strength: "Clean", "AA ℓ∞".
func (c Column) Name() string {
	if c.Attack == cell.None || c.Norm == "" {
		return c.Short()
	}
	return c.Short() + " " + NormName(c.Norm)
}

// NormName writes a norm: "ℓ∞".
func NormName(norm string) string {
	if n, err := attacks.ParseNorm(norm); err == nil {
		return n.Title()
	}
	return Clean(norm)
}

// Title returns the column's heading, "AA ℓ∞ (8/255)", followed by the attack's own name if two columns would have the
// same.
func (c Column) Title() string {
	t := c.Name()
	if c.Epsilon != 0 {
		t += " (" + c.Epsilon.String() + ")"
	}
	if c.Ambiguous {
		t += " " + Clean(c.Attack)
	}
	return t + c.from()
}

// from names the source.
func (c Column) from() string { return If(c.Source != "", " from "+Clean(c.Source)) }

// Lines returns the title broken into lines for the end of an axis.
func (c Column) Lines() []string {
	lines := []string{c.Name()}
	if c.Epsilon != 0 {
		lines = append(lines, "ε = "+c.Epsilon.String())
	}
	if c.Ambiguous {
		lines = append(lines, Clean(c.Attack))
	}
	if c.Source != "" {
		lines = append(lines, strings.TrimSpace(c.from()))
	}
	return lines
}

// Percent writes a fraction of n images in per cent: with two decimals from 1000 images on and for an unknown n of 0.
func Percent(share float64, n int) string {
	decimals := 1
	if n >= 1000 || n == 0 {
		decimals = 2
	}
	return strconv.FormatFloat(100*share, 'f', decimals, 64)
}

// AtMost precedes an accuracy that gradients failed to lower: see [result.Cell].GradientFailures.
const AtMost = "≤" + Nbsp

// Accuracy writes a cell's accuracy in per cent, or a dash.
func Accuracy(c *result.Cell) string {
	if c == nil {
		return Dash
	}
	return If(c.GradientFailures > 0, AtMost) + Percent(c.Accuracy, c.N)
}

// Interval writes a cell's 95 % interval in per cent, or "" if it has none.
func Interval(c *result.Cell) string {
	if c == nil || c.CI95 == [2]float64{} {
		return ""
	}
	return Range(Percent(c.CI95[0], c.N), Percent(c.CI95[1], c.N))
}

func Range(low, high string) string { return "[" + low + "," + Nbsp + high + "]" }

// ThreeDigits writes x with three significant digits and no exponent in the usual range.
func ThreeDigits(x float64) string {
	s := strconv.FormatFloat(x, 'g', 3, 64)
	if a := math.Abs(x); a != 0 && (a < 1e-3 || a >= 1e6) {
		s = strconv.FormatFloat(x, 'e', 2, 64)
	} else if a >= 100 {
		s = strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strings.Replace(s, "-", "−", 1+strings.Count(s, "e"))
}

// Signed writes a difference as ThreeDigits does, with its sign.
func Signed(x float64) string {
	if x > 0 {
		return "+" + ThreeDigits(x)
	}
	return ThreeDigits(x)
}

// Strength writes a perturbation's size with three digits, in ℓ∞ a multiple of a grey level as 8/255.
func Strength(norm string, x float64) string {
	if k := math.Round(255 * x); norm == "linf" && k >= 1 && k <= 255 && math.Abs(255*x-k) < 1e-4 {
		return number.Format(k / 255)
	}
	return ThreeDigits(x)
}

// Duration writes seconds: 0.42 s, 12.3 s, 4 min 05 s, 2 h 07 min.
func Duration(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.2f"+Nbsp+"s", s)
	case s < 59.95:
		return fmt.Sprintf("%.1f"+Nbsp+"s", s)
	case s < 3599.5:
		return fmt.Sprintf("%d"+Nbsp+"min"+Nbsp+"%02d"+Nbsp+"s", int(math.Round(s))/60, int(math.Round(s))%60)
	}
	m := int(math.Round(s / 60))
	return fmt.Sprintf("%d"+Nbsp+"h"+Nbsp+"%02d"+Nbsp+"min", m/60, m%60)
}

// Thousands writes a count with thin spaces between groups of three digits.
func Thousands[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + Thin + s[i:]
	}
	return s
}

func DefenseName(d string) string {
	if d == cell.None || d == "" {
		return "undefended"
	}
	return Clean(d)
}

// Clean puts a name on one line and makes it [Printable].
func Clean(s string) string {
	return Printable(strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(s))
}

// Printable replaces control characters, which no format can show and XML forbids, by U+FFFD, except tabs and line
// ends.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
		case unicode.IsControl(r), r == 0xFFFE, r == 0xFFFF, unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// UniqueSlug makes a name safe as part of a file name and an anchor: ASCII letters, digits, dot, dash and underscore,
// not starting with a dot. Names that become equal (also on file systems that fold case) are numbered.
func UniqueSlug(name string, taken map[string]bool) string {
	slug := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, name)
	slug = strings.TrimLeft(slug, ".")
	slug = cmp.Or(slug[:min(len(slug), 100)], "suite")
	for base, i := slug, 2; taken[strings.ToLower(slug)]; i++ {
		slug = fmt.Sprintf("%s-%d", base, i)
	}
	taken[strings.ToLower(slug)] = true
	return path.Base(slug)
}

// Points writes a difference of fractions in percentage points, with its sign and so many decimals.
func Points(difference float64, decimals int) string {
	out := fmt.Sprintf("%+.*f", decimals, 100*difference)
	if strings.Trim(out, "+-0.") == "" {
		return out[1:]
	}
	return strings.Replace(out, "-", "−", 1)
}

func Digits(x float64, n int) string {
	return strings.ReplaceAll(strconv.FormatFloat(x, 'g', n, 64), "-", "−")
}

// CorruptionTitle writes a corruption for readers: "Gaussian noise".
func CorruptionTitle(name string) string {
	if name == "jpeg_compression" {
		return "JPEG compression"
	}
	return Heading(strings.ReplaceAll(name, "_", " "))
}

// Same reports whether two columns are one attack at one strength.
func (c Column) Same(as Column) bool {
	return c.Column == as.Column
}

// If returns the text if holds is true, otherwise "".
func If(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// Plural counts: "1 image", "2 images"; many is an irregular plural.
func Plural(n int, one string, many ...string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, append(many, one+"s")[0])
}

// PlainPasses writes a number of plain passes.
func PlainPasses(n float64) string {
	if said := ThreeDigits(n); said != "1" {
		return said + " plain passes"
	}
	return "1 plain pass"
}

// Some joins names: all, or the first dozen if there are many more.
func Some(names []string) string {
	const most = 12
	if len(names) <= most+2 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// FourDigits writes an objective. If the greedy start is nearly optimal, fewer digits don't show a solver's gain.
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

func Heading(s string) string {
	s = Clean(s)
	return strings.ToUpper(s[:min(len(s), 1)]) + s[min(len(s), 1):]
}

// LayerName writes a layer for readers; a config gives boundaries as numbers.
func LayerName(at string) string {
	if _, err := strconv.Atoi(at); err == nil {
		return "boundary " + at
	}
	return Clean(at)
}
