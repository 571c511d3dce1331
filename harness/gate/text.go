package gate

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

// plain makes a name fit for a line of a terminal or an XML document: characters that are
// not shown become U+FFFD. Names of a config have none; a file may hold anything.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.IsSpace(r) && r != ' ' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// markdown makes text fit for a cell of a Markdown table: it shows as it is.
var markdown = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, `\`, `\\`, "`", "\\`", "*", `\*`,
	"_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`, "@", "&#64;", "#", "&#35;").Replace

// points is a share in percentage points, with the digits that it takes and at most two.
func points(share float64) string {
	s := fmt.Sprintf("%.2f", 100*share)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// signed is a change in points, to a tenth, with its sign; no change has none.
func signed(share float64) string {
	if math.Abs(share) < 0.0005 {
		return "0.0"
	}
	return fmt.Sprintf("%+.1f", 100*share)
}

func percent(share float64) string { return fmt.Sprintf("%.1f", 100*share) }

// probability is a p-value to two digits.
func probability(p float64) string {
	switch {
	case p < 0.0001:
		return "<0.0001"
	case p < 0.01:
		return fmt.Sprintf("%.4f", p)
	}
	return fmt.Sprintf("%.2f", p)
}

// andMore lists the first of some names, with how many more there are.
func andMore(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// count is "1 cell", "2 cells".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
