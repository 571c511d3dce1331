package setting

import (
	"math"
	"reflect"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	whole, positive := Setting{Type: Whole, Within: Count}, Setting{Type: Number, Within: Positive}
	flag, choice := Setting{Type: Flag}, Setting{Type: Choice, Choices: []string{"ce", "dlr"}}
	for _, c := range []struct {
		of    Setting
		given any
		want  any // an error's text, or the value
	}{
		{whole, 3, 3}, {whole, 3., 3}, {whole, "3", 3}, {whole, uint64(3), 3}, {whole, int64(3), 3},
		{whole, 2.5, "must be a whole number from 1 up, not 2.5"},
		{whole, "3.0", `must be a whole number from 1 up, not "3.0"`},
		{whole, 0, "must be a whole number from 1 up, not 0"},
		{whole, 1e12, "must be a whole number from 1 up to 2147483647, not 1e+12"},
		{whole, "9223372036854775807",
			`must be a whole number from 1 up to 2147483647, not "9223372036854775807"`},
		{Setting{Type: Number, Within: Interval{Min: 1, Max: 2}}, 3, "must be a number from 1 to 2, not 3"},
		{whole, nil, "must be a whole number from 1 up, not <nil>"},
		{positive, "8/255", 8. / 255}, {positive, 3, 3.}, {positive, float32(.5), .5},
		{positive, "1/0", `must be a number above 0, such as 0.5 or 8/255, not "1/0"`},
		{positive, math.Inf(1), "must be a number above 0, such as 0.5 or 8/255, not +Inf"},
		{positive, math.NaN(), "must be a number above 0, such as 0.5 or 8/255, not NaN"},
		{flag, true, true}, {flag, "False", false},
		{flag, 1, "must be true or false, not 1"},
		{choice, "dlr", "dlr"},
		{choice, "Dlr", `must be one of ce, dlr, not "Dlr"`},
	} {
		got, err := c.of.Read(c.given)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %v, want %v", c.given, got, c.want)
		}
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   Interval
		text string
		has  []float64
		not  []float64
	}{
		{Any, "", []float64{-1e300, 0}, []float64{math.NaN(), math.Inf(1), math.Inf(-1)}},
		{Positive, " above 0", []float64{1e-300, 1e300}, []float64{0, -1}},
		{NotNegative, " from 0 up", []float64{0, 1}, []float64{-1}},
		{Fraction, " above 0 and up to 1", []float64{1e-9, 1}, []float64{0, 1.1}},
		{BelowOne, " from 0 up and below 1", []float64{0, .9}, []float64{-.1, 1}},
		{Count, " from 1 up", []float64{1, math.MaxInt32}, []float64{0, math.MaxInt32 + 1}},
		{Interval{Min: 1e-6, Max: .5}, " from 0.000001 to 0.5", []float64{1e-6, .5}, []float64{0, .6}},
		{Interval{Min: math.Inf(-1), Max: 2}, " up to 2", []float64{-5, 2}, []float64{3}},
	} {
		if c.in.String() != c.text {
			t.Errorf("%v reads %q, want %q", c.in, c.in.String(), c.text)
		}
		for _, v := range c.has {
			if !c.in.Holds(v) {
				t.Errorf("%v: %v is in%s", c.in, v, c.text)
			}
		}
		for _, v := range c.not {
			if c.in.Holds(v) {
				t.Errorf("%v: %v is not in%s", c.in, v, c.text)
			}
		}
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	number := func(bounds object, sign string) object {
		digits := `([eE][-+]?[0-9]+)?\s*`
		return object{"anyOf": []object{bounds,
			{"type": "string", "pattern": `^\s*` + sign + `[0-9.]+` + digits + `/\s*\+?[0-9.]+` + digits + `$`}}}
	}
	for _, c := range []struct {
		of   Setting
		want object
	}{
		{Setting{Type: Whole, Within: Interval{Max: 9}}, object{"type": "integer", "minimum": 0., "maximum": 9.}},
		{Setting{Type: Number, Within: Any}, number(object{"type": "number"}, `[-+]?`)},
		{Setting{Type: Number, Within: Positive}, number(object{"type": "number", "exclusiveMinimum": 0.}, `\+?`)},
		{Setting{Type: Number, Within: BelowOne},
			number(object{"type": "number", "minimum": 0., "exclusiveMaximum": 1.}, `\+?`)},
		{Setting{Type: Flag}, object{"type": "boolean"}},
		{Setting{Type: Choice, Choices: []string{"ce"}}, object{"enum": []string{"ce"}}},
	} {
		if got := c.of.Schema(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v\nwant %v", got, c.want)
		}
	}
}

func TestDefaultText(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Setting{
		"100": {Default: 100}, "8/255": {Default: 8. / 255}, "false": {Default: false}, "ce": {Default: "ce"},
		"epsilon/4": {Rule: "epsilon/4"}} {
		if got := s.DefaultText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
