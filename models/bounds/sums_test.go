package bounds

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

// Nothing is proved about sums that may leave int32, by any method and by cuts, over a box, a ball and a part of them;
// and no point of the file beats a bound. If the sums stay within int32, the class is proved. A file has each method in
// one norm, in turn; with SELFHEAL_TEST_LARGE in all.
func TestSumsLeaveInt32(t *testing.T) {
	testinput.Runtime(t)
	for turn, c := range onnxtest.Overflowing() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			g := onnxtest.Open(t, c.Data)
			if err := Provable(g); err != nil {
				if !ort.Saturates() {
					t.Error(err)
				}
				t.Skip(err)
			}
			n := ready(t, g, Unit)
			file := must.Get(ort.OpenOriginal(c.Name, &onnx.File{Data: c.Data}, ""))(t)
			defer file.Close()
			gray := func(v float32) []float32 { return slices.Repeat([]float32{v}, 192) }
			rows := n.MarginRows(c.Label)
			ones := must.Get(file.Run(gray(1)))(t)
			hold := func(method string, region Region, found []Bound) {
				t.Helper()
				for x := range slices.Chunk(drawn(region, rand.New(rand.NewPCG(1, 2)), 20), 192) {
					if err := beaten(must.Get(file.Run(x))(t), rows, found); err != nil {
						t.Errorf("%s: %v", method, err)
					}
				}
			}
			for m, method := range []Method{IBP, CROWN, AlphaCROWN} {
				for p, norm := range []float64{inf, 2, 1} {
					if (turn+m+p)%3 != 0 && !testinput.Large() {
						continue
					}
					if norm != inf && n.size(n.stages[0].tensor) > 10_000 {
						continue // where each of so many values takes a walk
					}
					radius := 0.1 * map[float64]float64{1: 192, 2: math.Sqrt(192), inf: 1}[norm]
					region := Ball(gray(0.5), norm, radius/map[float64]float64{1: 4, 2: 2, inf: 1}[norm], 0, 1)
					found := must.Get(n.Rows(t.Context(), method, region, rows))(t)
					if hold(string(method), region, found); !Positive(found) && (method != IBP || norm == inf) {
						t.Errorf("l%g, %s: the class of grey 0.5 is not proven: %v", norm, method, found)
					}
					region = Ball(gray(0.97), norm, 0.5*radius, 0, 1)
					found = must.Get(n.Rows(t.Context(), method, region, rows))(t)
					if hold(string(method), region, found); Positive(found) {
						t.Errorf("l%g, %s: a class is proven, and the file gives %v for ones", norm, method, ones)
					}
				}
			}
			region := Region{Lower: gray(0.95), Upper: gray(1)}
			root := must.Get(n.Root(t.Context(), region))(t)
			for r := range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				_, proven, err := root.Branch(ctx, rows[3*r:3*r+3], []float64{0}, 1, nil)
				if cancel(); ctx.Err() == nil {
					must.Do(t, err)
				}
				if margin := products(rows[3*r:3*r+3], 3, ones)[0]; proven && margin <= 0 {
					t.Errorf("branching proves margin %d, which is %g for ones", r, margin)
				}
			}
			part := must.Get(n.Part(t.Context(), Region{Lower: gray(0.99), Upper: gray(1)}, rows,
				must.Get(n.Part(t.Context(), region, rows, nil, nil))(t), nil))(t)
			if Positive(part.Bounds) {
				t.Error("a class is proven over a part")
			}
		})
	}
}
