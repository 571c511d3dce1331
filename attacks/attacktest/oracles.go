// Package attacktest holds classifiers written in Go, whose robustness is known
// or whose gradients are exact, and a conformance suite for attacks.
package attacktest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"selfheal/attacks"
)

// Oracle is a classifier in float64 with a gradient of its own. It counts the
// passes made on it; Forward includes those of gradients.
type Oracle struct {
	shape             attacks.Shape
	logits            func(x []float32, out []float64, hidden []float64)
	pull              func(x []float32, cotangent []float32, hidden []float64, out []float32)
	classes           int
	units             int
	forward, backward atomic.Int64
	// BeforePass, when set, is called before every forward pass.
	BeforePass func()
	// Blind, when set, says for which points the classes from BlindFrom on have NaN for a logit;
	// the gradient there is NaN too.
	Blind     func(x []float32) bool
	BlindFrom int
}

var _ attacks.Oracle = (*Oracle)(nil)

// Shape implements [attacks.Oracle].
func (o *Oracle) Shape() attacks.Shape { return o.shape }

// Classes implements [attacks.Oracle].
func (o *Oracle) Classes() int { return o.classes }

// Passes returns the forward and backward passes made so far.
func (o *Oracle) Passes() (forward, backward int) {
	return int(o.forward.Load()), int(o.backward.Load())
}

func (o *Oracle) run(x, out []float32) (hidden []float64) {
	if o.BeforePass != nil {
		o.BeforePass()
	}
	o.forward.Add(1)
	return o.answer(x, out)
}

// answer counts no pass.
func (o *Oracle) answer(x, out []float32) (hidden []float64) {
	z, hidden := make([]float64, o.classes), make([]float64, o.units)
	o.logits(x, z, hidden)
	for j, v := range z {
		out[j] = float32(v)
	}
	if o.Blind != nil && o.Blind(x) {
		for j := range out[o.BlindFrom:] {
			out[o.BlindFrom+j] = float32(math.NaN())
		}
	}
	return hidden
}

// Logits implements [attacks.Oracle]. It does not look at its context, so that a
// test of cancellation tests the attack.
func (o *Oracle) Logits(_ context.Context, x, out []float32) error {
	o.run(x, out)
	return nil
}

// Gradient implements [attacks.Oracle].
func (o *Oracle) Gradient(_ context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	e.Logits = sized(e.Logits, o.classes)
	e.Gradient = sized(e.Gradient, len(x))
	hidden := o.run(x, e.Logits)
	o.backward.Add(1)
	e.Loss = float32(loss.Value(e.Logits, label, target))
	cotangent := make([]float32, o.classes)
	loss.Cotangent(e.Logits, label, target, cotangent)
	o.pull(x, cotangent, hidden, e.Gradient)
	if o.Blind != nil && o.Blind(x) {
		for i := range e.Gradient {
			e.Gradient[i] = float32(math.NaN())
		}
	}
	return nil
}

func sized(v []float32, n int) []float32 {
	if cap(v) < n {
		return make([]float32, n)
	}
	return v[:n]
}

// Linear is the classifier z = W·x + b.
type Linear struct {
	Oracle
	Weights [][]float64 // classes × size
	Bias    []float64   // classes
}

// NewLinear draws Gaussian weights; the biases make all logits 0 at the grey
// image, where every value is ½.
func NewLinear(shape attacks.Shape, classes int, seed uint64) *Linear {
	rng := rand.New(rand.NewPCG(seed, 1))
	l := &Linear{Weights: gaussian(rng, classes, shape.Size(), 1), Bias: make([]float64, classes)}
	l.centre()
	l.Oracle = Oracle{shape: shape, classes: classes,
		logits: func(x []float32, out, _ []float64) { affine(l.Weights, l.Bias, x, out) },
		pull: func(_ []float32, cotangent []float32, _ []float64, out []float32) {
			pullBack(l.Weights, cotangent, out)
		},
	}
	return l
}

// centre sets the biases that make all logits 0 at the grey image.
func (l *Linear) centre() {
	for j, row := range l.Weights {
		l.Bias[j] = 0
		for _, w := range row {
			l.Bias[j] -= w / 2
		}
	}
}

// Limit cuts the weights to ±bound, so that many are equal: then many directions
// of one value each are equally good in ℓ1. All logits stay 0 at the grey image.
func (l *Linear) Limit(bound float64) {
	for _, row := range l.Weights {
		for i, w := range row {
			row[i] = min(max(w, -bound), bound)
		}
	}
	l.centre()
}

// Distance is the exact distance from x, classified as label, to the nearest
// other class: min over j of (z_y − z_j) / ‖w_y − w_j‖ in the dual norm. It
// holds where [0,1] does not get in the way: for points at least that far from
// 0 and 1 in every value.
func (l *Linear) Distance(norm attacks.Norm, x []float32, label int) float64 {
	z := make([]float64, l.classes)
	affine(l.Weights, l.Bias, x, z)
	nearest := math.Inf(1)
	for j := range z {
		if j == label {
			continue
		}
		diff := make([]float32, len(x))
		for i := range diff {
			diff[i] = float32(l.Weights[label][i] - l.Weights[j][i])
		}
		nearest = min(nearest, (z[label]-z[j])/norm.Dual().Length(diff))
	}
	return nearest
}

// MLP is the classifier z = V·tanh(W·x + b) + c.
type MLP struct {
	Oracle
	W [][]float64 // hidden × size
	B []float64
	V [][]float64 // classes × hidden
	C []float64
}

// NewMLP makes a classifier from the given weights.
func NewMLP(shape attacks.Shape, w [][]float64, b []float64, v [][]float64, c []float64) *MLP {
	m := &MLP{W: w, B: b, V: v, C: c}
	m.Oracle = Oracle{shape: shape, classes: len(v), units: len(w),
		logits: func(x []float32, out, hidden []float64) {
			affine(m.W, m.B, x, hidden)
			for k, h := range hidden {
				hidden[k] = math.Tanh(h)
			}
			affine(m.V, m.C, hidden, out)
		},
		pull: func(_ []float32, cotangent []float32, hidden []float64, out []float32) {
			at := make([]float64, len(hidden))
			pullBack(m.V, cotangent, at)
			for k, h := range hidden {
				at[k] *= 1 - h*h
			}
			pullBack(m.W, at, out)
		},
	}
	return m
}

// RandomMLP draws Gaussian weights.
func RandomMLP(shape attacks.Shape, hidden, classes int, seed uint64) *MLP {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := gaussian(rng, hidden, shape.Size(), 1)
	b := make([]float64, hidden)
	for k, row := range w {
		for _, e := range row {
			b[k] -= e / 2
		}
	}
	return NewMLP(shape, w, b, gaussian(rng, classes, hidden, 1), make([]float64, classes))
}

func gaussian(rng *rand.Rand, rows, cols int, scale float64) [][]float64 {
	m := make([][]float64, rows)
	for r := range m {
		m[r] = make([]float64, cols)
		for c := range m[r] {
			m[r][c] = scale * rng.NormFloat64()
		}
	}
	return m
}

// affine writes m·x + b.
func affine[T float32 | float64](m [][]float64, b []float64, x []T, out []float64) {
	for r, row := range m {
		s := b[r]
		for i, w := range row {
			s += w * float64(x[i])
		}
		out[r] = s
	}
}

// pullBack writes mᵀ·y.
func pullBack[T, U float32 | float64](m [][]float64, y []T, out []U) {
	sum := make([]float64, len(out))
	for r, row := range m {
		for i, w := range row {
			sum[i] += w * float64(y[r])
		}
	}
	for i, s := range sum {
		out[i] = U(s)
	}
}

// Images draws n images near grey, values within spread of ½, labelled as o
// classifies them. Their ids count from 0.
func Images(o attacks.Oracle, n int, spread float64, seed uint64) []attacks.Image {
	rng := rand.New(rand.NewPCG(seed, 3))
	images := make([]attacks.Image, n)
	logits := make([]float32, o.Classes())
	for k := range images {
		x := make([]float32, o.Shape().Size())
		for i := range x {
			x[i] = float32(0.5 + spread*(2*rng.Float64()-1))
		}
		if err := o.Logits(context.Background(), x, logits); err != nil {
			panic(err) // the oracles of this package return no errors
		}
		images[k] = attacks.Image{ID: k, Pixels: x, Label: attacks.Argmax(logits)}
	}
	return images
}
