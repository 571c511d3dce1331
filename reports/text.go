package reports

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"unicode"

	"selfheal/attacks"
	"selfheal/harness/result"
	"selfheal/internal/number"
)

// dash stands for what was not measured; nbsp and thin keep a value on one line.
const (
	dash = "–"
	nbsp = "\u00a0"
	thin = "\u202f"
)

// column is one attack at one strength, or the clean images.
type column struct {
	Attack    string
	Epsilon   *float64
	norm      string
	recipe    string
	title     string // of the attack, with its settings; "" in files of older versions
	ambiguous bool   // another column has the same title
}

// learn takes norm and recipe from one of the column's cells. Cells that no
// attack was crafted for have no recipe, so several may be needed.
func (c *column) learn(from *result.Cell) {
	if from.Norm != nil {
		c.norm = max(c.norm, *from.Norm)
	}
	c.recipe = max(c.recipe, from.Recipe)
}

// corrupted reports whether corruptions made the column's images.
func (c column) corrupted() bool { return strings.HasPrefix(c.recipe, "corruption/") }

// attackNames gives the usual short name of a recipe (without its version).
var attackNames = attacks.ShortNames()

// Short is the attack alone, by its usual name where its recipe has one: "AA", "None".
// A recipe that falls back for lack of classes says so, "AA-few", and one that ran in another precision too, "AA bf16".
func (c column) Short() string {
	switch {
	case c.Attack == "none":
		return "None"
	case c.corrupted():
		return "Corruptions, mean"
	}
	base, version, _ := strings.Cut(c.recipe, "/")
	base, few := strings.CutSuffix(base, "-few")
	name, known := attackNames[base]
	if !known { // an attack of another version of the program
		title, _, _ := strings.Cut(cmp.Or(c.title, c.Attack), ",")
		name = clean(title)
	} else if few {
		name += "-few"
	}
	if _, precision, other := strings.Cut(version, "+"); other {
		name += " " + clean(precision)
	}
	return name
}

// Name is the attack without its strength: "None", "AA ℓ∞".
func (c column) Name() string {
	if c.Attack == "none" || c.norm == "" {
		return c.Short()
	}
	return c.Short() + " " + normName(c.norm)
}

// normName is how a norm is written: "ℓ∞".
func normName(norm string) string {
	if n, err := attacks.ParseNorm(norm); err == nil {
		return n.Title()
	}
	return clean(norm)
}

// Title is the column's heading: "None", "AA ℓ∞ (8/255)", and the attack's own
// name behind it where two columns would otherwise read the same.
func (c column) Title() string {
	t := c.Name()
	if c.Epsilon != nil {
		t += " (" + number.Format(*c.Epsilon) + ")"
	}
	if c.ambiguous {
		t += " " + clean(c.Attack)
	}
	return t
}

// Lines is the title broken for the end of an axis.
func (c column) Lines() []string {
	lines := []string{c.Name()}
	if c.Epsilon != nil {
		lines = append(lines, "ε = "+number.Format(*c.Epsilon))
	}
	if c.ambiguous {
		lines = append(lines, clean(c.Attack))
	}
	return lines
}

// percent writes a share of n images in per cent, with one decimal, or two
// from 1000 images on and where nobody says how many there were (n = 0).
func percent(share float64, n int) string {
	decimals := 1
	if n >= 1000 || n == 0 {
		decimals = 2
	}
	return strconv.FormatFloat(100*share, 'f', decimals, 64)
}

// accuracy is a cell's accuracy in per cent, or a dash.
func accuracy(c *result.Cell) string {
	if c == nil {
		return dash
	}
	return percent(c.Accuracy, c.N)
}

// interval is a cell's 95 % interval in per cent, or "" where it carries none.
func interval(c *result.Cell) string {
	if c == nil || c.CI95 == [2]float64{} {
		return ""
	}
	return fmt.Sprintf("[%s,"+nbsp+"%s]", percent(c.CI95[0], c.N), percent(c.CI95[1], c.N))
}

// threeDigits writes x with three significant digits and no exponent in the usual range.
func threeDigits(x float64) string {
	s := strconv.FormatFloat(x, 'g', 3, 64)
	if a := math.Abs(x); a != 0 && (a < 1e-3 || a >= 1e6) {
		s = strconv.FormatFloat(x, 'e', 2, 64)
	} else if a >= 100 {
		s = strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strings.Replace(s, "-", "−", 1+strings.Count(s, "e"))
}

// signed is threeDigits of a difference.
func signed(x float64) string {
	if x > 0 {
		return "+" + threeDigits(x)
	}
	return threeDigits(x)
}

// strength writes the size of a perturbation: in ℓ∞ a multiple of a grey level as 8/255, up to the rounding of
// pixels, else three digits.
func strength(norm string, x float64) string {
	if k := math.Round(255 * x); norm == "linf" && k >= 1 && k <= 255 && math.Abs(255*x-k) < 1e-4 {
		return number.Format(k / 255)
	}
	return threeDigits(x)
}

// duration writes seconds: 0.42 s, 12.3 s, 4 min 05 s, 2 h 07 min.
func duration(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.2f"+nbsp+"s", s)
	case s < 59.95:
		return fmt.Sprintf("%.1f"+nbsp+"s", s)
	case s < 3599.5:
		return fmt.Sprintf("%d"+nbsp+"min"+nbsp+"%02d"+nbsp+"s", int(math.Round(s))/60, int(math.Round(s))%60)
	}
	m := int(math.Round(s / 60))
	return fmt.Sprintf("%d"+nbsp+"h"+nbsp+"%02d"+nbsp+"min", m/60, m%60)
}

// thousands writes a count with thin spaces between groups of three digits.
func thousands[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + thin + s[i:]
	}
	return s
}

// defenseName is how a defense reads in a table.
func defenseName(d string) string {
	if d == "none" || d == "" {
		return "baseline"
	}
	return clean(d)
}

// clean keeps a name on one line: control characters, which no format can show
// and XML forbids, become U+FFFD.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case unicode.IsControl(r), r == 0xFFFE, r == 0xFFFF, unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// uniqueSlug makes a name safe as part of a file name and an anchor: letters,
// digits, dot, dash and underscore of ASCII, not starting with a dot. Names that
// fall together (also on file systems that fold case) are numbered.
func uniqueSlug(name string, taken map[string]bool) string {
	slug := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, name)
	slug = strings.TrimLeft(slug, ".")
	slug = slug[:min(len(slug), 100)]
	if slug == "" {
		slug = "suite"
	}
	for base, i := slug, 2; taken[strings.ToLower(slug)]; i++ {
		slug = fmt.Sprintf("%s-%d", base, i)
	}
	taken[strings.ToLower(slug)] = true
	return path.Base(slug)
}
