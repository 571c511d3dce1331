// Package numbers reads tables of numbers from text.
package numbers

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Parse reads a row of numbers from each line: CSV, whose first line may name the columns, or JSON lines, each a number
// or a list. If the rows have names, their first field is left out. All rows must have as many numbers, all finite.
func Parse(text string, named bool) (width int, values []float32, err error) {
	for i, line := range strings.Split(strings.TrimRight(text, "\r\n"), "\n") {
		line = strings.TrimSpace(line)
		if inner, ok := strings.CutPrefix(line, "["); ok {
			line = strings.TrimSuffix(inner, "]")
		}
		fields := strings.Split(line, ",")
		if named {
			fields = fields[1:]
		}
		if len(fields) == 0 {
			return 0, nil, fmt.Errorf("line %d has no numbers", i+1)
		}
		if _, err := strconv.ParseFloat(fields[0], 32); i == 0 && fields[0] != "" && errors.Is(err, strconv.ErrSyntax) {
			continue // names
		}
		if width > 0 && len(fields) != width {
			return 0, nil, fmt.Errorf("line %d has %d numbers, those before it %d", i+1, len(fields), width)
		}
		width = len(fields)
		for _, field := range fields {
			v, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return 0, nil, fmt.Errorf("line %d: %.40q is no number", i+1, field)
			}
			values = append(values, float32(v))
		}
	}
	if width == 0 {
		err = errors.New("behind line 1, which names columns, there are no numbers")
	}
	return width, values, err
}
