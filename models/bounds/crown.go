package bounds

import (
	"context"
	"fmt"
	"math"
	"slices"

	"selfheal/internal/number"
	"selfheal/internal/vector"
	"selfheal/models/ort"
)

// Method names a way to compute bounds.
type Method string

// The methods, each tighter and slower than the one before.
const (
	IBP        Method = "ibp"
	CROWN      Method = "crown"
	AlphaCROWN Method = "alpha-crown"
	BetaCROWN  Method = "beta-crown" // see [Root.Branch]
)

// Bound is a proved lower bound of Σ row·output over a region: Value − Slack.
type Bound struct {
	Value float64 // before subtracting the slack for float32's rounding
	Slack float64
}

// Least returns the proved lower bound, and −∞, which proves nothing, if the computed numbers are not finite.
func (b Bound) Least() float64 {
	if least := b.Value - b.Slack; number.Finite(least) {
		return least
	}
	return math.Inf(-1)
}

// proof is the state of one region's bounds.
type proof struct {
	*Network
	region Region
	steps  int           // steps that optimise the slopes; 0: slopes are not optimised
	known  []*relaxation // by the stages' indices, as far as computed
	whole  []ends        // bounds of the stages' inputs over a larger region, as far as known
	// coefficients belong to the last bounds of the output that were carried to the input.
	coefficients []float32

	room         int       // numbers left for linear bounds of the stages' values
	refining     bool      // the stages' bounds are being refined: see [Root.refine]
	cutting      bool      // the region is being cut at kinks: see [Root.Branch]
	wrong, seeds []float32 // error of the output; the rows
	apart        []float64 // the most by which rounding each row may change its bound
}

// relaxation holds the bounds and lines of a stage.
type relaxation struct {
	lower, upper []float32 // bounds of its input
	wrong        []float32 // error of its input, Ê
	out          Region    // interval of its output
	ports        [portKinds][]float32
	own          *ownLines // for a stage that is cut
	forms        forms     // for a root that is refined
}

// Rows returns lower bounds of rows·output, for rows [rows × classes], over a region.
func (n *Network) Rows(ctx context.Context, method Method, region Region, rows []float64) ([]Bound, error) {
	steps := 0
	if method == AlphaCROWN {
		steps = alphaSteps
	}
	return n.prove(region, steps).rows(ctx, method, rows, nil)
}

// prove begins a proof with so many steps for the slopes, if there are any to optimise.
func (n *Network) prove(region Region, steps int) *proof {
	if len(n.free.free) == 0 {
		steps = 0
	}
	return &proof{Network: n, region: region, steps: steps}
}

// Part is the proof of rows over a region.
type Part struct {
	Bounds       []Bound
	Coefficients []float32 // of each row's bound, linear in the input, [rows × inputs]; nil: nothing is proved
	inner        []ends    // bounds of the stages' inputs
}

// ends are bounds of a stage's input.
type ends struct{ lower, upper []float32 }

// Part is [Network.Rows] by α-CROWN with few steps, on a part of a region. whole, unless nil, is the proof for the
// region: its bounds hold on the part too. The optimisation of slopes ends early if enough, unless nil, returns true
// for the best bounds so far.
func (n *Network) Part(ctx context.Context, region Region, rows []float64, whole *Part,
	enough func([]Bound) bool) (*Part, error) {
	p := n.prove(region, partSteps)
	if whole != nil {
		p.whole = whole.inner
	}
	bounds, err := p.rows(ctx, AlphaCROWN, rows, enough)
	return p.part(bounds), err
}

// part returns the proof found so far.
func (p *proof) part(found []Bound) *Part {
	part := &Part{Bounds: found, Coefficients: p.coefficients}
	for _, r := range p.known {
		if r != nil {
			part.inner = append(part.inner, ends{r.lower, r.upper})
		}
	}
	return part
}

func (p *proof) rows(ctx context.Context, method Method, rows []float64, enough func([]Bound) bool) ([]Bound, error) {
	out, err := p.inner(ctx, method)
	if err != nil {
		return nothing(len(rows) / p.Classes()), err
	}
	return p.outer(ctx, method, out, rows, enough)
}

// inner bounds the stages' inputs and returns the output's intervals; nil if a number is not finite.
func (p *proof) inner(ctx context.Context, method Method) (*relaxation, error) {
	n := p.Network
	if err := p.region.Check(n.size(n.input)); err != nil {
		return nil, err
	}
	p.known = make([]*relaxation, len(n.stages))
	for i, s := range n.stages {
		r, err := p.interval(&s.target)
		if err == nil && i < len(p.whole) {
			r.meet(p.whole[i])
		}
		if err == nil && p.walks(&s.target, method) {
			err = p.tighten(ctx, s, r)
			if err == nil && p.refining {
				err = p.refine(ctx, s, r)
			}
		}
		if err == nil && p.refining && s.cuttable() {
			err = p.form(ctx, s, r)
		}
		if err != nil || !r.finite() {
			return nil, err
		}
		p.relax(s, r)
		p.known[i] = r
	}
	out, err := p.interval(&n.output)
	if err != nil || !out.finite() {
		return nil, err
	}
	return out, nil
}

// outer bounds rows of the output, using the result of inner.
func (p *proof) outer(ctx context.Context, method Method, out *relaxation, rows []float64,
	enough func([]Bound) bool) ([]Bound, error) {
	n, k := p.Network, p.Classes()
	if out == nil {
		return nothing(len(rows) / k), nil
	}
	p.seed(out, rows)
	switch {
	case p.steps > 0:
		return p.optimise(ctx, &n.output, n.free, p.steps, enough)
	case method == IBP:
		return p.run(ctx, n.last, n.output.segment, p.wrong, p.seeds, nil)
	}
	return p.run(ctx, n.output.program, n.output.segment, p.wrong, p.seeds, nil)
}

// seed sets the rows of the output to bound.
func (p *proof) seed(out *relaxation, rows []float64) {
	k := p.Classes()
	p.wrong, p.seeds, p.apart = out.wrong, make([]float32, len(rows)), make([]float64, len(rows)/k)
	for i, v := range rows {
		p.seeds[i] = float32(v)
		if off := math.Abs(v - float64(p.seeds[i])); off > 0 {
			p.apart[i/k] += off * float64(max(-out.lower[i%k], out.upper[i%k]))
		}
	}
}

// meet takes the tighter of two bounds of each value.
func (r *relaxation) meet(o ends) {
	for j := range r.lower {
		if l, u := max(r.lower[j], o.lower[j]), min(r.upper[j], o.upper[j]); l <= u { // else they cross by rounding
			r.lower[j], r.upper[j] = l, u
		}
	}
}

// finite reports whether all numbers of a stage are finite. A value beyond float32 may be hidden behind a kink.
func (r *relaxation) finite() bool {
	return vector.Finite(r.lower) && vector.Finite(r.upper) && vector.Finite(r.wrong)
}

// nothing returns bounds that prove nothing.
func nothing(rows int) []Bound { return slices.Repeat([]Bound{{Value: math.Inf(-1)}}, rows) }

// RowsAtOnce returns how many rows one call of [Network.Rows] can take in some hundred megabytes of memory.
func (n *Network) RowsAtOnce() int { return max(1, 1<<24/max(n.free.perRow, n.output.program.perRow)) }

// MarginRows returns rows for [Network.Rows]: the label's logit minus each other class's, in order.
func (n *Network) MarginRows(label int) []float64 {
	k := n.Classes()
	rows := make([]float64, 0, (k-1)*k)
	for other := range k {
		if other == label {
			continue
		}
		row := make([]float64, k)
		row[label], row[other] = 1, -1
		rows = append(rows, row...)
	}
	return rows
}

// Hold checks the outputs y of a network's file for an input x against the proof: they must lie within their intervals.
func (n *Network) Hold(ctx context.Context, x []float32, y []float64) error {
	k := len(y)
	rows := make([]float64, 2*k*k)
	for i := range y {
		rows[2*i*k+i], rows[(2*i+1)*k+i] = 1, -1
	}
	proven, err := n.Rows(ctx, IBP, Region{Lower: x, Upper: x}, rows)
	for i := 0; i < k && err == nil; i++ {
		if least, most := proven[2*i].Least(), -proven[2*i+1].Least(); !(y[i] >= least && y[i] <= most) {
			err = fmt.Errorf("output %d is proven to be from %g to %g, and the file as it lies gives %g: one of "+
				"them is wrong", i, least, most, y[i])
		}
	}
	return err
}

// Positive reports whether all bounds are above 0: then no other class can have the largest logit.
func Positive(all []Bound) bool {
	return !slices.ContainsFunc(all, func(b Bound) bool { return !(b.Least() > 0) })
}

// slackFactor covers the rounding of the slack itself and of the float64 sums over coefficients.
const slackFactor = 1.01

// interval bounds a target by intervals, from the ends of its segment.
func (p *proof) interval(t *target) (*relaxation, error) {
	if t.segment.session == nil {
		end := p.over(t.segment.ends[0])
		return &relaxation{lower: end.Lower, upper: end.Upper, wrong: make([]float32, len(end.Lower))}, nil
	}
	var in []ort.Tensor
	for _, end := range t.segment.ends {
		r := p.over(end)
		in = append(in, ort.Tensor{Shape: p.one(end), Data: r.Lower}, ort.Tensor{Shape: p.one(end), Data: r.Upper})
	}
	out, err := t.segment.session.Run(in)
	if err != nil {
		return nil, err
	}
	wrong := out[2].Data
	for j, v := range t.segment.wrong {
		wrong[j] += v
	}
	return &relaxation{lower: out[0].Data, upper: out[1].Data, wrong: wrong}, nil
}

// over returns the region of an end: the input's, or the interval of a stage's output.
func (p *proof) over(end string) Region {
	for i, s := range p.stages {
		if s.output() == end {
			return p.known[i].out
		}
	}
	return p.region
}

// perChunk is the approximate number of values in the largest tensor of a run.
const perChunk = 1 << 19

// walks reports whether a target is bounded by a walk backwards. It is not if the intervals are exact: for an affine
// map of a box. They are never exact for a ball, because they are the intervals of a box around it. It is not for an
// activation's output either: its interval is the image of its input's bounds, and lines cannot improve that.
func (p *proof) walks(t *target, method Method) bool {
	switch walked := t.program.stages; {
	case len(walked) == 0:
		return p.region.Centre != nil || method != IBP && !t.segment.sharp
	case t.segment.moved:
		return method != IBP && slices.ContainsFunc(walked, func(s *stage) bool {
			return slices.Contains(t.segment.ends, s.output()) && s.joins()
		})
	}
	return method != IBP
}

// perRun is the number of values in the largest tensor of a run that takes as long as starting it.
const perRun = 1 << 14

// side is a bound to find for a value: the lower one for sign 1, the upper one for −1.
type side struct {
	value int
	sign  float32
}

// tighten bounds a stage's input by a walk backwards, for the values whose bounds can still gain.
func (p *proof) tighten(ctx context.Context, s *stage, r *relaxation) error {
	all := p.alone || s.joins() || len(s.program.stages) == 0
	var first, second []side
	for j, l := range r.lower {
		u := r.upper[j]
		switch {
		case !all && !s.bends(float64(l), float64(u)):
		case !all && l+u < 0: // most such values lie below a kink, where f may be flat: then l does not matter
			first, second = append(first, side{j, -1}), append(second, side{j, 1})
		default:
			first = append(first, side{j, 1}, side{j, -1})
		}
	}
	if len(second)*s.program.perRow <= perRun { // one run takes no longer than two
		first, second = append(first, second...), nil
	}
	if err := p.bound(ctx, s, r, first, false); err != nil {
		return err
	}
	second = slices.DeleteFunc(second, func(o side) bool {
		return s.f(float64(r.lower[o.value])) == s.f(float64(r.upper[o.value]))
	})
	return p.bound(ctx, s, r, second, false)
}

// bound finds bounds of a stage's input; with keep it also stores them as linear bounds.
func (p *proof) bound(ctx context.Context, s *stage, r *relaxation, sides []side, keep bool) error {
	return p.chunks(ctx, s.program, r, sides, func(sides []side, rows []float32) ([]Bound, error) {
		if !keep {
			return p.run(ctx, s.program, s.segment, r.wrong, rows, nil)
		}
		one := *p
		found, err := one.run(ctx, s.program, s.segment, r.wrong, rows, new(slopes))
		if err == nil {
			p.keep(r, sides, found, one.coefficients)
		}
		return found, err
	})
}

// chunks finds bounds of sides by a program, some rows at a time, on several cores, and stores them.
func (p *proof) chunks(ctx context.Context, prog *program, r *relaxation, sides []side,
	find func(sides []side, rows []float32) ([]Bound, error)) error {
	chunks := slices.Collect(slices.Chunk(sides, max(1, perChunk/prog.perRow)))
	return ort.InOrder(ctx, max(1, p.Workers), len(chunks), func(c int) ([]Bound, error) {
		rows := make([]float32, len(chunks[c])*prog.row)
		for k, o := range chunks[c] {
			rows[k*prog.row+o.value] = o.sign
		}
		return find(chunks[c], rows)
	}, func(c int, found []Bound) {
		for k, o := range chunks[c] {
			l, u := &r.lower[o.value], &r.upper[o.value]
			switch least := found[k].Least(); {
			case o.sign > 0 && p.alone:
				*l = down(least)
			case o.sign > 0:
				*l = min(max(*l, down(least)), *u) // beyond the other bound only by rounding
			case p.alone:
				*u = up(-least)
			default:
				*u = max(min(*u, up(-least)), *l)
			}
		}
	})
}

// run bounds rows of a target by a program. wrong is the error of its segment. own holds the inputs that each row has
// for itself in a program with optimised slopes; it receives the gradients and the points where the bounds are taken.
func (p *proof) run(ctx context.Context, prog *program, seg *segment, wrong, rows []float32,
	own *slopes) ([]Bound, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	count := len(rows) / prog.row
	batch := func(tensor string, data []float32) ort.Tensor {
		return ort.Tensor{Shape: append([]int64{int64(count)}, p.graph.Shapes[tensor][1:]...), Data: data}
	}
	in := []ort.Tensor{batch(prog.tensor, rows)}
	if prog.climbs {
		in = append(in, batch(p.input, own.at))
	}
	for _, port := range prog.ports {
		if i := port.stage.index; port.kind == zeroPort {
			in = append(in, ort.Tensor{Shape: port.shape, Data: port.stage.segment.atZero})
		} else if port.kind == rowStepPort || port.kind >= rowSlopePort {
			in = append(in, batch(port.stage.output(), own.ports[port.kind][i]))
		} else {
			in = append(in, ort.Tensor{Shape: port.shape, Data: p.known[i].ports[port.kind]})
		}
	}
	out, err := prog.session.Run(in)
	if err != nil {
		return nil, err
	}
	bounds := make([]Bound, count)
	if prog == p.output.program || own != nil {
		p.coefficients = out[0].Data
	}
	sums := len(prog.ends)
	gradients := sums + len(prog.stages)
	cuts := len(out) - len(prog.cut) // the coefficients
	for k := range bounds {
		b := &bounds[k]
		for j, v := range rows[k*prog.row : (k+1)*prog.row] {
			if v != 0 {
				b.Value += float64(v) * float64(seg.atZero[j])
				b.Slack += math.Abs(float64(v)) * float64(wrong[j])
			}
		}
		part := func(data []float32) []float32 { return data[k*len(data)/count : (k+1)*len(data)/count] }
		for i, t := range out[:sums] {
			var at []float32
			if prog.climbs || prog.cut != nil {
				at = part(own.at)
			}
			b.Value += p.over(prog.ends[i]).least(part(t.Data), at)
		}
		for _, t := range out[sums:gradients] {
			row := part(t.Data)
			for j, v := range row {
				if j < len(row)/2 {
					b.Value += float64(v)
				} else {
					b.Slack += float64(v)
				}
			}
		}
		for c, s := range prog.cut {
			value, slack := p.known[s.index].own.sums(part(out[cuts+c].Data), part(own.ports[rowStepPort][s.index]))
			b.Value, b.Slack = b.Value+value, b.Slack+slack
		}
		b.Slack *= slackFactor
		if seg == p.output.segment && p.apart != nil {
			b.Slack += p.apart[k]
		}
	}
	if prog.climbs {
		for i, s := range slices.Concat(prog.free, prog.cut) {
			own.gradients[s.index] = out[gradients+i].Data
		}
		if len(prog.cut) > 0 {
			own.rows = out[cuts-1].Data
		}
	}
	for c, s := range prog.cut {
		own.outputs[s.index] = out[cuts+c].Data
	}
	return bounds, nil
}

// slopes holds the parts of the stages' lines that each row has for itself: above all the lower slopes, as steps from
// the upper ones.
type slopes struct {
	at    []float32              // for each row the point of the input where its bound was taken
	ports [portKinds][][]float32 // by the stages' indices
	// gradients are taken by the steps; for a stage that is cut, by its input's coefficients. outputs are the
	// coefficients of the stage's output.
	gradients, outputs [][]float32
	gammas             [][]float64 // for the bounds of values that bend, see [given.clip]
	rows               []float32   // gradients by the rows of a program with cuts
}

func (p *proof) newSlopes(rows int, kinds ...portKind) *slopes {
	own := &slopes{at: make([]float32, rows*p.size(p.input)), gradients: make([][]float32, len(p.stages)),
		outputs: make([][]float32, len(p.stages))}
	for _, kind := range kinds {
		own.ports[kind] = make([][]float32, len(p.stages))
	}
	return own
}

// The steps of Adam (Kingma and Ba 2015) and its step size, which falls by a factor at each step: auto_LiRPA's
// defaults. A part takes fewer: on ACAS Xu more steps cost more than the parts that they save.
const (
	partSteps    = 4
	alphaSteps   = 20
	alphaRate    = 0.5
	betaRate     = 0.1
	alphaDecay   = 0.98
	beta1, beta2 = 0.9, 0.999
	alphaEpsilon = 1e-8
	alphaMargin  = 1e-6 // distance of slopes from the ends of their range, which rounding must not leave
)

// adam is the state of an ascent.
type adam struct{ mean, square []float64 }

func newAdam(size int) adam { return adam{make([]float64, size), make([]float64, size)} }

// step returns the direction for a gradient of value i; decay1 and decay2 are the decays of the moments so far.
func (a adam) step(i int, g float32, decay1, decay2 float64) float64 {
	a.mean[i] = beta1*a.mean[i] + (1-beta1)*float64(g)
	a.square[i] = beta2*a.square[i] + (1-beta2)*float64(g)*float64(g)
	return a.mean[i] / (1 - decay1) / (math.Sqrt(a.square[i]/(1-decay2)) + alphaEpsilon)
}

// optimise returns the best bounds of rows of a target that it finds by moving the slopes, beginning with CROWN's. The
// gradient is taken at the point of the input where the previous bound was taken: the bound is the least value over the
// region, so its gradient is the gradient of the value at the point of the minimum.
func (p *proof) optimise(ctx context.Context, t *target, prog *program, steps int, enough func([]Bound) bool) (
	[]Bound, error) {
	count := len(p.seeds) / prog.row
	own := p.newSlopes(count, rowStepPort)
	alphas := make([]adam, len(p.stages))
	for _, s := range prog.free {
		i := s.index
		own.ports[rowStepPort][i] = slices.Repeat(p.known[i].ports[stepPort], count)
		alphas[i] = newAdam(len(own.ports[rowStepPort][i]))
	}
	rate, decay1, decay2 := alphaRate, 1.0, 1.0
	var best []Bound
	var coefficients []float32    // of the best bounds
	for step := range steps + 2 { // the first finds where bounds are taken, the last evaluates the final step
		bounds, err := p.run(ctx, prog, t.segment, p.wrong, p.seeds, own)
		if err != nil {
			return nil, err
		}
		if step == 0 {
			best, coefficients = slices.Clone(bounds), p.coefficients
		}
		for k, b := range bounds {
			if b.Least() > best[k].Least() {
				best[k] = b
				size := len(coefficients) / count
				copy(coefficients[k*size:(k+1)*size], p.coefficients[k*size:])
			}
		}
		p.coefficients = coefficients
		if enough != nil && enough(best) {
			break
		}
		if step == 0 {
			continue
		}
		decay1, decay2 = decay1*beta1, decay2*beta2
		for _, s := range prog.free {
			i, size := s.index, p.size(s.output())
			slopes, steps := p.known[i].ports[slopePort], own.ports[rowStepPort][i]
			for k, g := range own.gradients[i] {
				if j := k % size; p.turns(s, j) {
					steps[k] = s.within(slopes[j], steps[k], rate*alphas[i].step(k, g, decay1, decay2))
				}
			}
		}
		rate *= alphaDecay
	}
	return best, nil
}

// within returns the step from an upper slope to a lower one that is moved, kept within its range.
func (s *stage) within(slope, step float32, move float64) float32 {
	alpha := float64(slope) + float64(step) + move
	return float32(min(max(alpha, s.free[0]+alphaMargin), s.free[1]-alphaMargin) - float64(slope))
}

// turns reports whether the lower line of a stage's value can be optimised.
func (p *proof) turns(s *stage, j int) bool {
	return !p.boxed(s) && s.loose(float64(p.known[s.index].lower[j]), float64(p.known[s.index].upper[j]))
}

// loose reports whether the lower line on [l, u] can be optimised, unless the stage is boxed.
func (s *stage) loose(l, u float64) bool {
	switch {
	case s.free == nil:
		return false
	case s.turns != nil:
		return s.turns(l, u)
	}
	return s.bends(l, u)
}
