package certify

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/bounds"
)

// certifying has certificates beside an attack.
const certifying = testplan.Bundled + `
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 0.05, steps: 1}
  alpha: {kind: bounds, norm: linf, epsilon: 0.05}
  smooth: {kind: smoothing, norm: l2, epsilon: 0.1, sigma: 0.12, n0: 20, n: 200}
suites: {s: {dataset: test, models: [robust], attacks: [pgd, alpha, smooth]}}
`

// confronting returns a prover on a set of images, with a complete journal.
func confronting(t *testing.T, p *plan.Plan, set open.Images) *Prover {
	t.Helper()
	j, _ := must.Get2(journal.Open(t.TempDir()))(t)
	t.Cleanup(func() { _ = j.Close() })
	return &Prover{Job: &open.Job{Job: p.Jobs[0], Set: set}, Journal: &folder.Journal{Journal: j}}
}

// units returns a block of the journal, to be written.
func units[T any](t *testing.T, p *Prover, key folder.Key) *folder.Units[T] {
	t.Helper()
	u, _ := must.Get2(folder.Recall[T](p.Journal, key, p.Set, nil, nil))(t)
	return u
}

func caseOf(t *testing.T, trial plan.Trial) Case {
	t.Helper()
	who := open.Classifier{Info: open.Info{Classes: 10, Shape: attacks.Shape{C: 3, H: 32, W: 32}}}
	return Case{Trial: trial, Recipe: must.Get(trial.Recipe(10, who.Shape))(t), Who: who, Seed: 3,
		Right: func(int) bool { return true }}
}

// moved are images with one pixel moved by this amount.
type moved float32

func (moved) Untried(int) bool { return false }

func (m moved) Image(im attacks.Image, _ int) ([]float32, error) {
	x := slices.Clone(im.Pixels)
	x[0] += float32(m)
	if im.Pixels[0] > 0.5 {
		x[0] -= 2 * float32(m)
	}
	return x, nil
}

// Chance does not explain an image that bounds prove and an attack breaks within them.
func TestBoundsAreBroken(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, certifying, 1, 4)
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	defer o.Close()
	set := must.Get(o.Scored("test"))(t)
	for by, broken := range map[moved]bool{0.04: true, 0.06: false} {
		prover := confronting(t, p, set)
		c := caseOf(t, p.Jobs[0].Trials[1])
		must.Get(folder.Once(prover.Journal, prover.key(c, "unbounded"), func() ([]string, error) {
			return []string{},
				nil
		}))(t)
		work := units[least](t, prover, prover.key(c, "bounds"))
		for i := range set.Len() {
			must.Do(t, work.Done(i, least{&bounds.Bound{Value: 1}}))
		}
		found := must.Get(prover.Confront(t.Context(), c, Attack{Trial: p.Jobs[0].Trials[0], First: true,
			Key: folder.Key{Of: "verdicts"}, Wrong: func(int) bool { return true }, Images: by}))(t)
		if (found.Broken != "") != broken || found.Impossible != broken {
			t.Errorf("moved by %g within 0.05: %+v", by, found)
		}
	}
}

// One image that smoothing certifies and an attack breaks is reported. Chance does not explain many: of all images,
// as wrong certificates are among the certified ones.
func TestMajorityIsBroken(t *testing.T) {
	p := testplan.Plan(t, certifying, 1, 4)
	for _, c := range []struct {
		images, certified, broken int
		impossible                bool
	}{{400, 400, 0, false}, {400, 400, 1, false}, {400, 3, 3, false}, {400, 12, 12, true}, {3, 3, 3, true}} {
		prover := confronting(t, p, open.Named(make([]open.ImageName, c.images), nil))
		one := caseOf(t, p.Jobs[0].Trials[2])
		a := Attack{Trial: p.Jobs[0].Trials[0], First: true, Key: folder.Key{Of: "verdicts"}, Images: moved(0)}
		votes := units[Vote](t, prover, prover.key(one, "votes"))
		key := a.Key.As("smoothed")
		key.By.Attack = one.Name()
		replies := units[reply](t, prover, key)
		for i := range c.images {
			v, r := Vote{Class: 0, Lower: 0.4}, reply{Class: 0, Votes: 20, Label: 20, Far: 0.01}
			if i < c.certified {
				v.Lower = 0.9
			}
			if i < c.broken {
				r = reply{Class: 1, Votes: 20, Label: 0, Far: 0.01}
			}
			must.Do(t, votes.Done(i, v))
			must.Do(t, replies.Done(i, r))
		}
		found := must.Get(prover.Confront(t.Context(), one, a))(t)
		if found.Smoothed.Within != c.certified || found.Smoothed.Broken != c.broken ||
			(found.Broken != "") != (c.broken > 0) ||
			found.Impossible != c.impossible {
			t.Errorf("%+v: %+v, %+v", c, found, found.Smoothed)
		}
	}
}

// Corners lie in their region, and a ball's at its radius if the box allows that.
func TestCorners(t *testing.T) {
	x := slices.Repeat([]float32{0.5}, 50)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, norm := range []attacks.Norm{attacks.L1, attacks.L2, attacks.Linf} {
		for _, epsilon := range []float64{0.1, 0.4} {
			c := corner(bounds.Ball(x, exponents[norm], epsilon, 0, 1), rng)
			if d := norm.Distance(x, c); d > epsilon*(1+1e-6) || d < 0.999*epsilon {
				t.Errorf("%s: a corner of %v lies at %v", norm, epsilon, d)
			}
		}
	}
}

// Proofs are checked against the network's file, which has channels last and another scale.
func TestProofsAreHeldAgainstTheFile(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.ChannelsLast(t), 1, 4)
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	defer o.Close()
	j := must.Get(o.Job(t.Context(), p.Jobs[0]))(t)
	defer j.Close()
	prover, who, im := &Prover{Job: j, Progress: o.Progress, Seed: o.Config.Seed}, open.Alone(j.Net),
		must.Get(j.Set.Read(0))(t)
	im.Label = attacks.Argmax(must.Get(who.Logits(t.Context(), im.Pixels))(t))
	around := bounds.Ball(im.Pixels, 2, 1e-5, 0, 1)
	must.Do(t, prover.hold(t.Context(), who, around, im))
	im.Label = (im.Label + 1) % 3
	must.Refuse(t, prover.hold(t.Context(), who, around, im), "is proven, and model m as it lies answers class")
}

// Proofs are checked against the file of a quantised network, in its integer kernels: at the image itself each logit
// lies between its bounds.
func TestProofsOfStepsAreHeldAgainstTheFile(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+`
attacks: {b: {kind: bounds, method: ibp, norm: linf, epsilon: 0.00001}}
suites: {s: {dataset: test, models: [robust], attacks: [b]}}
`, 1, 4, "models.robust.path=harness/testdata/quantised/preact_standard-qdq-channel.onnx")
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	defer o.Close()
	j := must.Get(o.Job(t.Context(), p.Jobs[0]))(t)
	defer j.Close()
	prover, who, im := &Prover{Job: j, Progress: o.Progress, Seed: o.Config.Seed}, open.Alone(j.Net),
		must.Get(j.Set.Read(0))(t)
	defer prover.Close()
	if err := bounds.Provable(j.Net.Graph); err != nil {
		t.Skip(err)
	}
	im.Label = attacks.Argmax(must.Get(who.Logits(t.Context(), im.Pixels))(t))
	must.Do(t, prover.hold(t.Context(), who, bounds.Ball(im.Pixels, math.Inf(1), 1e-5, 0, 1), im))
	z := must.Get(must.Get(j.Original(t.Context()))(t).Answer(im.Pixels))(t)
	must.Do(t, prover.around(t.Context(), who, im, z))
	z[3] += 50
	must.Refuse(t, prover.around(t.Context(), who, im, z), "image 0: output 3 is proven to be from")
}

// An image that an attack breaks is not branched on, and one that α-CROWN proves is not attacked.
func TestBrokenImagesAreNotBranchedOn(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+`
attacks: {b: {kind: bounds, method: beta-crown, budget: 1h, norm: linf, epsilon: [0.0001, 0.2]}}
suites: {s: {dataset: test, models: [robust], attacks: [b]}}
`, 2, 4)
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	defer o.Close()
	j := must.Get(o.Job(t.Context(), p.Jobs[0]))(t)
	defer j.Close()
	prover := &Prover{Job: j, Progress: o.Progress, Seed: o.Config.Seed}
	defer prover.Close()
	im := must.Get(j.Set.Read(0))(t)
	im.Label = attacks.Argmax(must.Get(open.Alone(j.Net).Logits(t.Context(), im.Pixels))(t))
	for _, trial := range p.Jobs[0].Trials {
		c := caseOf(t, trial)
		c.Who = open.Alone(j.Net)
		n := must.Get(prover.network(c.Who))(t)
		attack, closing := prover.breaker(c)
		attacked := false
		all := must.Get(branched(t.Context(), n, region(trial, im.Pixels), im,
			budget(c.Recipe.Certificate.(attacks.Bounds)),
			func(ctx context.Context) (bool, error) {
				attacked = true
				return attack(im)(ctx)
			}))(t)
		closing()
		if far := trial.Epsilon() > 0.1; attacked != far || (all.Least() > 0) == far {
			t.Errorf("within %g: attacked: %v, least margin %v", trial.Epsilon(), attacked, all.Least())
		}
	}
}

// A search by branching starts at the proven radius, and images on which it failed come after the others.
func TestBracketRises(t *testing.T) {
	g := &gaps{columns: []float64{3}}
	for _, c := range []struct{ low, high, rise, want float64 }{
		{1, 2, 0, 1.5}, {1, 2, 0.1, 1.1}, {1, 1.1, 0.1, 1.05}, {0, 2, 0.1, 1}, {1, 9, 0.1, 3},
	} {
		if got, _ := g.between(c.low, c.high, c.rise); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("between %g and %g, by %g: %g, not %g", c.low, c.high, c.rise, got, c.want)
		}
	}
	g = &gaps{rungs: []attacks.Rung{{Method: "beta-crown", Rise: 0.1}}, right: func(int) bool { return true }}
	for i := range 4 {
		g.each = append(g.each, gap{proven: 1, broken: 2 + float64(i), fails: []int{0, 1, 0, 2}[i]})
	}
	all := g.choose(func(int) bool { return true }, func(int) int { return 4 })
	if !slices.Equal(all, []int{2, 0, 1, 3}) {
		t.Errorf("images in the order %v", all)
	}
}
