package attacks

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"
)

// classifier is a float64 classifier with its own gradient. It counts the passes made on it; forward passes include
// those of gradients. It ignores contexts, so that a test of cancellation tests the attack.
type classifier struct {
	shape   Shape
	classes int
	// logits returns the logits at x and a function that pulls a cotangent of them back to x.
	logits            func(x []float32) (z []float64, pull func(cotangent, out []float32))
	forward, backward atomic.Int64
	// blind, if set, reports for which points the classes from blindFrom on have a NaN logit; the gradient there is NaN
	// too.
	blind     func(x []float32) bool
	blindFrom int
}

func (o *classifier) Shape() Shape { return o.shape }
func (o *classifier) Classes() int { return o.classes }

// passes returns the forward and backward passes made so far.
func (o *classifier) passes() (forward, backward int) {
	return int(o.forward.Load()), int(o.backward.Load())
}

// answer counts no pass.
func (o *classifier) answer(x, out []float32) (pull func(cotangent, out []float32)) {
	z, pull := o.logits(x)
	for j, v := range z {
		out[j] = float32(v)
	}
	if o.blind != nil && o.blind(x) {
		for j := range out[o.blindFrom:] {
			out[o.blindFrom+j] = float32(math.NaN())
		}
	}
	return pull
}

// beyondRounding reports whether x is misclassified by more than twice what rounding may change.
func (o *classifier) beyondRounding(x []float32, label int) bool {
	t := attempt{im: Image{Label: label}, eval: Evaluation{Logits: make([]float32, o.classes)}}
	o.answer(x, t.eval.Logits)
	return t.beyond() > 0
}

func (o *classifier) Logits(_ context.Context, x, out []float32) error {
	o.forward.Add(1)
	o.answer(x, out)
	return nil
}

func (o *classifier) Gradient(_ context.Context, x []float32, loss Loss, label, target int, e *Evaluation) error {
	e.Logits = slices.Grow(e.Logits[:0], o.classes)[:o.classes]
	e.Gradient = slices.Grow(e.Gradient[:0], len(x))[:len(x)]
	o.forward.Add(1)
	o.backward.Add(1)
	pull := o.answer(x, e.Logits)
	e.Loss = float32(loss.Value(e.Logits, label, target))
	cotangent := make([]float32, o.classes)
	loss.Cotangent(e.Logits, label, target, cotangent)
	pull(cotangent, e.Gradient)
	if o.blind != nil && o.blind(x) {
		for i := range e.Gradient {
			e.Gradient[i] = float32(math.NaN())
		}
	}
	return nil
}

// misclassified asks without counting a pass.
func (o *classifier) misclassified(x []float32, label int) bool {
	logits := make([]float32, o.classes)
	o.answer(x, logits)
	return !Right(logits, label)
}

// unlimited is a limit on a linear classifier's weights that cuts none.
const unlimited = math.MaxFloat64

// linear is the classifier z = W·x + b.
type linear struct {
	classifier
	weights [][]float64 // classes × size
	bias    []float64
}

// newLinear draws Gaussian weights, cut to ±limit, so that many may be equal: then many directions of one value each
// are equally good in ℓ1. The biases make all logits 0 at the grey image, where every value is ½.
func newLinear(shape Shape, classes int, seed uint64, limit float64) *linear {
	l := &linear{weights: gaussian(rand.New(rand.NewPCG(seed, 1)), classes, shape.Size())}
	for _, row := range l.weights {
		for i, w := range row {
			row[i] = min(max(w, -limit), limit)
		}
	}
	l.bias = centred(l.weights)
	l.shape, l.classes = shape, classes
	l.logits = func(x []float32) ([]float64, func(cotangent, out []float32)) {
		return affine(l.weights, l.bias, x), func(cotangent, out []float32) { pullBack(l.weights, cotangent, out) }
	}
	return l
}

// masked returns the classifier with one class of logit −∞ before its own and two after.
func (l *linear) masked() *classifier {
	never := math.Inf(-1)
	return &classifier{shape: l.shape, classes: l.classes + 3,
		logits: func(x []float32) ([]float64, func(cotangent, out []float32)) {
			z, pull := l.logits(x)
			return slices.Concat([]float64{never}, z, []float64{never, never}), func(cotangent, out []float32) {
				pull(cotangent[1:1+len(z)], out)
			}
		}}
}

// distance returns the exact distance from x, classified as label, to the nearest other class: min over j of (z_y −
// z_j) / ‖w_y − w_j‖ in the dual norm. It holds if [0,1] is not in the way: for points at least that far from 0 and 1
// in every value. In ℓ0, whose values may go that far, it is the fewest values whose moves to 0 or 1 add up to the gap.
func (l *linear) distance(norm Norm, x []float32, label int) float64 {
	nearest := math.Inf(1)
	for j := range l.classes {
		if j != label {
			nearest = min(nearest, l.between(norm, x, label, j))
		}
	}
	return nearest
}

// between is [linear.distance] to one other class, where the two are equal.
func (l *linear) between(norm Norm, x []float32, label, other int) float64 {
	z, diff := affine(l.weights, l.bias, x), make([]float32, len(x))
	for i := range diff {
		diff[i] = float32(l.weights[label][i] - l.weights[other][i])
	}
	if gap := z[label] - z[other]; norm != L0 {
		return gap / norm.Dual().Length(diff)
	} else {
		return fewest(x, diff, gap)
	}
}

// fewest returns how many values of x must change for w·x to fall by gap.
func fewest(x, w []float32, gap float64) float64 {
	var falls []float64
	for i, v := range x {
		falls = append(falls, float64(max(w[i]*v, w[i]*(v-1))))
	}
	slices.SortFunc(falls, func(a, b float64) int { return cmp.Compare(b, a) })
	for n, fall := range falls {
		if gap -= fall; gap < 0 {
			return float64(n + 1)
		}
	}
	return math.Inf(1)
}

// newMLP makes the classifier z = V·tanh(W·x + b), W hidden × size, V classes × hidden.
func newMLP(shape Shape, w [][]float64, b []float64, v [][]float64) *classifier {
	return &classifier{shape: shape, classes: len(v),
		logits: func(x []float32) ([]float64, func(cotangent, out []float32)) {
			hidden := affine(w, b, x)
			for k, h := range hidden {
				hidden[k] = math.Tanh(h)
			}
			return affine(v, make([]float64, len(v)), hidden), func(cotangent, out []float32) {
				at := make([]float64, len(hidden))
				pullBack(v, cotangent, at)
				for k, h := range hidden {
					at[k] *= 1 - h*h
				}
				pullBack(w, at, out)
			}
		}}
}

func randomMLP(shape Shape, hidden, classes int, seed uint64) *classifier {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := gaussian(rng, hidden, shape.Size())
	return newMLP(shape, w, centred(w), gaussian(rng, classes, hidden))
}

func gaussian(rng *rand.Rand, rows, cols int) [][]float64 {
	m := make([][]float64, rows)
	for r := range m {
		for range cols {
			m[r] = append(m[r], rng.NormFloat64())
		}
	}
	return m
}

// centred returns the biases with which m·x + b is 0 if every value of x is ½.
func centred(m [][]float64) []float64 {
	b := make([]float64, len(m))
	for r, row := range m {
		for _, w := range row {
			b[r] -= w / 2
		}
	}
	return b
}

// affine returns m·x + b.
func affine[T float32 | float64](m [][]float64, b []float64, x []T) []float64 {
	wide, out := make([]float64, len(x)), slices.Clone(b)
	for i, v := range x {
		wide[i] = float64(v)
	}
	for r, row := range m {
		out[r] += floats.Dot(row, wide)
	}
	return out
}

// pullBack writes mᵀ·y.
func pullBack[T, U float32 | float64](m [][]float64, y []T, out []U) {
	sum := make([]float64, len(out))
	for r, row := range m {
		floats.AddScaled(sum, float64(y[r]), row)
	}
	for i, s := range sum {
		out[i] = U(s)
	}
}

// imagesNear draws n images near grey, values within spread of ½, labelled as o
// classifies them. Their ids count from 0.
func imagesNear(o Oracle, n int, spread float64, seed uint64) []Image {
	rng := rand.New(rand.NewPCG(seed, 3))
	images, logits := make([]Image, n), make([]float32, o.Classes())
	for k := range images {
		x := make([]float32, o.Shape().Size())
		for i := range x {
			x[i] = float32(0.5 + spread*(2*rng.Float64()-1))
		}
		_ = o.Logits(context.Background(), x, logits) // which returns no errors
		images[k] = Image{ID: k, Pixels: x, Label: Argmax(logits)}
	}
	return images
}

// pass is a question of an attack to an oracle.
type pass struct {
	x        []float32
	gradient bool // for the loss, at target if it is targeted; otherwise for the logits
	loss     Loss
	target   int
}

// spy is an oracle that keeps every pass, and shows it to visit, if that is set, before it is made.
type spy struct {
	Oracle
	visit func()
	made  []pass
}

func (s *spy) see(x []float32, p pass) {
	p.x = slices.Clone(x)
	if s.made = append(s.made, p); s.visit != nil {
		s.visit()
	}
}

// points returns the points of all passes, or of the gradients alone.
func (s *spy) points(gradients bool) (all [][]float32) {
	for _, p := range s.made {
		if p.gradient || !gradients {
			all = append(all, p.x)
		}
	}
	return all
}

func (s *spy) Logits(ctx context.Context, x, out []float32) error {
	s.see(x, pass{})
	return s.Oracle.Logits(ctx, x, out)
}

func (s *spy) Gradient(ctx context.Context, x []float32, loss Loss, label, target int, e *Evaluation) error {
	s.see(x, pass{gradient: true, loss: loss, target: target})
	return s.Oracle.Gradient(ctx, x, loss, label, target, e)
}

// scripted answers every question with the same logits, by default {1, 0}, and to a gradient what answer writes.
type scripted struct {
	shape  Shape
	answer func(call int, e *Evaluation)
	logits []float32
	calls  int // gradients asked for
}

func (s *scripted) Shape() Shape { return s.shape }
func (s *scripted) Classes() int { return max(len(s.logits), 2) }

func (s *scripted) Logits(_ context.Context, _, out []float32) error {
	clear(out)
	out[0] = 1
	copy(out, s.logits)
	return nil
}

func (s *scripted) Gradient(ctx context.Context, x []float32, _ Loss, _, _ int, e *Evaluation) error {
	e.Logits, e.Gradient = make([]float32, s.Classes()), make([]float32, len(x))
	_ = s.Logits(ctx, x, e.Logits)
	s.answer(s.calls, e)
	s.calls++
	return nil
}

// classic lists the norms of attacks whose row names none.
var classic = Spec{}.In()
