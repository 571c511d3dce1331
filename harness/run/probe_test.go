package run

import (
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/internal/must"
)

// A network that was trained is neither random nor unstable, by as many answers an image as are said.
func TestProbe(t *testing.T) {
	o, b := bench(t)
	f := &probedFile{on: b.Net}
	must.Do(t, b.Net.AnsweredBy(f))
	clean := make([]judge.Verdict, b.Set.Len())
	clean[0].Right, clean[2].Right = true, true
	w := must.Get(probe(t.Context(), b, open.Alone(b.Net), o.Config.Seed, clean))(t)
	if n := f.asked.Load(); len(w) > 0 || n != 2*ProbePasses {
		t.Errorf("%+v after %d answers, want %d", w, n, 2*ProbePasses)
	}
	under := open.Classifier{Info: open.Info{Control: &open.ControlInfo{}}}
	if alone, few := Probed(open.Alone(b.Net)), Probed(under); alone != probed || few != probedControlled {
		t.Errorf("%d images are probed, %d under a control", alone, few)
	}
}

// Answers that do not look like logits have a warning.
func TestAnswers(t *testing.T) {
	_, b := bench(t)
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
		model, one := *b.Model, *b.Job
		model.Output, one.Model = c.output, &model
		var got []string
		for _, w := range answers(scoring{Step: plan.Step{Job: &one}, who: open.Classifier{Info: open.Info{Model: "m",
			Classes: c.classes}}}, c.v) {
			got = append(got, w.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d classes, output %q, %v: %v, want %q", c.classes, c.output, c.v, got, c.want)
		}
	}
}

// Normalised answers are compared by their directions.
func TestNormalisedDistance(t *testing.T) {
	for _, c := range []struct {
		a, b []float32
		want float64
	}{{[]float32{3, 4}, []float32{6, 8}, 0}, {[]float32{1, 0}, []float32{0, 2}, math.Sqrt2},
		{[]float32{1, 0}, []float32{-1, 0}, 2}, {[]float32{3, 4}, []float32{4, 3}, math.Sqrt(0.08)}} {
		if got := normalisedDistance(c.a, c.b); math.Abs(got-c.want) > 1e-7 {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
