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
	"cmp"
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
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/lists"
)

// Most is how many images a run plants points in at most.
const Most = 64

// typical is how many passes it takes to plant a point, to find it again, and to look for it at random.
const typical = 1600

// Share is the fraction of an attack's passes that planting may take; a variable for tests.
var Share = 0.1

// Chosen draws whether to plant a point in an image that an attack spent so many passes on, a gradient counting as two.
// The probability grows with these, so that planting takes about the share of all. The draw does not depend on other
// images, so that shards choose the same images as the whole run.
func Chosen(seed uint64, image int, spent int64) bool {
	return rand.New(rand.NewPCG(seed, uint64(image))).Float64() < Share*float64(spent)/typical
}

// Passes returns about how many passes it takes to plant a point in an image and to have a recipe look for it in vain.
// A gradient counts as two.
func Passes(r attacks.Recipe, classes int) int64 {
	forward, backward := r.Passes(classes)
	return typical + forward + 2*backward
}

// Options say how to plant. The zero value has the defaults.
type Options struct {
	Seed    uint64
	Samples int     // random points of the ball that a readout is fitted on; 0: samples
	Level   float64 // where the threshold lies between them (0) and the planted point (1), below 1; 0: 0.8
}

const samples = 999

// Outcome counts images.
type Outcome struct {
	result.Planted
	Passes  int64
	Skipped int // images whose own class is the one to reach
}

// Add adds another outcome's numbers.
func (all *Outcome) Add(one Outcome) {
	all.N += one.N
	all.Found += one.Found
	all.Random += one.Random
	all.Passes += one.Passes
	all.Skipped += one.Skipped
	all.Why = cmp.Or(all.Why, one.Why)
}

// Sum adds the outcomes of some images.
func Sum(images []int, of map[int]Outcome) (all Outcome) {
	for _, i := range images {
		all.Add(of[i])
	}
	return all
}

// Test plants a point for each image, which the network classifies correctly, and attacks it by a recipe's components,
// one after the other until one succeeds. The outcome depends on neither batch nor workers.
func Test(ctx context.Context, p *control.Planted, recipe attacks.Recipe, images []attacks.Image,
	o Options) (all Outcome, err error) {
	if !Fits(recipe) {
		return all, fmt.Errorf("points are planted in balls of linf, l2 and l1, not for %s", recipe.Name)
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(int(min(max(mostMemory/Memory(p), 1), atOnce)))
	for _, im := range images {
		group.Go(func() error {
			found, err := Image(ctx, p, recipe, im, o)
			mu.Lock()
			defer mu.Unlock()
			all.Add(found)
			return err
		})
	}
	return all, group.Wait()
}

// Planter plants in one classifier. If that fails, outcomes say why: an attack has its verdicts all the same.
type Planter struct {
	*control.Planted // nil if nothing can be planted
	unable           error
}

// Open compiles a classifier with readouts by plant. Close the planter before the classifier.
func Open(plant func() (*control.Planted, error)) *Planter {
	p, err := plant()
	if err != nil {
		return &Planter{nil, err}
	}
	return &Planter{p, p.Prepare(attacks.LogitDifference)}
}

// Memory returns how much memory planting takes for an image, in bytes.
func (p *Planter) Memory() int64 {
	if p.Planted == nil {
		return 0
	}
	return Memory(p.Planted)
}

// Image is [Image], with an error as the reason why nothing could be planted.
func (p *Planter) Image(ctx context.Context, recipe attacks.Recipe, im attacks.Image, o Options) (one Outcome) {
	err := p.unable
	if err == nil {
		one, err = Image(ctx, p.Planted, recipe, im, o)
	}
	if err != nil {
		one = Outcome{Planted: result.Planted{Why: err.Error()}}
	}
	return one
}

// Close frees the programs.
func (p *Planter) Close() {
	if p.Planted != nil {
		p.Planted.Close()
	}
}

// Choose lists the images to plant in, of n with these ids and passes that an attack spent on them: see [Chosen].
func Choose(seed uint64, n int, id func(i int) int, spent func(i int) int64) []int {
	some := lists.Indices(n, func(i int) bool { return Chosen(seed, id(i), spent(i)) })
	return some[:min(len(some), Most)]
}

// signed is how many images are asked for signs that something hides the gradient.
const signed = 16

// Asked lists the images, of some with these ids, that are asked for signs that something hides the gradient: see
// [Outcome.Hides].
func Asked(ids []int) []int {
	order := plan.ByHash(ids, "signs")
	return order[:min(signed, len(order))]
}

// Hides reports whether an attack missed planted perturbations in so many images, or too few could be planted so that
// nobody knows.
func (all Outcome) Hides(asked int) bool { return all.Missed() || 4*all.N < asked-all.Skipped }

// Fits reports whether points can be planted for a recipe. Attacks that see no gradients miss most of them, which says
// nothing new.
func Fits(r attacks.Recipe) bool {
	_, gradients := r.Passes(2)
	return gradients > 0 && !r.Free && r.Norm != attacks.L0
}

// mostMemory bounds the memory that planting takes, in bytes.
const mostMemory = 1 << 30

// Memory returns how much memory planting takes for an image, in bytes: features of random points, and their products.
func Memory(p *control.Planted) int64 {
	const n = samples + 1
	return 8 * n * (2*int64(p.Width()) + 2*n)
}

// Image is [Test] for one image and a recipe that [Fits].
func Image(ctx context.Context, p *control.Planted, recipe attacks.Recipe, im attacks.Image, o Options) (Outcome,
	error) {
	o.Samples, o.Level = cmp.Or(o.Samples, samples), cmp.Or(o.Level, 0.8)
	if need := Memory(p); need > mostMemory {
		return Outcome{}, fmt.Errorf("the last linear layer's %d inputs are too many", p.Width())
	}
	if _, ok := recipe.Aim.Class(im, p.Classes()); recipe.Aim.Targeted() && !ok {
		return Outcome{Skipped: 1}, ctx.Err()
	}
	return (&image{Planted: p, recipe: recipe, Image: im, o: o}).test(ctx)
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
	p, err := t.plant(ctx)
	if err != nil || p == nil {
		return found, err
	}
	found.N = 1
	spent, how := 0, attacks.Options{Seed: t.o.Seed, VerdictOnly: true}
	for _, component := range t.recipe.Components {
		res, err := component.Perturb(ctx, t.With(p.readout), t.Image, how)
		if err != nil {
			return found, err
		}
		spent += res.Forward + res.Backward
		at := res.Adversarial
		if at == nil || t.recipe.Norm.Distance(at, t.Pixels) > t.recipe.Epsilon*(1+plan.NormTolerance) {
			continue
		}
		if right, err := t.right(ctx, p, at); err != nil {
			return found, err
		} else if !right {
			found.Found = 1
			break
		}
	}
	t.passes += int64(spent)
	for from := 0; from < spent && found.Random == 0; from += t.o.Samples {
		points, err := t.random(ctx, "search", from, min(t.o.Samples, spent-from))
		if err != nil {
			return found, err
		}
		if p.highest(points) > p.threshold {
			found.Random = 1
		}
	}
	return found, nil
}

// plant is a score of features, and the readout that misclassifies an image where the score is above a threshold.
type plant struct {
	weights, mean []float64 // the score is weights·(features − mean)
	threshold     float64
	readout       control.Readout
}

func (p *plant) score(features []float64) (score float64) {
	for i, w := range p.weights {
		score += w * (features[i] - p.mean[i])
	}
	return score
}

func (p *plant) highest(points [][]float64) float64 {
	highest := math.Inf(-1)
	for _, features := range points {
		highest = max(highest, p.score(features))
	}
	return highest
}

// plant plants a point in the image's ball. It returns nil if no point can be told from random ones.
func (t *image) plant(ctx context.Context) (*plant, error) {
	clean, values, err := t.features(ctx, t.Pixels)
	if err != nil {
		return nil, err
	}
	others, err := t.random(ctx, "sample", 0, t.o.Samples)
	if err != nil {
		return nil, err
	}
	others = append(others, clean)
	corner := t.corner()
	if !t.stored(corner) {
		return nil, nil
	}
	stands, _, err := t.features(ctx, corner)
	if err != nil {
		return nil, err
	}
	p := separate(others, stands)
	if p == nil {
		return nil, nil
	}
	point, top, err := t.climb(ctx, p, corner, p.score(stands))
	if err != nil {
		return nil, err
	}
	highest := p.highest(others)
	if p.threshold = highest + t.o.Level*(top-highest); !(top > p.threshold && p.threshold > highest) {
		return nil, nil
	}
	p.readout = t.read(p, clean, values)
	if right, err := t.right(ctx, p, t.Pixels); err != nil || !right {
		return nil, err
	}
	if right, err := t.right(ctx, p, point); err != nil || right { // what follows the last layer turned it round
		return nil, err
	}
	return p, nil
}

// read returns the readout of a score. Its margin at the clean image is the network's own margin. The label's value is
// half the margin, another class's is minus half the margin. All other classes have minus the clean image's margin.
func (t *image) read(p *plant, clean []float64, values []float32) control.Readout {
	margin, other := math.Abs(float64(values[0])), 0
	if len(values) > 1 {
		margin, other = math.Abs(attacks.LogitMargin(values, t.Label)), t.other()
	}
	scale, r := margin/(p.threshold-p.score(clean)), t.Blank()
	constant := scale * p.threshold
	for i, w := range p.weights {
		r.Weights[i] = float32(-scale * w)
		constant += scale * w * p.mean[i]
	}
	for k := range r.Base {
		r.Base[k] = float32(-margin)
	}
	t.set(r, 1, constant, other)
	return r
}

// other returns the class of the planted point: the attack's target, or any other than the label.
func (t *image) other() int {
	if class, ok := t.recipe.Aim.Class(t.Image, t.Classes()); ok {
		return class
	}
	other := t.rng("class", 0).IntN(t.Classes() - 1)
	if other >= t.Label {
		other++
	}
	return other
}

// set makes a readout's margin, times a factor and plus a constant, the label's lead over another class. A network of
// one value has two classes; the value is the second's lead.
func (t *image) set(r control.Readout, factor, constant float64, other int) {
	if len(r.Rows) == 1 {
		side := float64(2*t.Label - 1)
		r.Rows[0], r.Base[0] = float32(side*factor), float32(side*constant)
		return
	}
	r.Rows[t.Label], r.Base[t.Label] = float32(factor/2), float32(constant/2)
	r.Rows[other], r.Base[other] = float32(-factor/2), float32(-constant/2)
}

// separate returns the score by which a point stands out most from others: its difference from their mean, whitened by
// their covariance, as in linear discriminant analysis. It returns nil for a point that is like the others.
func separate(others [][]float64, point []float64) *plant {
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
	// w = (XᵀX/n + λI)⁻¹d, with fewer points than features by the smaller system:
	// (d − Xᵀ(nλI + XXᵀ)⁻¹Xd)/λ
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
	return &plant{weights: weights.RawVector().Data, mean: mean}
}

// climb looks for the highest score in the ball, from a corner and from the image, along gradients and, where some of
// the network's operators have slopes, along these. It returns the best point, which is at least the corner.
func (t *image) climb(ctx context.Context, p *plant, corner []float32, score float64) (best []float32, top float64,
	err error) {
	r, other := t.Blank(), (t.Label+1)%t.Classes()
	norm := floats.Norm(p.weights, 2)
	for i, w := range p.weights {
		r.Weights[i] = float32(w / norm)
	}
	t.set(r, -1, 0, other)
	best, top = corner, score
	for _, o := range []attacks.Oracle{t.With(r), t.Sloping(r)} {
		if o == nil {
			continue
		}
		for _, from := range [][]float32{corner, t.Pixels} {
			w := attacks.NewWalk(t.recipe.Norm, t.Pixels, t.recipe.Epsilon)
			w.Jump(from)
			point, _, err := w.Climb(ctx, o, attacks.LogitDifference, t.Label, other, climbs)
			if err != nil {
				return nil, 0, err
			}
			t.passes += 2 * (climbs + 1)
			t.stored(point)
			features, _, err := t.features(ctx, point)
			if err != nil {
				return nil, 0, err
			}
			if score := p.score(features); score > top {
				best, top = point, score
			}
		}
	}
	return best, top, nil
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

// stored moves a point of the ball to the levels of 8 bits, if the recipe's images lie there. It reports whether there
// are such points.
func (t *image) stored(x []float32) bool {
	return !t.recipe.Stored || attacks.Store(t.recipe.Norm, t.recipe.Epsilon, t.Pixels, x)
}

// random returns the features of random points of the ball.
func (t *image) random(ctx context.Context, what string, from, count int) ([][]float64, error) {
	all := make([][]float64, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for k := range count {
		group.Go(func() (err error) {
			w := attacks.NewWalk(t.recipe.Norm, t.Pixels, t.recipe.Epsilon)
			w.Scatter(t.rng(what, from+k))
			all[k], _, err = t.features(ctx, w.Point())
			return err
		})
	}
	t.passes += int64(count)
	return all, group.Wait()
}

// features returns the features at x and the values of the network's own last layer.
func (t *image) features(ctx context.Context, x []float32) (features []float64, values []float32, err error) {
	narrow, values, err := t.Features(ctx, x)
	features = make([]float64, len(narrow))
	for i, v := range narrow {
		features[i] = float64(v)
	}
	return features, values, err
}

// right reports whether the planted network's answer is the label.
func (t *image) right(ctx context.Context, p *plant, x []float32) (bool, error) {
	logits := make([]float32, t.Classes())
	t.passes++
	err := t.With(p.readout).Logits(ctx, x, logits)
	return !(attacks.LogitMargin(logits, t.Label) < 0), err
}

// rng returns the random numbers of the k-th draw of a kind for the image.
func (t *image) rng(what string, k int) *rand.Rand {
	return attacks.Draws(t.o.Seed, "planted/"+what, k, t.ID)
}
