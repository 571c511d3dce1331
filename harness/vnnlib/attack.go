package vnnlib

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Projected gradient descent from random starts: the steps of a run, the rounds of runs for a question without a
// deadline, and the rounds before the parts of a cut box are left to the proof.
const (
	steps  = 100
	rounds = 20
)

// The random points that are tried first, for each case, and the time for them.
const (
	samples  = 2048
	sampling = time.Second / 2
)

// search attacks until the deadline, on the cores that the proof leaves. Without a deadline it makes some more rounds
// after the proof has ended.
func (q *question) search(ctx context.Context, seed uint64, proof <-chan struct{}) (*Result, error) {
	cases := slices.DeleteFunc(slices.Clone(q.of.cases), func(c conjunction) bool { return c.box.apart >= 0 })
	if len(cases) == 0 {
		<-proof
		return nil, nil
	}
	cut := q.bounds != nil && slices.ContainsFunc(q.of.boxes, (*box).few)
	searchers := max(1, runtime.GOMAXPROCS(0)-1)
	if cut {
		searchers = 1
	}
	// bounds the size of a batch
	most := max(1, min(64, (1<<22)/max(q.of.inputs, q.of.outputs)))
	group, inner := errgroup.WithContext(ctx)
	var first atomic.Pointer[Result]
	for k := range searchers {
		rng := rand.New(rand.NewPCG(seed, uint64(k)<<32))
		group.Go(func() error {
			found, err := q.sample(inner, cases, most, rng)
			for round := 0; found == nil && err == nil; round++ {
				if round >= rounds && cut {
					select {
					case <-proof:
					case <-inner.Done():
						return context.Cause(inner)
					}
				}
				if _, limited := ctx.Deadline(); !limited && round >= 2*rounds {
					return nil
				}
				starts := cases
				if round+k > 0 { // at random, and as many as there is room for
					starts = slices.Repeat(cases, max(1, most/len(cases)))
				}
				for some := range slices.Chunk(starts, most) {
					if found, err = q.descend(inner, some, rng, round+k); found != nil || err != nil {
						break
					}
				}
			}
			if found != nil && first.CompareAndSwap(nil, found) {
				return errFound
			}
			return err
		})
	}
	err := group.Wait()
	if first.Load() != nil {
		err = nil
	}
	return first.Load(), err
}

// errFound stops the other searchers.
var errFound = errors.New("found")

// sample tries random points of each case's box, every other one a corner.
func (q *question) sample(ctx context.Context, cases []conjunction, most int, rng *rand.Rand) (*Result, error) {
	start := time.Now()
	for asked := 0; asked < samples && time.Since(start) < sampling; asked += max(1, most/len(cases)) {
		for some := range slices.Chunk(cases, most) {
			if err := ctx.Err(); err != nil {
				return nil, context.Cause(ctx)
			}
			var points []float32
			var of []conjunction
			for range max(1, most/len(cases)) {
				for _, c := range some {
					points = append(points, c.box.point(1+len(of)%2*corners, rng)...)
					of = append(of, c)
				}
			}
			if found, err := q.try(of, points); found != nil || err != nil {
				return found, err
			}
		}
	}
	return nil, nil
}

// descend lowers the largest excess of each case's constraints by signed gradient steps with momentum. Step sizes
// fall from a quarter of the box's width to a hundredth. It begins in the box's middle in the first round, then at a
// random point.
func (q *question) descend(ctx context.Context, cases []conjunction, rng *rand.Rand, round int) (*Result, error) {
	n, in, out := len(cases), q.of.inputs, q.of.outputs
	x, w, momentum := make([]float32, n*in), make([]float32, n*out), make([]float64, n*in)
	seed := func(k int, c constraint) { // sets the cotangent of the constraint that is to fall
		row := w[k*out : (k+1)*out]
		clear(row)
		for _, t := range c.row {
			row[t.index] = float32(t.factor)
		}
	}
	for k, c := range cases {
		for i := range in {
			at := 0.5
			if round > 0 {
				at = rng.Float64()
			}
			x[k*in+i] = c.box.between(i, at)
		}
		if len(c.constraints) > 0 {
			seed(k, c.constraints[0])
		}
	}
	for step := range steps + 1 {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		y, gradient, err := q.run(x, w)
		if err != nil {
			return nil, err
		}
		rate := 0.01 + 0.24*(1+math.Cos(math.Pi*float64(step)/steps))/2
		for k, c := range cases {
			of := func(i int) float64 { return float64(y[k*out+i]) }
			xs := x[k*in : (k+1)*in]
			if c.holds(of) {
				if found, err := q.confirm(c, xs); found != nil || err != nil {
					return found, err
				}
			}
			worst, excess := -1, math.Inf(-1)
			for i, one := range c.constraints {
				if e := one.excess(of); e > excess {
					worst, excess = i, e
				}
			}
			if worst < 0 {
				continue
			}
			for i, g := range gradient[k*in : (k+1)*in] {
				m := &momentum[k*in+i]
				*m = 0.75**m + float64(g)
				low, high := c.box.low[i], c.box.high[i]
				move := 0.0
				if *m != 0 {
					move = -math.Copysign(rate*(float64(high)-float64(low)), *m)
				}
				xs[i] = min(max(xs[i]+float32(move), low), high)
			}
			seed(k, c.constraints[worst]) // for the next gradient
		}
	}
	return nil, nil
}

// between returns a float32 value of the box, for at = 0 its lower end, for 1 its upper one.
func (b *box) between(i int, at float64) float32 {
	low, high := float64(b.low[i]), float64(b.high[i])
	return min(max(float32(low+at*(high-low)), b.low[i]), b.high[i])
}

// run evaluates the opened network on some inputs and returns the inputs' cotangents for the output's.
func (q *question) run(x, w []float32) (y, gradient []float32, err error) {
	batch := func(shape onnx.Shape, data []float32) ort.Tensor {
		n := int64(len(data)) / shape.Items()
		return ort.Tensor{Shape: append([]int64{n}, shape[1:]...), Data: data}
	}
	got, err := q.climb.Run([]ort.Tensor{batch(q.net.Inputs[0].Shape, x), batch(q.net.Outputs[0].Shape, w)})
	if err != nil {
		return nil, nil, err
	}
	return got[0].Data, got[1].Data, nil
}

// confirm asks the file whether x is a counterexample.
func (q *question) confirm(c conjunction, x []float32) (*Result, error) {
	x = slices.Clone(x)
	for i, v := range x {
		if !(v >= c.box.low[i] && v <= c.box.high[i]) {
			return nil, fmt.Errorf("an input that was found has X_%d = %g, outside its box", i, v)
		}
	}
	y, err := q.file.Run(x)
	if err == nil && len(y) != q.of.outputs {
		err = fmt.Errorf("the file gives %d outputs, not %d", len(y), q.of.outputs)
	}
	if err != nil {
		return nil, err
	}
	if c.holds(func(i int) float64 { return y[i] }) {
		return &Result{answer: sat, x: x, y: y}, nil
	}
	if q.net.IsCopy() {
		return nil, nil
	}
	opened, _, err := q.run(x, make([]float32, q.of.outputs))
	if err == nil {
		err = ort.Agree(y, opened)
	}
	return nil, err
}
