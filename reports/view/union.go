package view

import (
	"fmt"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// Unions returns a line for the worst case of each row, such as "robust accuracy 38.0 % [31.6, 44.9] of mine under each
// of aa-linf, aa-l2, 200 images".
func Unions(f *result.File) (lines []string) {
	for _, u := range f.Unions() {
		c := u.Judged
		said := fmt.Sprintf("robust accuracy %.1f %% [%.1f, %.1f] of %s", 100*c.Accuracy, 100*c.CI95[0], 100*c.CI95[1],
			words.Clean(u.Model))
		said += words.If(u.Defense != cell.None, " with "+words.Clean(u.Defense))
		said += " under each of " + strings.Join(lists.Map(u.Attacks, words.Clean), ", ")
		said += words.If(len(u.Attacks) == 1, " in each way")
		lines = append(lines, said+", "+strings.ReplaceAll(words.Plural(c.N, "image"), words.Nbsp, " ")+
			words.If(len(f.Suites) > 1, ", suite "+words.Clean(u.Suite)))
	}
	return lines
}
