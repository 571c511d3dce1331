package bounds

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"selfheal/internal/lists"
	"selfheal/internal/tree"
)

// cut restricts a domain to the inputs for which a stage's value lies on one side of a point. A Lagrange multiplier β
// expresses it too (Wang et al. 2021, "Beta-CROWN", equation 5).
type cut struct {
	place
	above bool
}

// place is a point of one value of a stage's input; for a ReLU or LeakyReLU, its kink.
type place struct {
	stage, value int
	at           float64 // a float32
}

// withCuts makes the programs with cuts once.
func (n *Network) withCuts() (err error) {
	n.cutter.Lock()
	defer n.cutter.Unlock()
	if n.cut == nil {
		n.cut, err = n.backward(n.output.tensor, []string{n.input}, cutsFree)
	}
	if n.ended == nil && err == nil {
		n.ended, err = n.backward(n.output.tensor, []string{n.input}, cutsGiven)
	}
	return err
}

// Cuttable reports whether the network has values at which its region can be cut.
func (n *Network) Cuttable() bool { return slices.ContainsFunc(n.stages, (*stage).cuttable) }

// cuttable reports whether a stage works value by value and is not affine.
func (s *stage) cuttable() bool { return !s.joins() && s.node.Op != "Identity" }

// kinked reports whether a stage is affine on both sides of 0.
func (s *stage) kinked() bool { return s.node.Op == "Relu" || s.node.Op == "LeakyRelu" }

// Root is a region whose rows α-CROWN and β-CROWN bound. The stages' inputs are bounded once, and once more if
// branching takes long.
type Root struct {
	proof   *proof
	out     *relaxation
	refined *Root // nil: not yet
}

// Root bounds the stages' inputs over a region.
func (n *Network) Root(ctx context.Context, region Region) (*Root, error) {
	p := n.prove(region, alphaSteps)
	p.cutting = n.Cuttable()
	return p.root(ctx)
}

func (p *proof) root(ctx context.Context) (*Root, error) {
	n := p.Network
	out, err := p.inner(ctx, AlphaCROWN)
	if err == nil && out != nil && p.cutting {
		for i, s := range n.stages {
			own := p.known[i].own
			if own == nil || p.boxed(s) {
				continue
			}
			for j, l := range p.known[i].lower {
				if u := p.known[i].upper[j]; s.bends(float64(l), float64(u)) {
					own.bending = append(own.bending, j)
					own.ends.lower, own.ends.upper = append(own.ends.lower, l), append(own.ends.upper, u)
				}
				if s.free != nil && p.turns(s, j) {
					own.turning = append(own.turning, j)
				}
			}
		}
	}
	return &Root{proof: p, out: out}, err
}

// Part bounds rows over the whole region by α-CROWN; for enough see [Network.Part].
func (r *Root) Part(ctx context.Context, rows []float64, enough func([]Bound) bool) (*Part, error) {
	p := *r.proof
	bounds, err := p.outer(ctx, AlphaCROWN, r.out, rows, enough)
	return p.part(bounds), err
}

// domain is a part of a region: the inputs whose values lie on given sides of some points.
type domain struct {
	cuts    []cut
	weights []float64   // of the rows in the sum; nil for a single row
	towards []float64   // direction of their last move
	stride  float64     // length of that move
	bounds  []Bound     // bounds of the rows
	lacks   float64     // how far the bounds are from deciding it; decided below 0
	again   int         // times that it was bounded with nothing left to cut
	ranges  []ends      // known ranges of the values that bend in the region, by the stages' indices
	clipped bool        // its ranges hold only where the rows do not suffice
	last    *endState   // where its bounds ended, at first those of its parent; nil: CROWN's slopes
	hope    float64     // gain that narrower ranges may bring
	worst   []candidate // where relaxation costs the bounds most, in falling order
	cost    float64     // cost of relaxation where the domain was cut from its parent
	lacked  float64     // lacks of the parent
}

// endState holds the lower slopes, multipliers and points that bounds ended with, for each row.
type endState struct {
	alphas [][]float32 // by the stages' indices; nil for one whose slopes are not optimised
	betas  []float32   // by the cuts
	at     []float32
}

// branching is a tree of cuts of a region under construction. A domain has a bound of each row and, for several rows,
// one of a weighted sum of them.
type branching struct {
	*proof
	out     *relaxation
	numbers []float64 // of the rows
	limits  []float64 // what the rows must exceed
	rows    int       // of a domain
	gains   *gains
	assumed float64   // the rows that do not suffice lie at most so much above their limits
	spare   sync.Pool // pool of batches' *slopes

	mu      sync.Mutex
	closest float64 // the largest lacks of a decided domain
	nearest []Bound // that domain's bounds
	clipped bool    // they hold only where the rows do not suffice
}

// branch prepares a tree of cuts for rows.
func (r *Root) branch(rows, limits []float64) (*branching, error) {
	p := *r.proof
	p.wrong = r.out.wrong
	err := p.withCuts()
	b := &branching{proof: &p, out: r.out, numbers: rows, limits: limits, rows: len(limits),
		gains: &gains{of: map[place]*gain{}}, closest: math.Inf(-1)}
	if b.rows > 1 {
		b.rows++
	}
	return b, err
}

// seedsOf returns a domain's rows, and the most by which rounding them may change their bounds.
func (b *branching) seedsOf(d *domain) (seeds []float32, apart []float64) {
	rows, off := b.numbers, 0.0
	if b.rows > len(b.limits) {
		k := b.Classes()
		sum := make([]float64, k)
		for i, w := range d.weights {
			for j := range sum {
				one := w * rows[i*k+j]
				sum[j] += one
				off += Far * math.Abs(one) * float64(max(-b.out.lower[j], b.out.upper[j]))
			}
		}
		rows = slices.Concat(rows, sum)
	}
	p := proof{Network: b.Network}
	p.seed(b.out, rows)
	p.apart[b.rows-1] += off
	return p.seeds, p.apart
}

// short returns by how much the bounds of a domain fall short; below 0, they suffice.
func (b *branching) short(d *domain, found []Bound) float64 {
	least := b.limit(d) - found[len(found)-1].Least()
	for i, limit := range b.limits {
		least = min(least, limit-found[i].Least())
	}
	return least
}

// limit returns the limit of a domain's last row.
func (b *branching) limit(d *domain) float64 {
	if d.weights == nil {
		return b.limits[0]
	}
	sum, size := 0.0, 0.0
	for i, limit := range b.limits {
		sum, size = sum+d.weights[i]*limit, size+d.weights[i]*math.Abs(limit)
	}
	return sum + Far*size
}

// Branch is [Network.Rows] by β-CROWN. It applies α-CROWN to the region and then cuts its inputs in two by the sign of
// a ReLU's value, or at a point of another activation's, and so on with the halves. A part is decided when a row
// exceeds its limit there, or a weighted sum of rows the same sum of limits: then the rows are never all at most their
// limits. Branch returns the rows' bounds in the part that comes nearest to failing; proven is false if a part could
// not be cut (Bunel et al. 2020, "Branch and Bound for Piecewise Linear Neural Network Verification"). If that takes
// long, it begins again with tighter bounds of the stages' inputs, which the root's next rows use too. The parts are
// then narrowed to where the rows do not suffice, so that the bounds prove little more than the limits. count, unless
// nil, counts parts.
func (r *Root) Branch(ctx context.Context, rows, limits []float64, workers int, count *tree.Count) (nearest []Bound,
	proven bool, err error) {
	if r.out == nil || !r.proof.cutting {
		above := func(found []Bound) bool {
			for i, limit := range limits {
				if found[i].Least() > limit {
					return true
				}
			}
			return false
		}
		whole, err := r.Part(ctx, rows, above)
		return whole.Bounds, err == nil && above(whole.Bounds), err
	}
	if patience := r.patience(); r.refined == nil && patience > 0 {
		some := &tree.Tree[*domain]{Patience: patience, Workers: workers, Count: count}
		if nearest, proven, err = r.grow(ctx, rows, limits, some); err == nil && !proven {
			r.refined, err = r.refine(ctx)
		}
		if proven || err != nil {
			return nearest, proven, err
		}
	}
	return cmp.Or(r.refined, r).grow(ctx, rows, limits, &tree.Tree[*domain]{Workers: workers, Count: count})
}

func (r *Root) grow(ctx context.Context, rows, limits []float64, grown *tree.Tree[*domain]) (nearest []Bound,
	proven bool, err error) {
	b, err := r.branch(rows, limits)
	if err != nil {
		return nil, false, err
	}
	whole := b.whole()
	if err := b.bound(ctx, climb{alphaSteps, alphaRate}, whole); err != nil || whole.lacks < 0 {
		return whole.bounds, err == nil, err
	}
	b.assumed, b.nearest = headroom*whole.lacks, slices.Clone(whole.bounds)
	for i, limit := range limits {
		b.nearest[i].Value = limit + b.assumed + b.nearest[i].Slack // all parts are empty
	}
	grown.Most, grown.Examine = b.most(), b.examine
	if proven, err = grown.Grow(ctx, whole); !proven {
		return whole.bounds, false, err
	}
	for i := range b.nearest {
		if most := limits[i] + b.assumed + b.nearest[i].Slack; b.clipped {
			b.nearest[i].Value = min(b.nearest[i].Value, most)
		}
	}
	return b.nearest, true, nil
}

// examine cuts some domains in two and bounds the halves, again if narrower ranges promise to decide them. It returns
// those that are left.
func (b *branching) examine(ctx context.Context, parts []*domain) (open []*domain, err error) {
	var halves, again []*domain
	for _, d := range parts {
		if len(d.worst) > 0 {
			at := b.gains.best(d.worst)
			halves = append(halves, b.cutAt(d, at, true), b.cutAt(d, at, false))
		} else if d.again++; d.again > mostAgain {
			return nil, tree.ErrOpen
		} else { // a linear program: only its dual is left to optimise
			again = append(again, d)
		}
	}
	err = b.bound(ctx, climb{cutSteps, cutRate}, halves...)
	b.gains.learn(halves)
	left := undecided(halves)
	for round := 0; round < mostRounds && err == nil; round++ {
		promising := slices.DeleteFunc(slices.Clone(left), func(d *domain) bool { return d.hope <= d.lacks/2 })
		err = b.bound(ctx, climb{cutSteps, cutRate}, promising...)
		left = undecided(left)
	}
	left = append(left, again...)
	long := lists.Only(left, func(d *domain) bool { return len(d.worst) == 0 || len(d.cuts)%deep == 0 })
	if err == nil {
		err = b.bound(ctx, climb{longSteps, alphaRate}, long...)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range slices.Concat(halves, again) {
		b.clipped = b.clipped || d.clipped
		if d.lacks < 0 && d.lacks > b.closest {
			b.closest, b.nearest = d.lacks, slices.Clone(d.bounds)
		}
	}
	return undecided(left), nil
}

// undecided returns the domains whose bounds do not suffice.
func undecided(all []*domain) []*domain {
	return slices.DeleteFunc(slices.Clone(all), func(d *domain) bool { return d.lacks < 0 })
}

// whole returns the region as a domain.
func (b *branching) whole() *domain {
	d := &domain{ranges: make([]ends, len(b.stages))}
	for i, known := range b.known {
		if known.own != nil {
			d.ranges[i] = known.own.ends
		}
	}
	if b.rows > len(b.limits) {
		d.weights = slices.Repeat([]float64{1 / float64(len(b.limits))}, len(b.limits))
	}
	return d
}

// climb says how slopes and multipliers are moved.
type climb struct {
	steps int
	rate  float64 // of the slopes
}

// The steps for a half. Its slopes are near their best, because they begin where its parent's ended: on ResNet-2B two
// steps take a third less time than six. Many cuts have many multipliers, which two steps do not optimise. A domain is
// therefore optimised for long after every 20 cuts (deep), and when nothing is left to cut.
const (
	cutSteps   = 2
	cutRate    = 0.02
	mostRounds = 3 // with ever narrower ranges
	deep       = 20
	longSteps  = 100
	mostAgain  = 5 // when nothing is left to cut
)

// perBatch is the approximate number of stages' values in all rows of a run.
const perBatch = 1 << 16

// most returns how many domains are cut at once.
func (b *branching) most() int {
	values := 0
	for _, s := range b.stages {
		values += b.size(s.output())
	}
	return max(1, perBatch/(2*values*b.rows))
}

// cutAt returns the half of a domain on one side of a point.
func (b *branching) cutAt(d *domain, at candidate, above bool) *domain {
	half := &domain{cuts: append(slices.Clip(d.cuts), cut{at.place, above}), weights: d.weights, towards: d.towards,
		stride: d.stride, ranges: slices.Clone(d.ranges), clipped: d.clipped, last: d.last, cost: at.loss,
		lacked: d.lacks}
	r := &half.ranges[at.stage]
	k, _ := slices.BinarySearch(b.known[at.stage].own.bending, at.value)
	if above {
		r.lower = slices.Clone(r.lower)
		r.lower[k] = max(r.lower[k], float32(at.at))
	} else {
		r.upper = slices.Clone(r.upper)
		r.upper[k] = min(r.upper[k], float32(at.at))
	}
	return half
}
