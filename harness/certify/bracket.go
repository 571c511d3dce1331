package certify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/models/bounds"
)

func init() { kinds[attacks.BracketKind] = bracketed{} }

// bracketed finds for each image the largest radius that bounds prove and the smallest radius at which an attack
// breaks it. It spends a budget of time: a cheap step on every image, then always on the image with the widest gap,
// by its next attack or search.
type bracketed struct{}

// found is the result of one step of work on an image, as the journal has it.
type found struct {
	Rung   int     `json:"rung"`
	Radius float64 `json:"radius,omitempty"` // radius of the bound
	Proven bool    `json:"proven,omitempty"`
	Broken float64 `json:"broken,omitempty"` // distance of a misclassified image; 0 if none was found
}

// gap is the state of knowledge about an image.
type gap struct {
	proven, broken float64 // broken is +∞ if no attack broke it
	rung           int     // next rung of the ladder
	method         string  // method of the last search by bounds
	failed         float64 // the smallest radius at which that method proved nothing; +∞ at first
	fails          int     // number of such failures
}

func (g gap) width() float64 { return g.broken - g.proven }

type gaps struct {
	each  []gap // 0 and 0 for images that are wrong without attack
	rungs []attacks.Rung
	// farthest stands for no distance: it is the distance between the black and the white image.
	farthest float64
	columns  []float64
	right    func(i int) bool
}

func (g *gaps) Right(i, _ int) bool { return g.right(i) }

func (g *gaps) Tell(i int, r *result.Record) {
	r.Proven, r.Broken = &g.each[i].proven, new(result.Distance(g.each[i].broken))
}

// Complete counts, at the columns' epsilons, the images that are proven and that are left, and takes the mean of the
// gaps.
func (g *gaps) Complete(c *result.Cell) {
	sum := 0.0
	for _, one := range g.each {
		sum += min(one.broken, g.farthest) - one.proven
	}
	c.Area = new(sum / float64(len(g.each)))
	for _, epsilon := range g.columns {
		b := result.Bracket{Epsilon: epsilon}
		for i, one := range g.each {
			if g.right(i) && one.proven >= epsilon {
				b.Proven++
			}
			if g.right(i) && one.broken > epsilon {
				b.Left++
			}
		}
		c.Brackets = append(c.Brackets, b)
	}
}

// take adds the result of a step. It returns false for a step that does not exist.
func (g *gaps) take(i int, v found) bool {
	one := &g.each[i]
	if v.Rung != one.rung || v.Rung >= len(g.rungs) || !g.right(i) {
		return false
	}
	switch rung := g.rungs[v.Rung]; {
	case rung.Method == "":
		if v.Broken > 0 {
			one.broken = min(one.broken, v.Broken)
		}
		one.rung++
	case v.Proven:
		one.proven = max(one.proven, v.Radius)
	default:
		one.failed = min(one.failed, v.Radius)
		one.fails++
	}
	g.skip(one)
	return true
}

// worthwhile is the fraction of a search's first interval below which it stops. A method that proves nothing would
// halve the interval for ever.
const worthwhile = 0.001

// skip passes over searches that have ended.
func (g *gaps) skip(one *gap) {
	for ; one.rung < len(g.rungs); one.rung++ {
		rung := g.rungs[one.rung]
		if rung.Method == "" {
			return
		}
		if rung.Method != one.method {
			one.method, one.failed, one.fails = rung.Method, math.Inf(1), 0
		}
		top := g.top(*one)
		if _, asked := g.between(one.proven, top, 0); asked ||
			top-one.proven > max(rung.Width*top, worthwhile*min(one.broken, g.farthest)) {
			return
		}
	}
}

// top returns the upper end of a search.
func (g *gaps) top(one gap) float64 { return min(one.failed, one.broken, g.farthest) }

// between returns the next radius of a search: the middle of the interval, or less, so that it is at most rise above
// the lower end. Before that it returns the nearest epsilon of the columns within the interval.
func (g *gaps) between(low, high, rise float64) (radius float64, column bool) {
	middle := (low + high) / 2
	if rise > 0 && low > 0 {
		middle = min(middle, low*(1+rise))
	}
	for _, e := range g.columns {
		if e > low && e < high && (!column || math.Abs(e-middle) < math.Abs(radius-middle)) {
			radius, column = e, true
		}
	}
	if !column {
		radius = middle
	}
	return radius, column
}

// choose lists images for the next step, the widest gap first: as many at the same rung, or at any search by bounds,
// as time allows.
func (g *gaps) choose(mine func(i int) bool, most func(rung int) int) (some []int) {
	all := lists.Indices(len(g.each), func(i int) bool {
		return g.right(i) && mine(i) && g.each[i].rung < len(g.rungs)
	})
	dear := func(i int) int {
		if g.rungs[g.each[i].rung].Cheap {
			return 0
		}
		return 1
	}
	fails := func(i int) int { // failures of searches that then take the whole budget
		if g.rungs[g.each[i].rung].Rise > 0 {
			return 1 + g.each[i].fails
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Or(dear(a)-dear(b), fails(a)-fails(b), cmp.Compare(g.each[b].width(), g.each[a].width()))
	})
	for _, i := range all {
		first := g.each[all[0]].rung
		searches := g.rungs[first].Method != ""
		alike := g.each[i].rung == first || searches && g.rungs[g.each[i].rung].Method != ""
		if len(some) < most(first) && alike {
			some = append(some, i)
		}
	}
	return some
}

// prove works until the budget is spent or no step is left. It does not repeat steps that the journal has.
func (b bracketed) prove(ctx context.Context, p *Prover, c Case) (*Proofs, error) {
	key := p.key(c, "bracket")
	if known := p.brackets[key]; known != nil {
		return known, nil
	}
	how := c.Recipe.Certificate.(attacks.Bracket)
	g := &gaps{each: make([]gap, p.Set.Len()), rungs: how.Rungs(), right: c.Right,
		farthest: how.Norm.Widest(c.Who.Shape), columns: c.Setting().Epsilons}
	for i := range g.each {
		if c.Right(i) {
			g.each[i] = gap{broken: math.Inf(1), failed: math.Inf(1)}
		}
	}
	cannot, err := p.cannot(c)
	if err != nil {
		return nil, err
	}
	done := &Proofs{Proof: g}
	if cannot != "" {
		done.Warnings = []result.Warning{result.WarnNotBounded.New("%s", cannot)}
		g.rungs = slices.DeleteFunc(g.rungs, func(r attacks.Rung) bool { return r.Method != "" })
	}
	w := &bracketing{Prover: p, gaps: g, c: c, done: done, speed: map[int]float64{},
		budget: float64(how.Budget) * float64(p.Set.Mine())}
	defer w.close()
	if err := w.work(ctx, key); err != nil {
		return nil, fmt.Errorf("suite %s, %s, certificate %s: %w", p.Suite.Name, c.Who, c.Name(), err)
	}
	if p.brackets == nil {
		p.brackets = map[folder.Key]*Proofs{}
	}
	p.brackets[key] = done
	return done, nil
}

type bracketing struct {
	*Prover
	*gaps
	c      Case
	done   *Proofs
	budget float64         // in seconds
	speed  map[int]float64 // seconds for an image, by rung
	on     *open.Oracle    // the attacks' oracle; nil before the first attack
}

func (w *bracketing) close() {
	if w.on != nil {
		w.on.Close()
	}
}

// work repeats the rounds of the journal and then makes others.
func (w *bracketing) work(ctx context.Context, key folder.Key) error {
	ended := w.Journal.Block(key.As("bracketed"))
	for {
		key.Number++
		there := false
		units, _, err := folder.Recall(w.Journal, key, w.Set, nil, func(i int, v found) bool {
			there = true
			return w.take(i, v)
		})
		if err != nil {
			return err
		}
		if there {
			w.done.Seconds += units.Before
			continue
		}
		if ended.Written() || w.Journal.Complete {
			return w.agree()
		}
		key.Number--
		break
	}
	mine := w.Set.Places(w.right)
	id := progress.ComponentID{ID: w.c.ID, Component: w.c.Recipe.Certificate.Name(), Seed: w.c.Seed,
		Label: w.c.Label, Words: progress.Words{Done: "bracketed", Stand: "unbroken", SoFar: "unbroken so far"}}
	made := &open.Counted{Oracle: open.Answering(w.c.Who)}
	err := w.Progress.Component(id, progress.Work{Images: len(mine), Standing: len(mine), N: w.Set.Mine(),
		Passes: int64(len(mine)), Made: made.Made},
		func(image func(standing, passes int)) error {
			shown := 0
			for w.done.Seconds < w.budget {
				key.Number++
				more, err := w.step(ctx, key)
				if err != nil || !more {
					return err
				}
				// The progress counts images by the time spent, as they are worked on in turns.
				for ; shown < int(float64(len(mine))*w.done.Seconds/w.budget); shown++ {
					made.Add(1, 0)
					image(w.unbroken(), 1)
				}
			}
			return nil
		})
	if err == nil {
		err = cmp.Or(w.agree(), ended.Append(true))
	}
	return err
}

func (w *bracketing) unbroken() int {
	return len(lists.Indices(len(w.each), func(i int) bool { return w.right(i) && math.IsInf(w.each[i].broken, 1) }))
}

// agree returns an error if an image is proven within a radius at which an attack has broken it.
func (w *bracketing) agree() error {
	for i, one := range w.each {
		if w.right(i) && one.broken <= one.proven {
			return fmt.Errorf("image %d is proven within %v and broken at %v: one of them is wrong", w.Set.ID(i),
				one.proven, one.broken)
		}
	}
	return nil
}

// step makes a round that should fit into the rest of the budget. It returns false if no step is left.
func (w *bracketing) step(ctx context.Context, key folder.Key) (more bool, err error) {
	cores := w.Cores()
	some := w.choose(w.Set.Own, func(rung int) int {
		most := 16 * cores
		if w.rungs[rung].Method != "" {
			most = 4 * cores
		}
		each, known := w.speed[rung]
		if !known { // measure the time on one image first
			return cores
		}
		return max(min(most, int((w.budget-w.done.Seconds)/each)), cores)
	})
	if len(some) == 0 {
		return false, nil
	}
	units, todo, err := folder.Recall(w.Journal, key, w.Set, some, w.take)
	if err != nil {
		return false, err
	}
	rung := w.each[some[0]].rung
	runner := folder.Runner(open.SideBySide(cores))
	if w.rungs[rung].Method == "" {
		if w.on == nil { // the smallest norm is the classifier's as it runs
			if w.on, err = open.OracleOf(w.c.Who, result.WhiteboxThrough); err != nil {
				return false, err
			}
		}
		runner = w.Over(w.on.State)
	}
	err = units.Do(ctx, todo, runner, func(ctx context.Context, im attacks.Image, i int) (found, error) {
		if rung := w.rungs[w.each[i].rung]; rung.Method != "" {
			return w.bound(ctx, im, i, rung)
		}
		return w.attack(ctx, im, i)
	})
	took := units.Seconds()
	w.done.Seconds, w.speed[rung] = w.done.Seconds+took, took/float64(len(some))
	return true, err
}

// attack looks for a smaller perturbation than the smallest known one.
func (w *bracketing) attack(ctx context.Context, im attacks.Image, i int) (v found, err error) {
	one := w.each[i]
	v.Rung = one.rung
	recipe, err := w.rungs[one.rung].Attack.Make(min(one.broken, w.farthest), w.c.Who.Classes)
	if err != nil {
		return v, err
	}
	v.Broken, err = w.attacked(ctx, w.on, recipe, im)
	return v, err
}

// bound computes bounds at a radius between the proven and the broken one.
func (w *bracketing) bound(ctx context.Context, im attacks.Image, i int, rung attacks.Rung) (v found, err error) {
	one := w.each[i]
	v.Rung = one.rung
	v.Radius, _ = w.between(one.proven, w.top(one), rung.Rise)
	n, err := w.network(w.c.Who)
	if err != nil {
		return v, err
	}
	within := ball(w.c.Trial, im.Pixels, v.Radius)
	least, err := boundedBy(ctx, n, bounds.Method(rung.Method), within, im,
		lasting(w.c.Recipe.Certificate.(attacks.Bracket).Budget), nil)
	if err != nil || least.Bound == nil || least.Least() <= 0 {
		return v, err
	}
	v.Proven = true
	return v, w.hold(ctx, w.c.Who, within, im)
}

// confront counts the images that an attack has broken within their proven radius.
func (b bracketed) confront(ctx context.Context, p *Prover, c Case, a Attack) (f Finding, err error) {
	proofs, err := b.prove(ctx, p, c)
	if err != nil {
		return f, err
	}
	g := proofs.Proof.(*gaps)
	return refute(ctx, p, c, a, proofs, func(i int) float64 { return g.each[i].proven }, "within their radius")
}

func (bracketed) measure(_ context.Context, _ *Prover, c Case, _ float64) (seconds [2]float64, err error) {
	seconds[1] = float64(c.Recipe.Certificate.(attacks.Bracket).Budget)
	return seconds, nil
}
