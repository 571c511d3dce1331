package run

import (
	"math"
	"testing"

	"selfheal/harness/judge"
	"selfheal/harness/open"
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
