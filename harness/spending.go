package harness

import "selfheal/models/ort"

// spending is what a component's images have cost, and what those to come will: an image that stands costs all its
// passes, one that falls what it has cost until then.
type spending struct {
	total, before int     // images, and how many stood at first
	each          float64 // passes of an image that stands
	width         int     // images under way at once
	finished      int
	fallen        int
	stood         float64 // passes of the images that are finished and stand
	fell          float64 // passes of those that fell
}

// newSpending is at a component's begin: passes are the most that its images take.
func newSpending(total, standing int, passes int64, on *counted) spending {
	s := spending{total: total, before: standing, each: float64(passes) / float64(max(total, 1)), width: total}
	if on.of.net != nil {
		pool := on.of.net.Pool()
		s.width = widthOf(pool, on.state)
	}
	return s
}

// widthOf is how many images of a state a pool has under way at once.
func widthOf(pool *ort.Pool, state int64) int {
	return min(2*pool.Workers()*pool.Batch(), inFlight(pool, state))
}

// under is how many images are under way.
func (s *spending) under() int { return min(s.total-s.finished, s.width) }

// image notes that an image is finished, when so many passes have been made and so many images stand. All that
// are under way have made about as many: they take turns.
func (s *spending) image(made int64, standing int) {
	share := min((float64(made)-s.stood-s.fell)/float64(max(s.under(), 1)), s.each)
	if fallen := s.before - standing; fallen > s.fallen {
		s.fallen = fallen
		s.fell += share
	} else {
		s.stood += s.each
	}
	s.finished++
}

// left is how many passes are to come. Images under way are taken to stand, since those that fall are finished soon;
// of the others as many fall as so far.
func (s *spending) left(made int64) float64 {
	under := s.under()
	left := max(float64(under)*s.each-max(float64(made)-s.stood-s.fell, 0), 0)
	if waiting := s.total - s.finished - under; waiting > 0 {
		falls, cost := 0.0, 0.0
		if s.fallen > 0 {
			falls, cost = float64(s.fallen)/float64(s.finished+under), s.fell/float64(s.fallen)
		}
		left += float64(waiting) * (falls*cost + (1-falls)*s.each)
	}
	return left
}
