// Package planted asks whether an attack finds what is there: an active test (Zimmermann, Brendel, Tramèr and Carlini
// 2022, "Increasing Confidence in Adversarial Robustness Evaluations"). For each image a readout of the network's own
// features takes the place of its last layer, such that one known point of the ball is misclassified and random points
// of the ball are not. An attack that misses such points finds too little in the network itself, too.
//
// A random corner of the ball gives the direction in which the features are read: that in which it stands out most from
// random points. From there the planted point climbs as far as gradients and slopes ([control.Planted.Sloping]) take
// it, and the threshold is at 0.8 of the way. Random points, and a few steps of gradient ascent, do not get there.
//
// [Test] plants and attacks. It needs a [control.Planted], which the caller opens and closes.
package planted

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"selfheal/attacks"
	"selfheal/control"
)

// Options say how to plant. The zero value has the defaults.
type Options struct {
	Seed    uint64
	Samples int     // random points of the ball that a readout is fitted on; 0: 999
	Level   float64 // where the threshold lies between them (0) and the planted point (1), below 1; 0: 0.8
}

// Outcome counts images.
type Outcome struct {
	N      int // in which a point could be planted
	Found  int // of them, those in which the attack found a misclassified point
	Random int // and those in which as many random points as the attack made passes had one
	Passes int64
}

// Test plants a point for each image, which the network classifies correctly, and attacks it by a recipe's components,
// one after the other until one succeeds. The outcome depends on neither batch nor workers.
func Test(ctx context.Context, p *control.Planted, recipe attacks.Recipe, images []attacks.Image,
	o Options) (all Outcome, err error) {
	if recipe.Free || recipe.Norm == attacks.L0 {
		return all, fmt.Errorf("points are planted in balls of linf, l2 and l1, not for %s", recipe.Name)
	}
	if o.Samples == 0 {
		o.Samples = 999
	}
	if o.Level == 0 {
		o.Level = 0.8
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, im := range images {
		group.Go(func() error {
			one := &image{Planted: p, recipe: recipe, Image: im, o: o}
			found, err := one.test(ctx)
			mu.Lock()
			defer mu.Unlock()
			all.N += found.N
			all.Found += found.Found
			all.Random += found.Random
			all.Passes += found.Passes
			return err
		})
	}
	return all, group.Wait()
}

// atOnce is how many images, and how many points of each, are asked about at a time.
const atOnce = 32

// image is the test of one image.
type image struct {
	*control.Planted
	recipe attacks.Recipe
	attacks.Image
	o      Options
	passes int64
}

func (t *image) test(ctx context.Context) (found Outcome, err error) {
	defer func() { found.Passes = t.passes }()
	s, err := t.sow(ctx)
	if err != nil || s == nil {
		return found, err
	}
	found.N = 1
	spent, how := 0, attacks.Options{Seed: t.o.Seed, VerdictOnly: true}
	for _, component := range t.recipe.Components {
		res, err := component.Perturb(ctx, t.With(s.readout), t.Image, how)
		if err != nil {
			return found, err
		}
		spent += res.Forward + res.Backward
		if res.Adversarial == nil || t.recipe.Norm.Distance(res.Adversarial, t.Pixels) > t.recipe.Epsilon*(1+1e-6) {
			continue
		}
		label, err := t.answer(ctx, s.readout, res.Adversarial)
		if err != nil {
			return found, err
		}
		if label != t.Label {
			found.Found = 1
			break
		}
	}
	t.passes += int64(spent)
	largest, err := t.searched(ctx, s, spent)
	if largest > s.threshold {
		found.Random = 1
	}
	return found, err
}

// searched returns the largest score of so many random points.
func (t *image) searched(ctx context.Context, s *sown, points int) (largest float64, err error) {
	largest = math.Inf(-1)
	for from := 0; from < points && err == nil; from += t.o.Samples {
		var features [][]float64
		features, err = t.features(ctx, "search", from, min(t.o.Samples, points-from))
		for _, f := range features {
			largest = max(largest, s.score(f))
		}
	}
	return largest, err
}

// sown is a readout under which one point of the ball is misclassified.
type sown struct {
	readout   control.Readout
	weights   []float64 // of the score
	mean      []float64 // of the features of random points
	threshold float64   // of the score: above it an image is misclassified
}

func (s *sown) score(features []float64) (score float64) {
	for i, w := range s.weights {
		score += w * (features[i] - s.mean[i])
	}
	return score
}

// sow fits a readout, or returns nil if no point can be told from random ones.
func (t *image) sow(ctx context.Context) (*sown, error) {
	clean, err := t.of(ctx, t.Pixels)
	if err != nil {
		return nil, err
	}
	within, err := t.features(ctx, "sample", 0, t.o.Samples)
	if err != nil {
		return nil, err
	}
	within = append(within, clean)
	point := t.corner()
	planted, err := t.of(ctx, point)
	if err != nil {
		return nil, err
	}
	s := separate(within, planted)
	if s == nil {
		return nil, nil
	}
	highest := math.Inf(-1)
	for _, f := range within {
		highest = max(highest, s.score(f))
	}
	top := s.score(planted)
	if top, err = t.climb(ctx, s, point, top); err != nil {
		return nil, err
	}
	s.threshold = highest + t.o.Level*(top-highest)
	if !(top > s.threshold && s.threshold > s.score(clean)) {
		return nil, nil
	}
	t.read(s, clean)
	for _, c := range []struct {
		x     []float32
		right bool
	}{{t.Pixels, true}, {point, false}} {
		label, err := t.answer(ctx, s.readout, c.x)
		if err != nil || (label == t.Label) != c.right { // what follows the last layer turned it round
			return nil, err
		}
	}
	return s, nil
}

// read makes the readout of a score, whose margin at the clean image is the network's own: the label's value is half
// the margin, that of another class minus half of it, and all others are as far below.
func (t *image) read(s *sown, clean []float64) {
	narrow := floats32(len(clean))
	for i, v := range clean {
		narrow[i] = float32(v)
	}
	values := t.Values(narrow)
	margin := math.Abs(values[0])
	if len(values) > 1 {
		own := values[t.Label]
		values[t.Label] = math.Inf(-1)
		margin = math.Abs(own - slices.Max(values))
	}
	scale := margin / (s.threshold - s.score(clean))
	weights := floats32(len(s.weights))
	constant := scale * s.threshold
	for i, w := range s.weights {
		weights[i] = float32(-scale * w)
		constant += scale * w * s.mean[i]
	}
	r := control.Readout{Weights: weights, Rows: floats32(len(values)), Base: floats32(len(values))}
	if len(values) == 1 {
		r.Rows[0], r.Base[0] = 1, float32(constant)
		if t.Label == 0 {
			r.Rows[0], r.Base[0] = -1, float32(-constant)
		}
	} else {
		for k := range r.Base {
			r.Base[k] = float32(-margin)
		}
		other := t.rng("class", 0).IntN(len(values) - 1)
		if other >= t.Label {
			other++
		}
		r.Rows[t.Label], r.Base[t.Label] = 0.5, float32(constant/2)
		r.Rows[other], r.Base[other] = -0.5, float32(-constant/2)
	}
	s.readout = r
}

// separate returns the score by which a point stands out most from others: its difference from their mean, whitened by
// their covariance, as in linear discriminant analysis. It returns nil for a point that is like the others.
func separate(others [][]float64, point []float64) *sown {
	n, width := len(others), len(point)
	mean := make([]float64, width)
	for _, f := range others {
		floats.AddScaled(mean, 1/float64(n), f)
	}
	centred, trace := mat.NewDense(n, width, nil), 0.0
	for i, f := range others {
		row := centred.RawRowView(i)
		floats.SubTo(row, f, mean)
		trace += floats.Dot(row, row) / float64(n)
	}
	difference := make([]float64, width)
	floats.SubTo(difference, point, mean)
	ridge := 1e-3 * trace / float64(width)
	if !(ridge > 0) || !(floats.Norm(difference, 2) > 0) {
		return nil
	}
	// w = (XᵀX/n + λI)⁻¹d, with fewer points than features by the smaller system: (d − Xᵀ(nλI + XXᵀ)⁻¹Xd)/λ
	weights := mat.NewVecDense(width, nil)
	d := mat.NewVecDense(width, difference)
	var solver mat.Cholesky
	if n >= width {
		a := mat.NewSymDense(width, nil)
		a.SymOuterK(1/float64(n), centred.T())
		for i := range width {
			a.SetSym(i, i, a.At(i, i)+ridge)
		}
		if !solver.Factorize(a) || solver.SolveVecTo(weights, d) != nil {
			return nil
		}
	} else {
		a := mat.NewSymDense(n, nil)
		a.SymOuterK(1, centred)
		for i := range n {
			a.SetSym(i, i, a.At(i, i)+float64(n)*ridge)
		}
		var right, inner mat.VecDense
		right.MulVec(centred, d)
		if !solver.Factorize(a) || solver.SolveVecTo(&inner, &right) != nil {
			return nil
		}
		weights.MulVec(centred.T(), &inner)
		weights.SubVec(d, weights)
		weights.ScaleVec(1/ridge, weights)
	}
	return &sown{weights: weights.RawVector().Data, mean: mean}
}

// climb moves a point to the highest score that is found in the ball, from there and from the image, along gradients
// and, where the network has operators without them, along slopes. It returns that score.
func (t *image) climb(ctx context.Context, s *sown, point []float32, top float64) (best float64, err error) {
	values := len(t.Values(floats32(t.Features())))
	r := control.Readout{Weights: floats32(len(s.weights)), Rows: floats32(values),
		Base: floats32(values)}
	norm := floats.Norm(s.weights, 2)
	for i, w := range s.weights {
		r.Weights[i] = float32(w / norm)
	}
	other := (t.Label + 1) % t.Classes()
	if values == 1 {
		r.Rows[0] = float32(1 - 2*t.Label)
	} else {
		r.Rows[t.Label], r.Rows[other] = -0.5, 0.5
	}
	best = top
	start := slices.Clone(point)
	for _, o := range []attacks.Oracle{t.With(r), t.Sloping(r)} {
		if o == nil {
			continue
		}
		for _, from := range [][]float32{start, t.Pixels} {
			w := attacks.NewWalk(t.recipe.Norm, t.Pixels, t.recipe.Epsilon)
			w.Jump(from)
			var e attacks.Evaluation
			for k := range climbs {
				if err := o.Gradient(ctx, w.Point(), attacks.LogitDifference, t.Label, other, &e); err != nil {
					return best, err
				}
				w.Follow(e.Gradient, t.recipe.Epsilon*(1-float64(k)/climbs)/2)
				features, err := t.of(ctx, w.Point())
				if err != nil {
					return best, err
				}
				t.passes += 2
				if score := s.score(features); score > best {
					best = score
					copy(point, w.Point())
				}
			}
		}
	}
	return best, nil
}

const climbs = 60 // steps

// corner returns the point to plant: a random corner of the ball in ℓ∞, else a random point of its border.
func (t *image) corner() []float32 {
	w := attacks.NewWalk(t.recipe.Norm, t.Pixels, t.recipe.Epsilon)
	rng := t.rng("planted", 0)
	if t.recipe.Norm != attacks.Linf {
		w.Scatter(rng)
		return slices.Clone(w.Point())
	}
	signs := make([]float32, len(t.Pixels))
	for i := range signs {
		signs[i] = float32(2*rng.IntN(2) - 1)
	}
	w.Follow(signs, t.recipe.Epsilon)
	return slices.Clone(w.Point())
}

// features returns the features of random points of the ball.
func (t *image) features(ctx context.Context, what string, from, count int) ([][]float64, error) {
	all := make([][]float64, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for k := range count {
		group.Go(func() (err error) {
			w := attacks.NewWalk(t.recipe.Norm, t.Pixels, t.recipe.Epsilon)
			w.Scatter(t.rng(what, from+k))
			all[k], err = t.at(ctx, w.Point())
			return err
		})
	}
	t.passes += int64(count)
	return all, group.Wait()
}

func (t *image) of(ctx context.Context, x []float32) ([]float64, error) {
	t.passes++
	return t.at(ctx, x)
}

// at returns the features at x.
func (t *image) at(ctx context.Context, x []float32) ([]float64, error) {
	n := len(t.Values(floats32(t.Features())))
	none := control.Readout{Weights: floats32(t.Features()), Rows: floats32(n), Base: floats32(n)}
	features := floats32(t.Features())
	if err := t.At(ctx, x, none, floats32(t.Classes()), features); err != nil {
		return nil, err
	}
	wide := make([]float64, len(features))
	for i, v := range features {
		wide[i] = float64(v)
	}
	return wide, nil
}

// answer returns the class under a readout.
func (t *image) answer(ctx context.Context, r control.Readout, x []float32) (int, error) {
	logits := floats32(t.Classes())
	t.passes++
	err := t.With(r).Logits(ctx, x, logits)
	return class(logits), err
}

// class returns the largest logit's.
func class(logits []float32) int { return slices.Index(logits, slices.Max(logits)) }

func floats32(n int) []float32 { return make([]float32, n) }

// rng returns the random numbers of the k-th draw of a kind for the image.
func (t *image) rng(what string, k int) *rand.Rand {
	return attacks.Draws(t.o.Seed, "planted/"+what, k, t.ID)
}
