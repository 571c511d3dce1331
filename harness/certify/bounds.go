package certify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"selfheal/attacks"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/fault"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/internal/setting"
	"selfheal/models/bounds"
	"selfheal/models/onnx/simplify"
)

func init() { kinds[attacks.BoundsKind] = bounded{} }

// bounded proves certificates by bounds of the logits.
type bounded struct{}

// least is the journal's entry for an image: its least margin, or nil if there is no bound.
type least struct {
	*bounds.Bound
}

type margins []least

func (m margins) Right(i, _ int) bool { return m[i].Bound != nil && m[i].Least() > 0 }

func (m margins) Tell(i int, r *result.Record) {
	if b := m[i].Bound; b != nil {
		r.Bound, r.Slack = &b.Value, &b.Slack
	}
}

func (margins) Complete(*result.Cell) {}

var exponents = map[attacks.Norm]float64{attacks.L1: 1, attacks.L2: 2, attacks.Linf: math.Inf(1)}

// region returns the set on which a certificate must hold: all images that the judge accepts within epsilon.
func region(t plan.Trial, image []float32) bounds.Region { return ball(t, image, float64(t.Epsilon())) }

func ball(t plan.Trial, image []float32, epsilon float64) bounds.Region {
	return bounds.Ball(image, exponents[t.Setting().Norm], epsilon*(1+plan.NormTolerance), 0, 1)
}

// unbounded is the error that says why nothing can be proven about a classifier.
type unbounded struct{ error }

// network returns a classifier prepared for bounds, with its loop unrolled. The error is an [unbounded] if that is
// impossible.
func (p *Prover) network(who open.Classifier) (*bounds.Network, error) {
	p.opening.Lock()
	defer p.opening.Unlock()
	if n := p.networks[who.Defense()]; n != nil {
		return n, nil
	}
	if who.Net == nil {
		return nil, unbounded{fmt.Errorf("%s is not open", who)}
	}
	g := who.Net.Graph
	err := bounds.Provable(g)
	if err == nil && who.Loop != nil {
		if g, err = who.Loop.Literal(); err == nil {
			err = simplify.Graph(g)
		}
		if err == nil {
			err = bounds.Check(g)
		}
	}
	if err != nil {
		return nil, unbounded{fmt.Errorf("%s: %w", who, err)}
	}
	n, err := bounds.New(g, bounds.Unit)
	if err == nil {
		if p.networks == nil {
			p.networks = map[string]*bounds.Network{}
		}
		p.networks[who.Defense()] = n
	}
	return n, err
}

func budget(how attacks.Bounds) time.Duration {
	return lasting(cmp.Or(how.Budget, attacks.BranchBudget))
}

func lasting(s setting.Seconds) time.Duration {
	return time.Duration(float64(s) * float64(time.Second))
}

// boundedBy is [leastWithin], by β-CROWN within a budget.
func boundedBy(ctx context.Context, n *bounds.Network, method bounds.Method, region bounds.Region, im attacks.Image,
	budget time.Duration, breaks breaking) (least, error) {
	if method == bounds.BetaCROWN {
		return branched(ctx, n, region, im, budget, breaks)
	}
	return leastWithin(ctx, n, method, region, im)
}

// breaking reports whether an attack breaks the image to be proven. Branching would then never end.
type breaking func(ctx context.Context) (bool, error)

// branched is [leastWithin] by β-CROWN. It branches on the margins that α-CROWN leaves open until the budget is
// spent, or until an attack, unless nil, breaks the image.
func branched(ctx context.Context, n *bounds.Network, region bounds.Region, im attacks.Image, budget time.Duration,
	breaks breaking) (least, error) {
	rows, k := n.MarginRows(im.Label), n.Classes()
	root, err := n.Root(ctx, region)
	whole := new(bounds.Part)
	if err == nil {
		whole, err = root.Part(ctx, rows, bounds.Positive)
	}
	all := whole.Bounds
	if err == nil && breaks != nil && n.Cuttable() && !bounds.Positive(all) {
		var broken bool
		if broken, err = breaks(ctx); broken {
			budget = 0
		}
	}
	limited, stop := context.WithTimeout(ctx, budget)
	defer stop()
	for i := 0; i < len(all) && err == nil && n.Cuttable() && budget > 0; i++ {
		if all[i].Least() > 0 {
			continue
		}
		nearest, proven, failed := root.Branch(limited, rows[i*k:(i+1)*k], []float64{0}, 1, nil)
		if ended := limited.Err() != nil && ctx.Err() == nil; !proven && !ended {
			err = failed
		}
		if !proven {
			break
		}
		all[i] = nearest[0]
	}
	if err != nil {
		return least{}, fmt.Errorf("image %d: %w", im.ID, err)
	}
	return leastOf(all), nil
}

func leastWithin(ctx context.Context, n *bounds.Network, method bounds.Method, region bounds.Region,
	im attacks.Image) (least, error) {
	all, err := n.Rows(ctx, method, region, n.MarginRows(im.Label))
	if err != nil {
		return least{}, fmt.Errorf("image %d: %w", im.ID, err)
	}
	return leastOf(all), nil
}

// leastOf returns the least of some margins, or nothing if one of them is not finite.
func leastOf(all []bounds.Bound) least {
	worst := all[0]
	for _, m := range all {
		if !number.Finite(m.Least()) {
			return least{}
		}
		if m.Least() < worst.Least() {
			worst = m
		}
	}
	return least{&worst}
}

// prove warns of a control that can't be bounded. An image that the classifier gets wrong has no proof.
func (bounded) prove(ctx context.Context, p *Prover, c Case) (*Proofs, error) {
	all := make(margins, p.Set.Len())
	cannot, err := p.cannot(c)
	if err != nil {
		return nil, err
	}
	if cannot != "" {
		return &Proofs{Proof: all, Warnings: []result.Warning{result.WarnNotBounded.New("%s", cannot)}}, nil
	}
	how := c.Recipe.Certificate.(attacks.Bounds)
	breaks, closing := p.breaker(c)
	defer closing()
	return prove(ctx, p, c, proving[least]{all, p.key(c, "bounds"),
		progress.Words{Done: "bounded", Stand: "certified", SoFar: "certified at most"}, 1, p.Cores,
		func(i int, v least) int { all[i] = v; return 1 },
		func(ctx context.Context, on *open.Counted, im attacks.Image) (v least, err error) {
			n, err := p.network(c.Who)
			if err == nil {
				v, err = boundedBy(ctx, n, bounds.Method(how.Method), region(c.Trial, im.Pixels), im, budget(how),
					breaks(im))
			}
			if err == nil && v.Bound != nil && v.Least() > 0 {
				err = p.hold(ctx, c.Who, region(c.Trial, im.Pixels), im)
			}
			on.Add(1, 0) // counts the image for the progress
			return v, err
		}, func(i int) bool { return !c.Right(i) }})
}

// breaker returns a function that reports whether AutoAttack's version quick breaks an image, through the control. It
// prepares the attack on first use. Call closing before the classifier is closed.
func (p *Prover) breaker(c Case) (breaks func(im attacks.Image) breaking, closing func()) {
	var on *open.Oracle
	recipe := sync.OnceValues(func() (recipe attacks.Recipe, err error) {
		recipe, err = attacks.Setup{Kind: "autoattack", Version: "quick",
			Norm: c.Setting().Norm}.Make(float64(c.Epsilon()),
			c.Who.Classes)
		if err == nil {
			on, err = open.OracleOf(c.Who, result.WhiteboxThrough)
		}
		return recipe, err
	})
	breaks = func(im attacks.Image) breaking {
		return func(ctx context.Context) (bool, error) {
			quick, err := recipe()
			if err != nil {
				return false, err
			}
			distance, err := p.attacked(ctx, on, quick, im)
			return distance > 0, err
		}
	}
	return breaks, func() {
		if on != nil {
			on.Close()
		}
	}
}

// cannot says why nothing can be proven about a case, or returns "".
func (p *Prover) cannot(c Case) (string, error) {
	why, err := folder.Once(p.Journal, p.key(c, "unbounded"), func() ([]string, error) {
		_, err := p.network(c.Who)
		if errors.As(err, new(unbounded)) {
			return []string{err.Error()}, nil
		}
		return []string{}, err
	})
	return strings.Join(why, ""), err
}

// confront counts the proven images that the classifier nevertheless answers wrong within their ball.
func (b bounded) confront(ctx context.Context, p *Prover, c Case, a Attack) (f Finding, err error) {
	proofs, err := b.prove(ctx, p, c)
	if err != nil {
		return f, err
	}
	return refute(ctx, p, c, a, proofs, func(int) float64 { return float64(c.Epsilon()) },
		fmt.Sprintf("at %s %s", c.Setting().Norm, c.Epsilon()))
}

// refute counts the images that are proven within a radius and that the classifier nevertheless answers wrong there.
func refute(ctx context.Context, p *Prover, c Case, a Attack, proofs Proof, radius func(i int) float64, where string) (
	f Finding, err error) {
	wrong := p.Set.Places(func(i int) bool { return a.Wrong(i) && proofs.Right(i, p.Set.Label(i)) })
	key := a.Key.As("within")
	key.By.Attack, key.By.Epsilon = c.Name(), c.Epsilon()
	work, todo, err := folder.Recall[bool](p.Journal, key, p.Set, wrong, nil)
	if err == nil {
		err = work.Do(ctx, todo, open.SideBySide(1), func(_ context.Context, im attacks.Image, i int) (bool, error) {
			x, err := a.Image(im, i)
			return err == nil && c.Setting().Norm.Distance(im.Pixels, x) <= radius(i), err
		})
	}
	if err != nil {
		return f, err
	}
	// the images that the attack has left within the ball
	if found := lists.Count(wrong, func(i int) bool { return work.Values[i] }); found > 0 {
		f.Impossible = true
		f.Broken = fmt.Sprintf("%d images that %s certifies %s are answered wrong within it", found, c.Name(), where)
	}
	return f, nil
}

// measure bounds as many images as there are cores. An image that the classifier gets wrong has no bounds.
func (bounded) measure(ctx context.Context, p *Prover, c Case, _ float64) (seconds [2]float64, err error) {
	n, err := p.network(c.Who)
	if errors.As(err, new(unbounded)) {
		return seconds, nil
	} else if err != nil {
		return seconds, err
	}
	some := lists.To(min(p.Set.Len(), p.Cores()))
	how := c.Recipe.Certificate.(attacks.Bounds)
	method, longest := bounds.Method(how.Method), 0.0 // of a branched image
	if method == bounds.BetaCROWN {
		method, longest = bounds.AlphaCROWN, budget(how).Seconds()
	}
	start := time.Now()
	err = open.SideBySide(len(some))(ctx, some, func(ctx context.Context, i int) error {
		im, err := p.Set.Read(i)
		if err == nil {
			_, err = leastWithin(ctx, n, method, region(c.Trial, im.Pixels), im)
		}
		return err
	})
	seconds[1] = time.Since(start).Seconds()/float64(len(some)) +
		longest/float64(p.Cores()) // images are bounded concurrently
	return seconds, err
}

// Image returns a function that proves, by α-CROWN and then within a budget by β-CROWN, that an image withstands an
// attack. It returns nil if there are no bounds.
func (p *Prover) Image(t plan.Trial, who open.Classifier) (func(ctx context.Context, im attacks.Image,
	budget time.Duration) (bool, error), error) {
	n, err := p.network(who)
	if err != nil {
		if errors.As(err, new(unbounded)) {
			err = nil
		}
		return nil, err
	}
	return func(ctx context.Context, im attacks.Image, budget time.Duration) (bool, error) {
		within := region(t, im.Pixels)
		proven, err := branched(ctx, n, within, im, budget, nil)
		if err != nil || proven.Bound == nil || !(proven.Least() > 0) {
			return false, err
		}
		return true, p.hold(ctx, who, within, im)
	}, nil
}

// corners is how many corners of a region the file is asked about, besides its centre.
const corners = 16

// hold checks a proof against the file, or against the controlled network as it runs: at the centre and at corners of
// the ball the answer must be the label. It returns an error if not.
func (p *Prover) hold(ctx context.Context, who open.Classifier, region bounds.Region, im attacks.Image) error {
	file, err := p.Original(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(im.ID), uint64(im.Label)))
	for k := range 1 + corners {
		x := im.Pixels
		if k > 0 {
			if x = corner(region, rng); who.Net.Graph.Levels {
				x = open.Levels(x, im.Pixels)
			}
		}
		var z []float64
		if who.Loop == nil {
			if z, err = file.Answer(x); err == nil && k == 0 && who.Net.Graph.Rounds {
				err = p.around(ctx, who, im, z)
			}
			if err != nil {
				return err
			}
		} else {
			answer, err := who.Logits(ctx, x)
			if err != nil {
				return err
			}
			z = lists.Map(answer, func(v float32) float64 { return float64(v) })
		}
		for class, v := range z {
			if class != im.Label && !(z[im.Label] > v) {
				return fmt.Errorf("image %d is proven, and %s as it lies answers class %d at a corner of its ball: "+
					"one of them is wrong", im.ID, who, class)
			}
		}
	}
	return nil
}

// around checks the answer of a file that rounds against the bounds for the image alone.
func (p *Prover) around(ctx context.Context, who open.Classifier, im attacks.Image, z []float64) error {
	n, err := p.network(who)
	if err == nil {
		err = n.Hold(ctx, im.Pixels, z)
	}
	return fault.At(fmt.Sprintf("%s, image %d", who, im.ID), err)
}

// corner returns a random corner of a region: of its box or, for a ball, of a box within it that reaches as far as
// the ball goes.
func corner(r bounds.Region, rng *rand.Rand) []float32 {
	x := make([]float32, len(r.Lower))
	move := func(i int, by float64) float64 {
		if rng.IntN(2) == 0 {
			by = -by
		}
		was := x[i]
		x[i] = min(max(float32(float64(was)+by), r.Lower[i]), r.Upper[i])
		return math.Abs(float64(x[i]) - float64(was))
	}
	within := r.Epsilon * (1 - 1e-6) // leaves room for rounding
	copy(x, r.Centre)
	switch {
	case r.Centre == nil:
		for i := range x {
			if x[i] = r.Lower[i]; rng.IntN(2) == 0 {
				x[i] = r.Upper[i]
			}
		}
	case r.P == 1: // one value after another, until the radius is spent
		for _, i := range rng.Perm(len(x)) {
			if within -= move(i, within); within <= 0 {
				break
			}
		}
	default:
		for i := range x {
			move(i, within/math.Sqrt(float64(len(x))))
		}
	}
	return x
}
