package vnnlib

import (
	"context"

	"selfheal/models/bounds"
)

func (q *question) prove(ctx context.Context) (bool, error) {
	if q.bounds == nil {
		return false, nil
	}
	for _, b := range q.of.boxes {
		if b.region().Check(q.of.inputs) != nil { // beyond float32
			return false, nil
		}
		// As many constraints at a time as the memory allows.
		most := max(1, min(q.bounds.RowsAtOnce(), mostRows/q.of.outputs))
		for cases := b.cases; len(cases) > 0; {
			n, rows := 0, 0
			for n < len(cases) && (n == 0 || rows+len(cases[n].constraints) <= most) {
				rows += len(cases[n].constraints)
				n++
			}
			if impossible, err := q.impossible(ctx, b, cases[:n], most); !impossible || err != nil {
				return false, err
			}
			cases = cases[n:]
		}
	}
	return true, nil
}

// mostRows is how many numbers constraints have as dense rows, at most.
const mostRows = 1 << 22

// impossible reports whether it is proven that none of some cases of one box holds. A case cannot hold if one of its
// constraints cannot. A single case's constraints beyond most are left out.
func (q *question) impossible(ctx context.Context, b *box, cases []conjunction, most int) (bool, error) {
	var rows []float64
	var asked [][]constraint
	for _, c := range cases {
		if len(c.constraints) == 0 {
			return false, nil
		}
		some := c.constraints[:min(most, len(c.constraints))]
		asked = append(asked, some)
		for _, one := range some {
			row := make([]float64, q.of.outputs)
			for _, t := range one.row {
				row[t.index] = t.factor
			}
			rows = append(rows, row...)
		}
	}
	none := func(proven []bounds.Bound) bool {
		for _, constraints := range asked {
			// Only a bound that is above the constraint's rules the case out: what is not a number rules out nothing.
			out := false
			for i, one := range constraints {
				out = out || proven[i].Least() > one.bound
			}
			if !out {
				return false
			}
			proven = proven[len(constraints):]
		}
		return true
	}
	proven, err := q.bounds.Rows(ctx, bounds.AlphaCROWN, b.region(), rows, none)
	return err == nil && none(proven), err
}
