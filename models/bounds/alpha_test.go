package bounds

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/simplify"
)

// The gradients by free slopes, and by multipliers of cuts, are those of central differences, with the input's points
// held.
func TestGradientOfFreeSlopes(t *testing.T) {
	for _, name := range []string{"residual", "joined", "pooled"} {
		n := prepared(t, "testdata/"+name+".onnx", simplify.Options{}, 0)
		rng := rand.New(rand.NewPCG(5, 6))
		x := make([]float32, n.size(n.input))
		for i := range x {
			x[i] = rng.Float32()
		}
		p := &proof{Network: n, region: Ball(x, inf, 0.05, 0, 1), steps: alphaSteps,
			known: make([]*relaxation, len(n.stages))}
		for i, s := range n.stages {
			r := must.Get(p.interval(&s.target))(t)
			p.relax(s, r)
			p.known[i] = r
		}
		rows := []float32{1, -1, 0.5, -0.25, 0}
		all := len(n.stages)
		prog := must.Get(n.withCuts())(t)
		perStage := func() [][]float32 { return make([][]float32, all) }
		own := &slopes{make([]float32, len(x)), perStage(), perStage(), perStage(), perStage(), perStage()}
		for _, s := range n.free.free {
			own.steps[s.index] = slices.Clone(p.known[s.index].ports[stepPort])
			own.betas[s.index] = make([]float32, len(own.steps[s.index]))
			for j := range own.steps[s.index] { // away from the range's ends
				if s.bends(float64(p.known[s.index].lower[j]), float64(p.known[s.index].upper[j])) {
					own.steps[s.index][j] = float32(0.3+0.4*rng.Float64()) - p.known[s.index].ports[slopePort][j]
					own.betas[s.index][j] = float32(0.2 * rng.NormFloat64())
				}
			}
		}
		wrong := make([]float32, n.Classes())
		value := func() float64 { // at the points that are held
			held := slices.Clone(own.at)
			b := must.Get(p.run(context.Background(), prog, n.output.segment, wrong, rows, own))(t)[0].Value
			copy(own.at, held)
			return b
		}
		value()
		must.Get(p.run(context.Background(), prog, n.output.segment, wrong, rows, own))(t) // takes the points
		value()                                                                            // gradients at them
		check := func(s *stage, what string, steps, gradient []float32) {
			gradient = slices.Clone(gradient)
			direction := make([]float32, len(steps))
			want := 0.0
			for j := range direction {
				if s.bends(float64(p.known[s.index].lower[j]), float64(p.known[s.index].upper[j])) {
					direction[j] = float32(rng.NormFloat64())
					want += float64(direction[j]) * float64(gradient[j])
				}
			}
			const h = 1e-3
			at := slices.Clone(steps)
			move := func(by float32) float64 {
				for j := range steps {
					steps[j] = at[j] + by*direction[j]
				}
				return value()
			}
			got := (move(h) - move(-h)) / (2 * h)
			copy(steps, at)
			if math.Abs(got-want) > 1e-2*(1+math.Abs(want)) {
				t.Errorf("%s, stage %d: by %s %.6g, central differences %.6g", name, s.index, what, want, got)
			}
		}
		for _, s := range n.free.free {
			check(s, "slopes", own.steps[s.index], own.gradients[s.index])
			value()
			check(s, "multipliers", own.betas[s.index], own.betaGradients[s.index])
		}
	}
}

// Of 200 images of ResNet-2B, of which PGD leaves 119 at 1/255 and 110 at 2/255, so many are proven to stand, and with
// free slopes no fewer.
func TestCertifiedImages(t *testing.T) {
	n, image := resNet2B(t), realImages(t)
	images := 5
	if testinput.Large() {
		images = 200
	}
	for _, c := range []struct {
		epsilon float64
		proven  int
	}{{1. / 255, 112}, {2. / 255, 40}} {
		certified := map[Method]int{}
		for i := range images {
			x, label := image(i)
			for _, method := range []Method{CROWN, AlphaCROWN} {
				ball := Ball(x, inf, c.epsilon, 0, 1)
				margins := must.Get(n.Margins(context.Background(), method, ball, label, nil))(t)
				if !slices.ContainsFunc(margins, func(b Bound) bool { return b.Least() <= 0 }) {
					certified[method]++
				}
			}
		}
		t.Logf("%d images, %.4f: certified %v", images, c.epsilon, certified)
		if certified[AlphaCROWN] < certified[CROWN] || images == 200 && certified[CROWN] < c.proven {
			t.Errorf("too few")
		}
	}
}
