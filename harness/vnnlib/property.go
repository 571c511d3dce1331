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

// Property is what a VNN-LIB file asks for: an input in one of the cases. Without one the property holds.
type Property struct {
	Size
	Cases []Case
	Boxes []*Box // those of the cases, each once
}

// Case is a conjunction: a box of inputs, and linear constraints on the outputs.
type Case struct {
	Box         *Box
	Constraints []Constraint
}

// Constraint is Σ Row·Y ≤ Bound, or < where it is strict.
type Constraint struct {
	Row    []Term
	Bound  float64
	Strict bool
}

// Box is the inputs between two ends.
type Box struct {
	// Lower and Upper hold the box: where an end is a quotient, it is rounded outwards.
	Lower, Upper []float64
	// Low and High are the least and the largest float32 values in it; see Apart.
	Low, High []float32
	// Apart is the first input of which no float32 value lies in the box, or −1.
	Apart int

	inner [2][]float64 // the ends rounded inwards, also where they are strict
}

func newBox(inputs int) *Box {
	none := func(sign int) []float64 { return slices.Repeat([]float64{math.Inf(sign)}, inputs) }
	return &Box{Lower: none(-1), Upper: none(1), Apart: -1, inner: [2][]float64{none(-1), none(1)}}
}

// cut leaves what fulfils factor·X ≤ bound, or < where it is strict.
func (b *Box) cut(t Term, bound float64, strict bool) {
	i, end := t.Index, bound/t.Factor+0
	// The quotient's error has the sign of end·factor − bound, which is rounded only once.
	off := math.FMA(end, t.Factor, -bound)
	below, above := off < 0, off > 0
	if bound != 0 && math.Abs(end) < 1e-290 { // where the error underflows
		below, above = true, true
	}
	side, sign := 1, 1 // of the end
	if t.Factor < 0 {
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
		b.Upper[i], b.inner[1][i] = min(b.Upper[i], outer), min(b.inner[1][i], inner)
	} else {
		b.Lower[i], b.inner[0][i] = max(b.Lower[i], outer), max(b.inner[0][i], inner)
	}
}

// open is the first input without an end, or −1.
func (b *Box) open() int {
	for i := range b.Lower {
		if !(b.Lower[i] > math.Inf(-1) && b.Upper[i] < math.Inf(1)) {
			return i
		}
	}
	return -1
}

// empty reports whether no real number lies between two ends.
func (b *Box) empty() bool {
	for i := range b.Lower {
		if b.Lower[i] > b.Upper[i] {
			return true
		}
	}
	return false
}

// close finds the float32 values in the box.
func (b *Box) close() {
	b.Low, b.High, b.Apart = bounds.Within(b.inner[0], b.inner[1])
	b.inner = [2][]float64{}
}

var seed = maphash.MakeSeed()

func (b *Box) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range b.Lower {
		maphash.WriteComparable(&h, [2]float64{b.Lower[i], b.Upper[i]})
	}
	return h.Sum64()
}

func (b *Box) equal(o *Box) bool {
	return slices.Equal(b.Lower, o.Lower) && slices.Equal(b.Upper, o.Upper) && slices.Equal(b.Low, o.Low) &&
		slices.Equal(b.High, o.High)
}

// property turns the assertions into boxes and constraints.
func (p *parser) property(ctx context.Context) (*Property, error) {
	for _, known := range []struct {
		what string
		of   []bool
	}{{"X", p.inputs}, {"Y", p.outputs}} {
		if i := slices.Index(known.of, false); i >= 0 {
			return nil, fmt.Errorf("does not declare %s_%d; the network has %d inputs and %d outputs", known.what, i,
				p.size.Inputs, p.size.Outputs)
		}
	}
	if len(p.inputs)*len(p.cases) > mostAtoms {
		return nil, fmt.Errorf("has %d cases of %d inputs", len(p.cases), len(p.inputs))
	}
	out := &Property{Size: p.size}
	boxes := map[uint64][]*Box{}
	for _, atoms := range p.cases {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c, b, possible := Case{}, newBox(p.size.Inputs), true
		for _, a := range atoms {
			switch {
			case len(a.x) == 0 && len(a.y) == 0:
				possible = possible && (a.bound > 0 || a.bound == 0 && !a.strict)
			case len(a.x) == 0:
				c.Constraints = append(c.Constraints, Constraint{a.y, a.bound, a.strict})
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
			out.Boxes = append(out.Boxes, b)
		}
		c.Box = b
		out.Cases = append(out.Cases, c)
	}
	return out, nil
}

// region is what proofs are of: all float32 inputs in the box.
func (b *Box) region() bounds.Region { return bounds.Box(b.Lower, b.Upper) }

// holds reports whether an output fulfils a constraint, in float64. One that is not a number fulfils none.
func (c Constraint) holds(y func(i int) float64) bool {
	excess := c.excess(y)
	return excess < 0 || excess == 0 && !c.Strict
}

// excess is by how much Σ Row·Y is more than the bound.
func (c Constraint) excess(y func(i int) float64) float64 {
	sum := -c.Bound
	for _, t := range c.Row {
		sum += t.Factor * y(t.Index)
	}
	return sum
}

func (c Case) holds(y func(i int) float64) bool {
	return !slices.ContainsFunc(c.Constraints, func(one Constraint) bool { return !one.holds(y) })
}
