package harness

import (
	"context"
	"math"

	"selfheal/attacks"
)

// watched is what an attack's gradients on one image looked like.
type watched struct{ asked, zero, notFinite bool }

func (g *gradients) count(w watched) {
	for _, row := range []struct {
		saw bool
		n   *int
	}{{w.asked, &g.images}, {w.zero, &g.zero}, {w.notFinite, &g.notFinite}} {
		if row.saw {
			*row.n++
		}
	}
}

// watch passes one image's questions on and looks at the gradients that come back.
type watch struct {
	*counted
	seen  *watched
	asked int
}

func (w *watch) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int, e *attacks.Evaluation) error {
	err := w.counted.Gradient(ctx, x, loss, label, target, e)
	if err != nil {
		return err
	}
	w.seen.asked = true
	// By bits, as this is asked of every gradient: any is 0 where all values are ±0, and
	// an exponent of all ones, infinite or NaN, carries into the sign.
	var any, carried uint32
	for _, g := range e.Gradient {
		b := math.Float32bits(g)
		any |= b << 1
		carried |= b&0x7f800000 + 0x00800000
	}
	zero := any == 0
	if loss := float64(e.Loss); carried>>31 != 0 || loss-loss != 0 {
		w.seen.notFinite = true
	}
	// A vanishing gradient matters where the attack has yet to begin: later the label
	// may rank third, where DLR is constant, and the image be broken anyway.
	if zero && w.asked == 0 {
		w.seen.zero = true
	}
	w.asked++
	return nil
}
