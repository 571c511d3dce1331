package attacks

import (
	"context"
	"errors"
)

// questions are those of an attack that sees no more than classes, up to a number of them.
type questions struct {
	nearest
	left int
}

// errAnswered ends such an attack: all questions are asked, or the verdict is known.
var errAnswered = errors.New("no further question")

// ask asks whether x is another class's.
func (q *questions) ask(ctx context.Context, x []float32) (wrong bool, err error) {
	if q.left == 0 {
		return false, errAnswered
	}
	q.left--
	if wrong, err = q.wrong(ctx, x); err != nil {
		return false, err
	}
	if q.meet(x, wrong) {
		return wrong, errAnswered
	}
	q.res.Iterations++
	return wrong, nil
}

// halve looks between an answer that is right at low and one that is wrong at high for where it changes, until that is
// known to within. Points that float32 does not tell apart end it too.
func (q *questions) halve(ctx context.Context, low, high, within float64, point func(at float64) []float32) (
	float64, error) {
	for high-low > within {
		middle := (low + high) / 2
		if float32(middle) == float32(low) || float32(middle) == float32(high) {
			break
		}
		wrong, err := q.ask(ctx, point(middle))
		if err != nil {
			return high, err
		}
		if wrong {
			high = middle
		} else {
			low = middle
		}
	}
	return high, nil
}

// finished is an attack's result once its search has ended with an error.
func (q *questions) finished(err error) (Result, error) {
	if errors.Is(err, errAnswered) {
		return q.result(), nil
	}
	return Result{}, err
}
