// Package numbers reads tables of numbers from text.
package numbers

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Parse reads a row of numbers from each line that is not blank: CSV, whose first line may name the columns, or JSON
// lines, each a number or a list. If the rows have names, their first field is left out. All rows must have as many
// numbers, all finite.
func Parse(text string, named bool) (width int, values []float32, err error) {
	begun := false
	for i, line := range strings.Split(strings.TrimRight(text, "\r\n"), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if inner, ok := strings.CutPrefix(line, "["); ok {
			line = strings.TrimSuffix(inner, "]")
		}
		fields, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil {
			return 0, nil, fmt.Errorf("line %d: %.40q is no row of CSV", i+1, line)
		}
		if named {
			fields = fields[1:]
		}
		if len(fields) == 0 {
			return 0, nil, fmt.Errorf("line %d has no numbers", i+1)
		}
		_, err = strconv.ParseFloat(fields[0], 32)
		names := !begun && fields[0] != "" && errors.Is(err, strconv.ErrSyntax)
		if begun = true; names {
			continue
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
		err = errors.New("it has no numbers, or names of columns alone")
	}
	return width, values, err
}

// Pair is two images, by their paths, and 1 if they show the same, else 0.
type Pair struct {
	A, B string
	Same float32
}

// Pairs reads a list of pairs. By commas, a line has two paths and 1 or 0; the first may name the columns. Else it is
// in LFW's form: a line has a name and the numbers of two of its images, or a name and number twice. The k-th image of
// a name is the path NAME/NAME_000k without an extension. The first line may have the numbers of folds and of pairs.
func Pairs(text string, commas bool) (all []Pair, err error) {
	begun := false
	for i, line := range strings.Split(text, "\n") {
		var pair Pair
		heading := false
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if commas {
			f, _ := csv.NewReader(strings.NewReader(line)).Read()
			for k := range f {
				f[k] = strings.TrimSpace(f[k])
			}
			heading = len(f) == 3 && strings.ContainsFunc(f[2], unicode.IsLetter)
			if len(f) == 3 && (f[2] == "0" || f[2] == "1") {
				pair = Pair{A: f[0], B: f[1], Same: float32(f[2][0] - '0')}
			}
		} else {
			f := strings.Fields(line)
			_, err := strconv.ParseUint(strings.Join(f, ""), 10, 64)
			heading = len(f) < 3 && err == nil
			switch len(f) {
			case 3:
				pair = Pair{A: numbered(f[0], f[1]), B: numbered(f[0], f[2]), Same: 1}
			case 4:
				pair = Pair{A: numbered(f[0], f[1]), B: numbered(f[2], f[3])}
			}
		}
		switch {
		case pair.A != "" && pair.B != "":
			all = append(all, pair)
		case begun || !heading:
			return nil, fmt.Errorf("line %d is no pair: NAME N M or NAME N NAME M, or as .csv FILE,FILE,1 or 0", i+1)
		}
		begun = true
	}
	return all, nil
}

// numbered returns the path of one of LFW's images, or "".
func numbered(name, n string) string {
	k, err := strconv.ParseUint(n, 10, 16)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%s_%04d", name, name, k)
}
