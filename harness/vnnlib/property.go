package vnnlib

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"selfheal/models/bounds"
)

// property is a VNN-LIB file's question: is there an input in one of the cases? The property holds if there is none.
type property struct {
	size
	cases   []conjunction
	boxes   []*box   // the cases' boxes, each once
	tensors []tensor // as version 2 declares them
}

// conjunction is a box of inputs, and linear constraints on the outputs.
type conjunction struct {
	box         *box
	constraints []constraint
}

// constraint is Σ row·Y ≤ bound or, if strict is set, Σ row·Y < bound.
type constraint struct {
	row    []term
	bound  float64
	strict bool
}

// box is a set of inputs between two ends.
type box struct {
	lower, upper []float64    // the ends, rounded outwards if a quotient is inexact
	low, high    []float32    // the least and the largest float32 values in it
	apart        int          // the first input without a float32 value in the box, or −1
	inner        [2][]float64 // the ends rounded inwards, also if they are strict
	cases        []conjunction
}

func newBox(inputs int) *box {
	none := func(sign int) []float64 { return slices.Repeat([]float64{math.Inf(sign)}, inputs) }
	return &box{lower: none(-1), upper: none(1), apart: -1, inner: [2][]float64{none(-1), none(1)}}
}

// cut cuts the box to factor·X ≤ bound or, if strict is set, factor·X < bound.
func (b *box) cut(t term, bound float64, strict bool) {
	i, end := t.index, bound/t.factor+0
	// The quotient's error has the sign of end·factor − bound, which is rounded only once.
	off := math.FMA(end, t.factor, -bound)
	below, above := off < 0, off > 0
	if bound != 0 && math.Abs(end) < 1e-290 { // the error may underflow here
		below, above = true, true
	}
	side, sign := 1, 1 // of the end
	if t.factor < 0 {
		side, sign = 0, -1
	}
	outer, inner := end, end
	if below {
		outer = math.Nextafter(end, math.Inf(sign))
	}
	if above || strict && !below {
		inner = math.Nextafter(end, math.Inf(-sign))
	}
	if side == 1 {
		b.upper[i], b.inner[1][i] = min(b.upper[i], outer), min(b.inner[1][i], inner)
	} else {
		b.lower[i], b.inner[0][i] = max(b.lower[i], outer), max(b.inner[0][i], inner)
	}
}

// open returns the first input without an end, or −1.
func (b *box) open() int {
	for i := range b.lower {
		if !(b.lower[i] > math.Inf(-1) && b.upper[i] < math.Inf(1)) {
			return i
		}
	}
	return -1
}

// empty reports whether no real number lies between two ends.
func (b *box) empty() bool {
	for i := range b.lower {
		if b.lower[i] > b.upper[i] {
			return true
		}
	}
	return false
}

// close finds the float32 values in the box.
func (b *box) close() {
	b.low, b.high, b.apart = bounds.Within(b.inner[0], b.inner[1])
	b.inner = [2][]float64{}
}

var seed = maphash.MakeSeed()

func (b *box) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range b.lower {
		maphash.WriteComparable(&h, [2]float64{b.lower[i], b.upper[i]})
	}
	return h.Sum64()
}

// holds reports whether an input lies in the box.
func (b *box) holds(x []float32) bool {
	for i, v := range x {
		if !(v >= b.low[i] && v <= b.high[i]) {
			return false
		}
	}
	return b.apart < 0
}

func (b *box) equal(o *box) bool {
	return slices.Equal(b.lower, o.lower) && slices.Equal(b.upper, o.upper) && slices.Equal(b.low, o.low) &&
		slices.Equal(b.high, o.high)
}

// property turns the assertions into boxes and constraints.
func (p *parser) property(ctx context.Context) (*property, error) {
	for _, known := range []struct {
		what string
		of   []bool
	}{{"X", p.inputs}, {"Y", p.outputs}} {
		if i := slices.Index(known.of, false); i >= 0 {
			return nil, fmt.Errorf("does not declare %s_%d; the network has %d inputs and %d outputs", known.what, i,
				p.size.inputs, p.size.outputs)
		}
	}
	if len(p.inputs)*len(p.cases) > mostAtoms {
		return nil, fmt.Errorf("has %d cases of %d inputs", len(p.cases), len(p.inputs))
	}
	out := &property{size: p.size, tensors: p.tensors}
	boxes := map[uint64][]*box{}
	for _, atoms := range p.cases {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c, b, possible := conjunction{}, newBox(p.size.inputs), true
		for _, a := range atoms {
			switch {
			case len(a.x) == 0 && len(a.y) == 0:
				possible = possible && (a.bound > 0 || a.bound == 0 && !a.strict)
			case len(a.x) == 0:
				c.constraints = append(c.constraints, constraint{a.y, a.bound, a.strict})
			case len(a.x) == 1 && len(a.y) == 0:
				b.cut(a.x[0], a.bound, a.strict)
			default:
				return nil, errors.New("has a constraint on several inputs, or on inputs and outputs: " +
					"inputs lie in a box")
			}
		}
		if i := b.open(); i >= 0 {
			return nil, fmt.Errorf("input X_%d has no lower or no upper bound", i)
		}
		if !possible || b.empty() {
			continue
		}
		b.close()
		key := b.hash()
		if i := slices.IndexFunc(boxes[key], b.equal); i >= 0 {
			b = boxes[key][i]
		} else {
			boxes[key] = append(boxes[key], b)
			out.boxes = append(out.boxes, b)
		}
		c.box = b
		b.cases = append(b.cases, c)
		out.cases = append(out.cases, c)
	}
	return out, nil
}

// region returns the region of proofs: all float32 inputs in the box.
func (b *box) region() bounds.Region { return bounds.Box(b.lower, b.upper) }

// holds reports whether an output fulfils a constraint, in float64. NaN fulfils none.
func (c constraint) holds(y func(i int) float64) bool {
	excess := c.excess(y)
	return excess < 0 || excess == 0 && !c.strict
}

// excess returns Σ row·Y minus the bound.
func (c constraint) excess(y func(i int) float64) float64 {
	sum := -c.bound
	for _, t := range c.row {
		sum += t.factor * y(t.index)
	}
	return sum
}

func (c conjunction) holds(y func(i int) float64) bool {
	return !slices.ContainsFunc(c.constraints, func(one constraint) bool { return !one.holds(y) })
}
