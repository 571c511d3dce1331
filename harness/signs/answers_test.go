package signs

import (
	"slices"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/judge"
	"selfheal/harness/open"
)

// Answers that do not look like logits have a warning.
func TestAnswers(t *testing.T) {
	sums := func(all ...float64) (v []judge.Verdict) {
		for _, s := range all {
			v = append(v, judge.Verdict{Sum: s})
		}
		return v
	}
	many := func(n int, v judge.Verdict) []judge.Verdict { return slices.Repeat([]judge.Verdict{v}, n) }
	for _, c := range []struct {
		classes int
		output  string
		v       []judge.Verdict
		want    string
	}{
		{10, "", many(5, judge.Verdict{}), ""},
		{10, "", many(5, judge.Verdict{Simplex: true}), "probabilities"},
		{10, "", append(many(5, judge.Verdict{Simplex: true}), judge.Verdict{}), ""},
		{10, "", many(5, judge.Verdict{Unit: true}), "embeddings"},
		{10, "", append(many(5, judge.Verdict{Unit: true}), judge.Verdict{}), ""},
		{10, "", many(1, judge.Verdict{Unit: true}), ""}, // ten numbers are too few
		{10, "", many(2, judge.Verdict{Unit: true}), "embeddings"},
		{10, "", sums(2, 3, 4), "sigmoids"}, {10, "", sums(2, 0, 4), ""}, {10, "", sums(2, 2.0005, 2), ""},
		{10, "", sums(0.001, 0.002), ""}, // apart by 1e-3 and no more
		{2, "", sums(slices.Repeat([]float64{0.5, 0.25}, 6)...), "sigmoids"},
		{2, "", sums(slices.Repeat([]float64{0.5, 0.5}, 6)...), "sigmoids"},
		{2, "", sums(slices.Repeat([]float64{1, 1}, 6)...), ""},
		{10, "probabilities", many(5, judge.Verdict{Logs: true}), ""},
		{10, "probabilities", append(many(5, judge.Verdict{Logs: true}), judge.Verdict{}), "no-probabilities"},
		{10, "label", many(5, judge.Verdict{Simplex: true}), ""},
	} {
		who := open.Classifier{Info: open.Info{Model: "m", Classes: c.classes}}
		var got []string
		for _, w := range Answers(&config.Model{Name: "m", Output: c.output}, who, c.v) {
			got = append(got, w.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d classes, output %q, %v: %v, want %q", c.classes, c.output, c.v, got, c.want)
		}
	}
}
