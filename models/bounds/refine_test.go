package bounds

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/tree"
	"selfheal/models/onnx/simplify"
)

// No point's values leave the bounds of the stages' inputs that are refined, and these are tighter than CROWN's.
// A network has two of the three norms, in turn; with SELFHEAL_TEST_LARGE all.
func TestRefine(t *testing.T) {
	for turn, name := range cuttable {
		n := prepared(t, "testdata/"+name+".onnx", simplify.Options{}, Unit)
		run := observed(t, n)
		rng := rand.New(rand.NewPCG(41, 42))
		tighter, all := 0, 0
		for trial, region := range balls(n, rng, wide, 3) {
			if trial == turn%3 && !testinput.Large() {
				continue
			}
			root := must.Get(n.Root(t.Context(), region))(t)
			refined := must.Get(root.refine(t.Context()))(t)
			out := run(region, rng, 400)
			for i, s := range n.stages {
				was, is := root.proof.known[i], refined.proof.known[i]
				size := n.size(s.tensor)
				for j := range size {
					if !(is.lower[j] >= was.lower[j] && is.upper[j] <= was.upper[j]) {
						t.Fatalf("%s: [%g, %g] became [%g, %g]", name, was.lower[j], was.upper[j], is.lower[j],
							is.upper[j])
					}
					if !s.joins() && s.bends(float64(was.lower[j]), float64(was.upper[j])) {
						if all++; is.upper[j]-is.lower[j] < 0.999*(was.upper[j]-was.lower[j]) {
							tighter++
						}
					}
					for p := range 400 {
						if z := out[1+i].Data[p*size+j]; !(z >= is.lower[j] && z <= is.upper[j]) {
							t.Fatalf("%s: a value of %g, proven was [%g, %g]", name, z, is.lower[j], is.upper[j])
						}
					}
				}
			}
		}
		t.Logf("%s: %d of %d values that bend have tighter bounds", name, tighter, all)
		if free := len(n.free.free) > 0; free != (tighter > 0) {
			t.Errorf("%s: slopes are free: %v, %d bounds are tighter", name, free, tighter)
		}
	}
}

// Branching that takes long begins again with refined bounds, once for all rows.
func TestLongBranchingRefines(t *testing.T) {
	n := resNet2B(t)
	x, label := realImages(t)(17)
	root := must.Get(n.Root(t.Context(), Ball(x, inf, 2./255, 0, 1)))(t)
	k, rows := n.Classes(), n.MarginRows(label)
	part := must.Get(root.Part(t.Context(), rows, nil))(t)
	within, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var count tree.Count
	for i, b := range part.Bounds {
		if b.Least() > 0 {
			continue
		}
		early := root.refined
		_, proven, err := root.Branch(within, rows[i*k:(i+1)*k], []float64{0}, 1, &count)
		if !proven || err != nil {
			t.Fatalf("row %d: proven %v, %v", i, proven, err)
		}
		if early != nil { // and a row has taken it
			if root.refined != early {
				t.Error("it was refined twice")
			}
			break
		}
	}
	t.Logf("%d parts", count.Examined.Load())
	if root.refined == nil {
		t.Error("it was not refined")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	fresh := must.Get(n.Root(t.Context(), Ball(x, inf, 2./255, 0, 1)))(t)
	if _, err := fresh.refine(ctx); err == nil {
		t.Error("a stopped refinement went on")
	}
}
