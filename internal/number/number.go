// Package number reads and writes numbers in the forms that people use: 12, 0.5, 1e-3, 8/255. [Parse] reads what
// [Format] writes. Sums and products of counts stop at the largest int64.
package number

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var decimal = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// Parse reads a decimal number, or a fraction of two, divided in float64. The number is finite; ok is false for any
// other text.
func Parse(s string) (v float64, ok bool) {
	above, below, fraction := strings.Cut(s, "/")
	v, ok = parseDecimal(above)
	if fraction && ok {
		var w float64
		w, ok = parseDecimal(below)
		v /= w
	}
	return v, ok && Finite(v)
}

func parseDecimal(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && decimal.MatchString(s)
}

// Format writes k/255 if the number is such a fraction (within 1e-9, relative) and no short decimal equals it,
// otherwise the shortest decimal. A small k may have quarters, and one below 1 hundredths: 1.75/255, 0.01/255.
func Format(v float64) string {
	short := strconv.FormatFloat(v, 'f', -1, 64)
	k := math.Round(v * 255)
	switch {
	case v*255 < 1:
		k = math.Round(v*255*100) / 100
	case k < 10:
		k = math.Round(v*255*4) / 4
	}
	if len(short) > len("0.1234") && k > 0 && k <= 255 && math.Abs(v*255-k) <= 1e-9*k {
		return strconv.FormatFloat(k, 'f', -1, 64) + "/255"
	}
	return short
}

// Bytes writes a number of bytes, 0 or more, in the largest unit that it reaches: 1.5 MiB, 76 MiB, 2 GiB.
func Bytes[N int | int64 | uint64](n N) string {
	v, unit := float64(n), 0
	for ; v >= 1023.5 && unit < len(units)-1; unit++ {
		v /= 1024
	}
	decimals := 0
	if tenths := math.Round(v * 10); tenths < 100 && math.Mod(tenths, 10) != 0 {
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + " " + units[unit]
}

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Probability writes a p-value with three digits: 0.0479, not 0.05.
func Probability(p float64) string {
	if p < 0.0001 {
		return "<0.0001"
	}
	return fmt.Sprintf("%#.3g", p)
}

// Product multiplies numbers that are 0 or more, and stops at the largest int64.
func Product[N int | int64](factors ...N) int64 {
	product := uint64(1)
	for _, f := range factors {
		over, low := bits.Mul64(product, uint64(f))
		if product = low; over > 0 || low > math.MaxInt64 {
			product = math.MaxInt64
		}
		if f == 0 {
			return 0
		}
	}
	return int64(product)
}

// Sum adds numbers that are 0 or more, and stops at the largest int64.
func Sum(terms ...int64) (sum int64) {
	for _, t := range terms {
		if sum += t; sum < 0 {
			return math.MaxInt64
		}
	}
	return sum
}

// Finite reports whether no number is NaN or infinite.
func Finite(all ...float64) bool {
	return !slices.ContainsFunc(all, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

// Any is a number that may be NaN or infinite: in JSON, which has no such numbers, those are strings.
type Any float64

// MarshalJSON writes a number, or NaN, +Inf or -Inf as a string.
func (v Any) MarshalJSON() ([]byte, error) {
	if !Finite(float64(v)) {
		return json.Marshal(strconv.FormatFloat(float64(v), 'g', -1, 64))
	}
	return json.Marshal(float64(v))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Any) UnmarshalJSON(text []byte) error {
	var word string
	if json.Unmarshal(text, &word) != nil {
		return json.Unmarshal(text, (*float64)(v))
	}
	f, err := strconv.ParseFloat(word, 64)
	*v = Any(f)
	return err
}
