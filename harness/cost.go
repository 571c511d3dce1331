package harness

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A run's cost follows from three things that need no attack: how long passes take on this
// machine, what a component asks of an image that stands and of one that falls, and how far
// images are from the boundary. The last is the first-order distance, the margin divided by
// the dual norm of its gradient. Which images fall is then drawn [draws] times, and the
// draws' spread is the range.

const (
	draws = 200
	// An image at first-order distance d, in epsilons, stands with probability 1/(1 + (typical/d)^steep):
	// fitted to 3,645 attacks on ten networks (docs/dry-run.md).
	typical, steep = 1.0, 7
	// The typical distance differs from network to network, and rates from hour to hour: standard
	// deviations of their logarithms.
	networkSpread, rateSpread = 0.22, 0.27
	// lateShare of the images that fall, from half an epsilon on, fall to a component behind the first.
	lateShare = 0.12
	// widest is the ratio of a range's ends at most.
	widest = 3
	// simulated is how many images are drawn; more are alike.
	simulated = 1000
)

// point is how long a round of passes takes in which so many images make one pass each.
type point struct {
	Images  int     `json:"images"`
	Seconds float64 `json:"seconds"`
}

// curve is a program's points, by rising number of images.
type curve []point

// at is the time of a round of n images, in seconds: between points on a line, behind the last on the
// line through the last two.
func (c curve) at(n int) float64 {
	switch i, _ := slices.BinarySearchFunc(c, n, func(p point, n int) int { return cmp.Compare(p.Images, n) }); {
	case n <= 0 || len(c) == 0:
		return 0
	case i == 0:
		return c[0].Seconds
	case len(c) == 1:
		return c[0].Seconds * float64(n) / float64(c[0].Images)
	default:
		a, b := c[min(i, len(c)-1)-1], c[min(i, len(c)-1)]
		slope := (b.Seconds - a.Seconds) / float64(b.Images-a.Images)
		return max(a.Seconds, a.Seconds+slope*float64(n-a.Images))
	}
}

// work is what an image costs a component.
type work struct {
	Forward   int64   `json:"forward"`   // passes without a gradient
	Gradients int64   `json:"gradients"` // passes with one
	Seconds   float64 `json:"seconds"`   // of one core, beside the passes
}

func (w work) passes() int64 { return w.Forward + w.Gradients }

// speed is how an oracle answers on this machine.
type speed struct {
	forward, gradient curve
	width, cores      int // images under way at once; cores that work beside the passes
}

// round is the time of a round of n images, of whose passes a share takes gradients. More images than may be
// under way take turns.
func (s speed) round(n int, share float64) float64 {
	under := min(n, s.width)
	once := share*s.gradient.at(under) + (1-share)*s.forward.at(under)
	return once * float64(n) / float64(max(under, 1))
}

// lasting is how long images take that begin together: in every round each that is not finished makes a pass.
func (s speed) lasting(images []work) float64 {
	var forward, gradients int64
	seconds, before := 0.0, int64(0)
	for _, w := range images {
		forward, gradients, seconds = forward+w.Forward, gradients+w.Gradients, seconds+w.Seconds
	}
	seconds /= float64(s.cores)
	if gradients+forward == 0 {
		return seconds
	}
	share := float64(gradients) / float64(gradients+forward)
	slices.SortFunc(images, func(a, b work) int { return cmp.Compare(a.passes(), b.passes()) })
	for i, w := range images {
		if p := w.passes(); p > before {
			seconds += float64(p-before) * s.round(len(images)-i, share)
			before = p
		}
	}
	return seconds
}

// repeated is n images of the same work.
func repeated(n int, w work) []work { return slices.Repeat([]work{w}, max(n, 0)) }

// crafting is what is to be simulated: a recipe on an oracle.
type crafting struct {
	parts     []rehearsal // of the components
	verdict   bool        // an attack ends at an image's first success
	n         int         // images
	distances []float64   // of a sample's images, in epsilons; 0 for one that is wrong, -1 where it is not known
	speed     speed
}

// outlook is what a draw of a crafting came to.
type outlook struct {
	seconds       float64
	right, fallen int
}

// standing is the probability that an image at a distance, in epsilons, stands.
func standing(d float64) float64 { return 1 / (1 + math.Pow(typical/d, steep)) }

// draw simulates a crafting. Shift is the network's typical distance, as a factor.
func (c *crafting) draw(rng *rand.Rand, shift float64) outlook {
	if len(c.distances) == 0 || c.n == 0 {
		return outlook{}
	}
	n := min(c.n, simulated)
	scale := float64(c.n) / float64(n)
	at := make([][]work, len(c.parts))
	unknown := rng.Float64() // the share that stands where nothing tells
	var o outlook
	for i := range n {
		d := c.distances[i%len(c.distances)]
		if d == 0 {
			continue
		}
		o.right++
		stands := unknown
		if d > 0 {
			stands = standing(d / shift)
		}
		last := len(c.parts)
		if rng.Float64() >= stands {
			o.fallen++
			if last = 0; len(c.parts) > 1 && math.Abs(d) > 0.5 && rng.Float64() < lateShare {
				last = 1
			}
		}
		for k, p := range c.parts[:min(last+1, len(c.parts))] {
			w := p.Stands
			if k == last {
				w = p.fall(c.verdict, d, rng)
			}
			at[k] = append(at[k], w)
		}
	}
	for _, images := range at {
		o.seconds += c.speed.lasting(images) * scale
	}
	o.right, o.fallen = int(float64(o.right)*scale), int(float64(o.fallen)*scale)
	return o
}

// span is a range of seconds.
type span struct{ low, high float64 }

// spanOf is where nine of ten draws lie, or where these are further apart, the range of ratio [widest] with the
// most draws.
func spanOf(seconds []float64) span {
	sorted := slices.Sorted(slices.Values(seconds))
	at := func(share float64) float64 { return sorted[int(share*float64(len(sorted)-1))] }
	s := span{at(0.05), at(0.95)}
	if s.high <= widest*s.low {
		return s
	}
	most := 0
	for i, low := range sorted {
		if end, _ := slices.BinarySearch(sorted, widest*low); end-i > most {
			most, s = end-i, span{low, widest * low}
		}
	}
	return s
}
