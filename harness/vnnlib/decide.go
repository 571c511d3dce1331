package vnnlib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"selfheal/models/bounds"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Answer is a question's.
type Answer string

// The answers, as the competition writes them.
const (
	Sat     Answer = "sat"     // there is such an input: the counterexample
	Unsat   Answer = "unsat"   // it is proven that there is none
	Unknown Answer = "unknown" // neither was found
	Timeout Answer = "timeout" // neither was found in the time that was given
)

// Result is an answer and, if it is sat, the counterexample: an input and what the network makes of it in float32.
type Result struct {
	Answer Answer
	X, Y   []float32
}

// String is the competition's output: the answer, and below it the counterexample's values.
func (r Result) String() string {
	var out strings.Builder
	fmt.Fprintln(&out, r.Answer)
	if r.Answer != Sat {
		return out.String()
	}
	open := "("
	for _, part := range []struct {
		name   string
		values []float32
	}{{"X", r.X}, {"Y", r.Y}} {
		for i, v := range part.values {
			fmt.Fprintf(&out, "%s(%s_%d %.9g)", open, part.name, i, v)
			open = "\n "
		}
	}
	return out.String() + ")\n"
}

// Question is a property of a network.
type Question struct {
	net    *onnx.Graph
	of     *Property
	climb  *ort.Session // of inputs and cotangents of the output: the output and the input's cotangents
	bounds *bounds.Network
	// unbounded is why nothing can be proven; nil: bounds is there.
	unbounded error
}

// Ask prepares a question about a simplified network. Close it when done.
func Ask(net *onnx.Graph, of *Property) (*Question, error) {
	in, out := net.Inputs[0].Shape.Items(), net.Outputs[0].Shape.Items()
	if in != int64(of.Inputs) || out != int64(of.Outputs) {
		return nil, fmt.Errorf("the property has %d inputs and %d outputs, the network %d and %d",
			of.Inputs, of.Outputs, in, out)
	}
	q := &Question{net: net, of: of}
	g, err := grad.VJP(net)
	if err != nil {
		return nil, err
	}
	model, err := g.Encode()
	if err != nil {
		return nil, err
	}
	if q.climb, err = ort.Open("gradient", model); err != nil {
		return nil, err
	}
	q.bounds, q.unbounded = bounds.New(net, bounds.Unit)
	return q, nil
}

// Unbounded is why the network cannot be bounded, so that no answer is unsat; nil where it can.
func (q *Question) Unbounded() error { return q.unbounded }

// Close frees the runtime's memory.
func (q *Question) Close() {
	q.climb.Close()
	if q.bounds != nil {
		q.bounds.Close()
	}
}

// Attacks of a question: runs of projected gradient descent from random starts, rounds of them after the proof has
// failed.
const (
	steps  = 100
	rounds = 20
)

// Decide attacks and proves side by side. It ends with ctx: with the answer timeout where that is a deadline.
func (q *Question) Decide(ctx context.Context, seed uint64) (Result, error) {
	if len(q.of.Cases) == 0 {
		return Result{Answer: Unsat}, nil
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	var proven bool
	var failed error
	proof := make(chan struct{})
	go func() {
		defer close(proof)
		if proven, failed = q.prove(inner); proven {
			stop()
		}
	}()
	found, err := q.search(inner, seed, proof)
	stop()
	<-proof // which uses the runtime
	switch {
	case found != nil:
		return *found, nil
	case proven:
		return Result{Answer: Unsat}, nil
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return Result{Answer: Timeout}, nil
	}
	return Result{Answer: Unknown}, cmp.Or(context.Cause(ctx), failed, err)
}

// search attacks until the proof has ended, and for some rounds more.
func (q *Question) search(ctx context.Context, seed uint64, proof <-chan struct{}) (found *Result, err error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for round, left := 0, rounds; left > 0; round++ {
		select {
		case <-proof:
			left--
		default:
		}
		if found, err = q.attack(ctx, rng, round); found != nil || err != nil {
			break
		}
	}
	return found, err
}

// prove reports whether no case can hold.
func (q *Question) prove(ctx context.Context) (bool, error) {
	if q.unbounded != nil {
		return false, nil
	}
	open := make([]int, len(q.of.Cases))
	for i := range open {
		open[i] = i
	}
	for len(open) > 0 { // cases of one box at a time
		first := &q.of.Cases[open[0]]
		var same []*Case
		for _, i := range open {
			if c := &q.of.Cases[i]; c.sameBox(first) {
				same = append(same, c)
			}
		}
		open = slices.DeleteFunc(open, func(i int) bool { return q.of.Cases[i].sameBox(first) })
		if impossible, err := q.impossible(ctx, same); !impossible || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (c *Case) sameBox(o *Case) bool {
	return slices.Equal(c.Lower, o.Lower) && slices.Equal(c.Upper, o.Upper)
}

// impossible reports whether it is proven that none of some cases of one box holds. A case cannot hold if one of its
// constraints cannot.
func (q *Question) impossible(ctx context.Context, cases []*Case) (bool, error) {
	var rows []float64
	for _, c := range cases {
		if len(c.Constraints) == 0 {
			return false, nil
		}
		for _, one := range c.Constraints {
			rows = append(rows, one.Row...)
		}
	}
	none := func(proven []bounds.Bound) bool {
		for _, c := range cases {
			possible := true
			for _, one := range c.Constraints {
				possible = possible && proven[0].Least() <= one.Bound
				proven = proven[1:]
			}
			if possible {
				return false
			}
		}
		return true
	}
	region := bounds.Box(cases[0].Lower, cases[0].Upper)
	proven, err := q.bounds.Rows(ctx, bounds.AlphaCROWN, region, rows, none)
	return err == nil && none(proven), err
}

// holds reports whether an output fulfils a constraint, in float64.
func (c Constraint) holds(y []float32) bool {
	excess := c.excess(y)
	return excess < 0 || excess == 0 && !c.Strict
}

// excess is by how much Σ Row·Y is more than the bound.
func (c Constraint) excess(y []float32) float64 {
	sum := -c.Bound
	for i, v := range c.Row {
		sum += v * float64(y[i])
	}
	return sum
}

// attack looks for a counterexample of each case from a random start, in the first round from the box's middle.
func (q *Question) attack(ctx context.Context, rng *rand.Rand, round int) (*Result, error) {
	const most = 64 // in a batch
	for first := 0; first < len(q.of.Cases); first += most {
		cases := q.of.Cases[first:min(first+most, len(q.of.Cases))]
		if found, err := q.descend(ctx, cases, rng, round); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// descend lowers the largest excess of each case's constraints by signed gradient steps with momentum, whose length
// falls from a quarter of the box's width to a hundredth.
func (q *Question) descend(ctx context.Context, cases []Case, rng *rand.Rand, round int) (*Result, error) {
	n, in, out := len(cases), q.of.Inputs, q.of.Outputs
	x, w, momentum := make([]float32, n*in), make([]float32, n*out), make([]float64, n*in)
	lower, upper := make([][]float32, n), make([][]float32, n)
	for k, c := range cases {
		lower[k], upper[k] = bounds.Within(c.Lower, c.Upper)
		for i := range in {
			at := float32(0.5)
			if round > 0 {
				at = rng.Float32()
			}
			x[k*in+i] = min(max(lower[k][i]+at*(upper[k][i]-lower[k][i]), lower[k][i]), upper[k][i])
		}
		if len(c.Constraints) > 0 {
			copy32(w[k*out:(k+1)*out], c.Constraints[0].Row)
		}
	}
	batch := func(shape onnx.Shape, data []float32) ort.Tensor {
		return ort.Tensor{Shape: append([]int64{int64(n)}, shape[1:]...), Data: data}
	}
	for step := range steps + 1 {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		got, err := q.climb.Run([]ort.Tensor{batch(q.net.Inputs[0].Shape, x), batch(q.net.Outputs[0].Shape, w)})
		if err != nil {
			return nil, err
		}
		rate := 0.01 + 0.24*(1+math.Cos(math.Pi*float64(step)/steps))/2
		for k, c := range cases {
			y, xs := got[0].Data[k*out:(k+1)*out], x[k*in:(k+1)*in]
			worst, excess := -1, math.Inf(-1)
			all := true
			for i, one := range c.Constraints {
				all = all && one.holds(y)
				if e := one.excess(y); e > excess {
					worst, excess = i, e
				}
			}
			if all {
				if found, err := q.confirm(c, xs); found != nil || err != nil {
					return found, err
				}
			}
			if worst < 0 {
				continue
			}
			for i, g := range got[1].Data[k*in : (k+1)*in] {
				m := &momentum[k*in+i]
				*m = 0.75**m + float64(g)
				width := float64(upper[k][i]) - float64(lower[k][i])
				move := 0.0
				if *m != 0 {
					move = -math.Copysign(rate*width, *m)
				}
				xs[i] = min(max(xs[i]+float32(move), lower[k][i]), upper[k][i])
			}
			copy32(w[k*out:(k+1)*out], c.Constraints[worst].Row) // of the gradient to come
		}
	}
	return nil, nil
}

func copy32(to []float32, from []float64) {
	for i, v := range from {
		to[i] = float32(v)
	}
}

// confirm runs the network on a counterexample alone and checks it as it will be read.
func (q *Question) confirm(c Case, x []float32) (*Result, error) {
	x = slices.Clone(x)
	in := append([]int64{1}, q.net.Inputs[0].Shape[1:]...)
	got, err := q.climb.Run([]ort.Tensor{{Shape: in, Data: x},
		{Shape: append([]int64{1}, q.net.Outputs[0].Shape[1:]...), Data: make([]float32, q.of.Outputs)}})
	if err != nil {
		return nil, err
	}
	for _, one := range c.Constraints {
		if !one.holds(got[0].Data) {
			return nil, nil
		}
	}
	return &Result{Sat, x, got[0].Data}, nil
}
