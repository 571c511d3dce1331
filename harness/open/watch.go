package open

import (
	"context"
	"math"

	"selfheal/attacks"
	"selfheal/internal/vector"
)

// Faults records faults of the gradients in all attacks on one image.
type Faults struct {
	Asked     bool `json:"asked,omitempty"`      // a component took gradients
	NotFinite bool `json:"not_finite,omitempty"` // a gradient or loss was infinite or NaN
	Wild      bool `json:"wild,omitempty"`       // a gradient was infinite or NaN
	Starts    int  `json:"starts,omitempty"`     // number of runs
	Blind     int  `json:"blind,omitempty"`      // number of runs whose first gradient was 0
}

// Failed reports whether the attacks on the image hardly worked, should it stand.
func (f Faults) Failed() bool { return f.Wild || f.Starts > 0 && f.Blind == f.Starts }

// Watch returns an oracle that passes an attack's questions about one image on and records the gradients' faults.
func Watch(o attacks.Oracle, seen *Faults) attacks.Oracle { return &watch{o, seen} }

type watch struct {
	attacks.Oracle
	seen *Faults
}

// Along implements [attacks.Other].
func (w *watch) Along(gradient string) (attacks.Oracle, error) {
	by, err := attacks.Along(w.Oracle, gradient)
	if by == nil || err != nil {
		return nil, err
	}
	return Watch(by, w.seen), nil
}

func (w *watch) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	err := w.Oracle.Gradient(ctx, x, loss, label, target, e)
	if err != nil {
		return err
	}
	wild := !vector.Finite(e.Gradient)
	w.seen.Asked, w.seen.Wild = true, w.seen.Wild || wild
	// −∞ is the loss at a class that never wins
	w.seen.NotFinite = w.seen.NotFinite || wild || !(e.Loss <= math.MaxFloat32)
	return nil
}
