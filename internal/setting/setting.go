// Package setting describes the settings of a config. A [Setting] is a row of a table; decoding, JSON Schema, help and
// documentation are made from it.
package setting

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"selfheal/internal/number"
)

// Type is the type of a setting's value.
type Type int

// The types.
const (
	Whole  Type = iota // an int
	Number             // a float64; a config may write a fraction, such as 8/255
	Flag               // a bool
	Choice             // a string, one of several
	Time               // a [Seconds]; a config writes 10s or 1m30s
)

// Seconds is a length of time, written as 10s or 1m30s.
type Seconds float64

func (s Seconds) String() string { return time.Duration(float64(s) * float64(time.Second)).String() }

// MarshalText writes what [Setting.Read] reads.
func (s Seconds) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Setting describes one setting.
type Setting struct {
	Name    string
	Type    Type
	Within  Interval // for a whole number or a number
	Choices []string // for a choice
	// Default is an int, float64, bool or string, by Type; nil if it follows from other settings. Rule then says how,
	// for example "epsilon/4".
	Default any
	Rule    string
	Unit    string // of a number; "" for none
	Doc     string // one line, without a full stop
}

// Interval is a set of numbers.
type Interval struct {
	Min, Max     float64
	Above, Below bool // Min, or Max, is excluded
}

// Intervals that several settings share.
var (
	Any         = Interval{Min: math.Inf(-1), Max: math.Inf(1)}
	Positive    = Interval{Max: math.Inf(1), Above: true}
	NotNegative = Interval{Max: math.Inf(1)}
	Fraction    = Interval{Max: 1, Above: true}
	BelowOne    = Interval{Max: 1, Below: true}
	Count       = Interval{Min: 1, Max: math.MaxInt32}
)

// large is an upper bound that messages do not mention.
const large = 1e9

// Holds reports whether a finite number lies in the interval.
func (r Interval) Holds(v float64) bool {
	low, high := v >= r.Min && !(r.Above && v == r.Min), v <= r.Max && !(r.Below && v == r.Max)
	return low && high && !math.IsInf(v, 0)
}

// String describes the interval, to follow "a number": " above 0 and up to 1".
func (r Interval) String() string {
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	least, most := " from "+text(r.Min)+" up", " up to "+text(r.Max)
	if r.Above {
		least = " above " + text(r.Min)
	}
	if r.Below {
		most = " below " + text(r.Max)
	}
	low, high := !math.IsInf(r.Min, 0), r.Max < large
	switch {
	case low && high && !r.Above && !r.Below:
		return " from " + text(r.Min) + " to " + text(r.Max)
	case low && high:
		return least + " and" + most
	case low:
		return least
	case high:
		return most
	}
	return ""
}

// Want says what a value must be: "a whole number from 1 up", "one of ce, dlr, margin".
func (s Setting) Want() string {
	switch s.Type {
	case Whole:
		return "a whole number" + s.Within.String()
	case Number:
		if s.Within == Positive {
			return "a number above 0, such as 0.5 or 8/255"
		}
		return "a number" + s.Within.String()
	case Flag:
		return "true or false"
	case Time:
		return "a length of time, such as 10s or 1m30s"
	}
	return "one of " + strings.Join(s.Choices, ", ")
}

// Wanted is Want, which omits large upper bounds, but names the bound if text is a number above it.
func (s Setting) Wanted(text string) string {
	f, ok := number.Parse(text)
	if most := s.Within.Max; ok && f > most && most >= large && (s.Type == Whole || s.Type == Number) {
		return strings.TrimSuffix(s.Want(), " up") + " up to " + strconv.FormatFloat(most, 'f', -1, 64)
	}
	return s.Want()
}

// Read takes any Go number, a bool or text, and returns an int, float64, bool, string or [Seconds], by Type. The error
// says what the value must be, without the setting's name.
func (s Setting) Read(v any) (any, error) {
	if value, ok := s.read(v); ok {
		return value, nil
	}
	want := s.Wanted(fmt.Sprint(v))
	if text, ok := v.(string); ok {
		v = strconv.Quote(text)
	}
	return nil, fmt.Errorf("must be %s, not %v", want, v)
}

func (s Setting) read(v any) (any, bool) {
	text, isText := v.(string)
	switch s.Type {
	case Flag:
		if isText {
			return strings.EqualFold(text, "true"), strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
		}
		b, ok := v.(bool)
		return b, ok
	case Choice:
		return text, slices.Contains(s.Choices, text)
	case Time:
		if known, is := v.(Seconds); is {
			return known, true
		}
		d, err := time.ParseDuration(text)
		return Seconds(d.Seconds()), err == nil && s.Within.Holds(d.Seconds())
	case Whole:
		if isText {
			n, err := strconv.Atoi(text)
			return n, err == nil && s.Within.Holds(float64(n))
		}
		f, ok := float(v)
		return int(f), ok && f == math.Trunc(f) && s.Within.Holds(f)
	}
	f, ok := float(v)
	if isText {
		f, ok = number.Parse(text)
	}
	return f, ok && s.Within.Holds(f)
}

func float(v any) (float64, bool) {
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return float64(n.Int()), true
	case n.CanUint():
		return float64(n.Uint()), true
	case n.CanFloat():
		return n.Float(), true
	}
	return 0, false
}

// DefaultText returns the default as a reader sees it: "100", "8/255", "false", "epsilon/4".
func (s Setting) DefaultText() string {
	switch v := s.Default.(type) {
	case nil:
		return s.Rule
	case float64:
		return number.Format(v)
	default:
		return fmt.Sprint(v)
	}
}

// fraction matches a number written as a fraction in a config, such as 8/255.
const fraction = `^\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?\s*/\s*\+?[0-9.]+([eE][-+]?[0-9]+)?\s*$`

// Schema returns the JSON Schema of a value: its type, and bounds or words.
func (s Setting) Schema() map[string]any {
	type schema = map[string]any
	switch s.Type {
	case Flag:
		return schema{"type": "boolean"}
	case Choice:
		return schema{"enum": s.Choices}
	case Time:
		return schema{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`}
	}
	bounds := schema{"type": "integer"}
	bound := func(v float64, open bool, key, strict string) {
		if open {
			key = strict
		}
		if !math.IsInf(v, 0) {
			bounds[key] = v
		}
	}
	bound(s.Within.Min, s.Within.Above, "minimum", "exclusiveMinimum")
	bound(s.Within.Max, s.Within.Below, "maximum", "exclusiveMaximum")
	if s.Type == Whole {
		return bounds
	}
	bounds["type"] = "number"
	pattern := fraction
	if s.Within.Min >= 0 {
		pattern = strings.Replace(pattern, "[-+]?", `\+?`, 1)
	}
	return schema{"anyOf": []schema{bounds, {"type": "string", "pattern": pattern}}}
}
