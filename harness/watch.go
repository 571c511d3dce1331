package harness

import (
	"context"

	"selfheal/attacks"
	"selfheal/internal/number"
	"selfheal/internal/vector"
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

// vanished is the ℓ2 norm below which a gradient counts as 0: normalised by its norm
// plus 1e-12, as attacks do, it would give steps that are noticeably too short.
const vanished = 1e-11

// watch passes one image's questions on and looks at the gradients that come back.
type watch struct {
	*counted
	seen  *watched
	asked int
}

func (w *watch) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	err := w.counted.Gradient(ctx, x, loss, label, target, e)
	if err != nil {
		return err
	}
	w.seen.asked = true
	if !vector.Finite(e.Gradient) || !number.Finite(float64(e.Loss)) {
		w.seen.notFinite = true
	}
	// A vanishing gradient matters where the attack has yet to begin: later the label
	// may rank third, where DLR is constant, and the image be broken anyway.
	if w.asked == 0 && attacks.L2.Length(e.Gradient) < vanished {
		w.seen.zero = true
	}
	w.asked++
	return nil
}
