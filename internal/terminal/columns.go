package terminal

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Columns aligns the rows of a table as lines, indented by two spaces: columns of words to the left, all others to the
// right. It counts widths as a terminal shows them. Every row has as many cells as the first.
func Columns(rows [][]string, words func(column int) bool) []string {
	width := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], uniseg.StringWidth(cell))
		}
	}
	var lines []string
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-uniseg.StringWidth(cell))
			if words(i) {
				line += "  " + cell + pad
			} else {
				line += "  " + pad + cell
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}
