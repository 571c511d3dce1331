package attacks

import (
	"cmp"
	"context"
	"errors"
	"math"
)

// questions asks about points for an attack that sees classes alone, up to a limit. With 8-bit pixels some questions
// are about rounded points: the first point within epsilon and, at the end, the nearest.
type questions struct {
	nearest
	left  int
	grid  *grid     // nil if pixels may have any value
	kept  []float32 // the rounded point that is misclassified; nil before the first
	tried float64   // distance of the last point that was rounded
}

// roundings are the ways to round a point: to the nearest levels and, if that undoes its success, away from the clean
// image.
var roundings = [...]func(by float64) float64{
	Survived: math.Round,
	Regained: func(by float64) float64 { return math.Ceil(by - 1e-3) },
}

func newQuestions(c common, o Oracle, im Image, how Options, most int) questions {
	q := questions{nearest: newNearest(c, o, im, how), left: most}
	if c.stored {
		q.grid, q.tried = newGrid(c.Norm, c.Epsilon, im.Pixels), math.Inf(1)
		if !q.grid.fits() {
			q.left, q.res.Rounded = 0, Lost
		}
	}
	return q
}

// reserved returns the number of questions that the end of the search needs.
func (q *questions) reserved() int {
	if q.grid == nil {
		return 0
	}
	return len(roundings)
}

// errAnswered ends the attack: all questions are asked, or the verdict is known.
var errAnswered = errors.New("no further question")

// ask reports whether x is misclassified.
func (q *questions) ask(ctx context.Context, x []float32) (wrong bool, err error) {
	if q.left <= q.reserved() {
		return false, cmp.Or(ctx.Err(), errAnswered)
	}
	q.left--
	if wrong, err = q.wrong(ctx, x); err != nil {
		return false, err
	}
	ends := q.meet(x, wrong)
	if q.grid != nil && q.res.FirstSuccess >= 0 && math.IsInf(q.tried, 1) {
		if err := q.store(ctx); err != nil {
			return false, err
		}
	}
	if ends && (q.grid == nil || q.kept != nil) {
		return wrong, errAnswered
	}
	q.res.Iterations++
	return wrong, nil
}

// store rounds the nearest point and keeps it if it is misclassified and nearer than the one kept before.
func (q *questions) store(ctx context.Context) error {
	q.tried = q.distance
	for how, by := range roundings {
		if q.left == 0 {
			break
		}
		x := make([]float32, len(q.adv))
		q.grid.round(q.adv, by)
		q.grid.write(x)
		q.left--
		if wrong, err := q.wrong(ctx, x); err != nil {
			return err
		} else if wrong {
			if away := q.Norm.Distance; q.kept == nil || away(x, q.im.Pixels) < away(q.kept, q.im.Pixels) {
				q.kept, q.res.Rounded = x, Rounding(how)
			}
			return nil
		}
	}
	if q.kept == nil {
		q.res.Rounded = Lost
	}
	return nil
}

// halve bisects between low, where the answer is right, and high, where it is wrong, until the place of the change is
// known to within. It also ends at points that float32 can't tell apart.
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

// finished returns the attack's result after its search has ended with an error.
func (q *questions) finished(ctx context.Context, err error) (Result, error) {
	if !errors.Is(err, errAnswered) {
		return Result{}, err
	}
	if q.grid == nil {
		return q.result(), nil
	}
	if q.distance < q.tried && q.distance <= q.Epsilon {
		if err := q.store(ctx); err != nil {
			return Result{}, err
		}
	}
	q.res.Adversarial, q.res.Distance, q.res.Nearer = q.kept, 0, nil // points off the levels do not count
	if q.kept == nil {
		q.res.FirstSuccess, q.res.FirstForward = -1, -1
	} else {
		q.res.Distance = q.Norm.Distance(q.kept, q.im.Pixels)
	}
	return q.res, nil
}
