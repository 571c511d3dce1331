package harness

import (
	"cmp"
	"context"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
)

const (
	// How far an image is from the boundary is known from gradients. Of large sets they are taken of so many images;
	// the others, which are alike then, are shared evenly.
	weighed = 1000
	// An image that stands costs many times one that falls. Where shards have so few images that chance alone makes
	// their work differ by this standard deviation, in parts of it, images whose end is open are attacked quickly.
	even = 0.03
	// quickShare of a shard's work is spent on that at most.
	quickShare = 0.1
	quickWave  = 16 // images are attacked quickly at once
	// fixedPass is what a pass over a batch takes beside its images' parts, in parts of one image: 2.3 on a ResNet-18 a
	// quarter as wide, 0 on networks whose weights stay in a core's cache. The last images that stand pay for it.
	fixedPass = 2.0
)

// appraisal is what is known before any attack of what the images of a network cost, in forward passes of it.
type appraisal struct {
	*run
	set     images
	net     *control.Network
	glances []glance
	shifts  []shift
	each    float64 // what every image costs, whatever becomes of it
	first   float64 // what is done once for the set
	stakes  []*stake
	proven  map[craftKey]bool // certificates that are counted in each
}

// shift is how likely it is that the network's typical distance is so many times the usual one.
type shift struct{ times, weight float64 }

// stake is one crafting.
type stake struct {
	need
	recipe       attacks.Recipe
	first, later float64   // what its first component and the others cost of an image that stands
	falls        float64   // and of one that falls
	distances    []float64 // see [distances]
	ends         []end     // of a quick attack, by image
}

// end is how an attack on an image ends.
type end int

const (
	open end = iota
	stood
	fell
)

// chance is how likely the i-th image is to stand.
func (a *appraisal) chance(s *stake, i int) float64 {
	switch d := s.distances[i]; {
	case s.ends[i] == stood:
		return 1
	case s.ends[i] == fell:
		return 0
	case d < 0:
		return 0.5
	default:
		sum, all := 0.0, 0.0
		for _, f := range a.shifts {
			sum, all = sum+f.weight*standing(d/f.times), all+f.weight
		}
		return sum / all
	}
}

// stands is what a crafting costs of an image that stands, beside as many as a shard has of them.
func (a *appraisal) stands(s *stake) float64 {
	standing := 0.0
	for i, d := range s.distances {
		if d != 0 {
			standing += a.chance(s, i)
		}
	}
	standing *= float64(a.set.Len()) / float64(len(s.distances)) / float64(a.shard.N)
	return s.first + s.later*(1+fixedPass/max(standing, 1))
}

// variance is that of the i-th image's cost.
func (a *appraisal) variance(s *stake, stands float64, i int) float64 {
	if s.distances[i] == 0 {
		return 0
	}
	c := a.chance(s, i)
	return c * (1 - c) * (stands - s.falls) * (stands - s.falls)
}

// appraise finds out what the images of a job's network cost in all jobs that classify the same set by it.
func (r *run) appraise(ctx context.Context, j Job) (*appraisal, error) {
	b, err := r.prepare(j)
	if err != nil {
		return nil, err
	}
	defer b.close()
	a := &appraisal{run: r, set: b.set, net: b.net, proven: map[craftKey]bool{}}
	for z := -3.0; z <= 3; z += 0.25 {
		a.shifts = append(a.shifts, shift{math.Exp(z * networkSpread), math.Exp(-z * z / 2)})
	}
	if err := a.weigh(ctx); err != nil {
		return nil, err
	}
	for _, same := range r.plan.Jobs {
		if same.Suite.Dataset == j.Suite.Dataset && same.Model.Name == j.Model.Name {
			if err := a.add(ctx, same); err != nil {
				return nil, err
			}
		}
	}
	return a, a.quickly(ctx)
}

// costs are the images', in forward passes.
func (a *appraisal) costs() []float64 {
	costs, mean := make([]float64, a.set.Len()), 0.0
	stands := map[*stake]float64{}
	for _, s := range a.stakes {
		stands[s] = a.stands(s)
	}
	for i := range costs {
		costs[i] = a.each
		if i >= len(a.glances) {
			costs[i] += mean / float64(len(a.glances))
			continue
		}
		for _, s := range a.stakes {
			if s.distances[i] != 0 {
				c := a.chance(s, i)
				c = c*stands[s] + (1-c)*s.falls
				costs[i], mean = costs[i]+c, mean+c
			}
		}
	}
	costs[0] += a.first
	return costs
}

// weigh takes gradients at the first images of the set.
func (a *appraisal) weigh(ctx context.Context) error {
	climbs := a.net.Prepare(attacks.Margin) == nil
	a.glances = make([]glance, min(a.set.Len(), weighed))
	return a.forEach(ctx, len(a.glances), attackState(a.net.Shape()), func(ctx context.Context, i int) error {
		im, err := a.set.image(i)
		if err == nil {
			a.glances[i], err = a.glance(ctx, a.net, im, climbs)
		}
		return err
	})
}

// add adds what a job does.
func (a *appraisal) add(ctx context.Context, j Job) error {
	price, answer := map[string]control.Cost{}, 0.0 // of attacks, by defense; of an answer under each control
	asked := map[string]float64{config.None: 1}     // what an answer costs, by defense
	for _, defense := range append([]string{config.None}, j.Suite.Controls...) {
		who := alone(a.net)
		if defense != config.None {
			loop, err := a.controller(ctx, a.net, a.cfg.Control(defense), false)
			if err != nil {
				return err
			}
			defer loop.Close()
			who = under(loop, a.net)
			asked[defense] = who.Control.Passes
			answer += asked[defense]
		}
		on, err := oracleOf(who, j.Suite.Mode)
		if err != nil {
			return err
		}
		price[defense] = on.cost
		on.close()
	}
	a.each += 1 + answer
	if j.studies() { // about what its solvers cost; the shard with the first image makes the study
		solvers := 3 + len(variants(control.Solver{}, j.Suite.Solver))
		a.first += float64(2*j.Suite.Solver.Images*solvers) * answer
	}
	for k := range j.needs(a.seeds()) {
		if k.attack.corruption() != nil {
			a.each += 1 + answer
			continue
		}
		if k.attack.proves() {
			if !a.proven[k.craftKey] {
				recipe, err := recipeFor(k.attack, a.net)
				if err != nil {
					return err
				}
				samples, _ := recipe.Passes(a.net.Classes())
				a.proven[k.craftKey] = true
				a.each += float64(samples) * asked[k.defense]
			}
			continue
		}
		i := slices.IndexFunc(a.stakes, func(s *stake) bool { return s.craftKey == k.craftKey })
		if i < 0 {
			s, err := a.stake(ctx, k, price[k.defense])
			if err != nil {
				return err
			}
			i, a.stakes = len(a.stakes), append(a.stakes, s)
		}
		a.stakes[i].falls += answer // to the image that was made
		if k.n == 0 {
			a.stakes[i].falls += float64(j.polls()) * (1 + answer)
		}
	}
	return nil
}

// stake is that of what a job needs, at a price of its passes.
func (a *appraisal) stake(ctx context.Context, k need, price control.Cost) (*stake, error) {
	recipe, err := recipeFor(k.attack, a.net)
	if err != nil {
		return nil, err
	}
	s := &stake{need: k, recipe: recipe}
	s.first, s.later = a.price(recipe, price)
	easy := newPlane(recipe.Norm, within, recipe.Epsilon, a.net.Shape(), a.net.Classes())
	_, err = recipe.Components[0].Perturb(ctx, easy, attacks.Image{Pixels: easy.centre}, attacks.Options{})
	if err != nil {
		return nil, err
	}
	s.falls = float64(easy.forward)*price.Forward + float64(easy.gradients)*(price.Forward+2*price.Backward)
	if !a.uses[k.craftKey].images && !recipe.Minimises {
		s.falls /= 10 // the attack ends there
	}
	s.distances = distances(a.glances, recipe.Norm, recipe.Epsilon, a.net.Shape().Size())
	for i, d := range s.distances {
		if d > 0 {
			s.distances[i] = rounded(d)
		}
	}
	s.ends = make([]end, len(s.distances))
	return s, nil
}

// price is what the first component of a recipe and the others cost of an image that stands, at a price of passes.
func (a *appraisal) price(recipe attacks.Recipe, p control.Cost) (first, later float64) {
	for n, c := range recipe.Components {
		f, b := c.Passes(a.net.Classes())
		cost := float64(f)*p.Forward + 2*float64(b)*p.Backward
		if n == 0 {
			first = cost
		} else {
			later += cost
		}
	}
	return first, later
}

// quickly attacks images whose end is open by AutoAttack's version quick, those first on which most depends, until
// chance leaves shards even. In large sets it does by itself.
func (a *appraisal) quickly(ctx context.Context) error {
	if a.set.Len() > len(a.glances) {
		return nil
	}
	load := 0.0
	for _, c := range a.costs() {
		load += c / float64(a.shard.N)
	}
	for budget := quickShare * load; budget > 0; {
		spread := 0.0 // the variance of all work
		var wave []quick
		for _, s := range a.stakes {
			stands := a.stands(s)
			recipe, worth := a.quick(s, stands)
			for i := range s.distances {
				v := a.variance(s, stands, i)
				if spread += v; v > 0 && worth {
					wave = append(wave, quick{s, i, v, recipe})
				}
			}
		}
		if len(wave) == 0 || spread/float64(a.shard.N) < math.Pow(even*load, 2) {
			break
		}
		slices.SortStableFunc(wave, func(x, y quick) int { return cmp.Compare(y.variance, x.variance) })
		wave = wave[:min(len(wave), quickWave)]
		err := a.forEach(ctx, len(wave), attackState(a.net.Shape()), func(ctx context.Context, k int) error {
			return a.try(ctx, wave[k])
		})
		if err != nil {
			return err
		}
		for _, q := range wave {
			budget -= a.learn(q)
		}
	}
	return nil
}

// quick is an image of a stake that is to be attacked quickly.
type quick struct {
	*stake
	image    int
	variance float64
	attacks.Recipe
}

// quick returns the recipe of a quick attack instead of a stake's, which ends with the stake's first component, and
// whether it can tell more than it costs.
func (a *appraisal) quick(s *stake, stands float64) (attacks.Recipe, bool) {
	quick := *s.attack.Attack
	quick.Setup = attacks.Setup{Kind: "autoattack", Version: "quick", Norm: quick.Norm}
	recipe, err := recipeFor(PlannedAttack{&quick, s.attack.Epsilon}, a.net)
	if err != nil || s.defense != config.None {
		return recipe, false
	}
	recipe.Components = append(slices.Clone(recipe.Components), s.recipe.Components[0])
	first, later := a.price(recipe, control.Cost{Forward: 1, Backward: 1})
	return recipe, 5*(first+later) < stands-s.falls
}

// try attacks an image quickly.
func (a *appraisal) try(ctx context.Context, q quick) error {
	im, err := a.set.image(q.image)
	if err != nil {
		return err
	}
	for _, c := range q.Components {
		res, err := c.Perturb(ctx, a.net, im, attacks.Options{Seed: a.cfg.Seed, VerdictOnly: true})
		if err != nil {
			return err
		}
		if res.Adversarial != nil {
			q.ends[q.image] = fell
			return nil
		}
	}
	q.ends[q.image] = stood
	return nil
}

// learn takes in what a quick attack told of the network, and returns its cost.
func (a *appraisal) learn(q quick) float64 {
	first, later := a.price(q.Recipe, control.Cost{Forward: 1, Backward: 1})
	if d := q.distances[q.image]; d > 0 {
		a.shifts = learnt(a.shifts, d, q.ends[q.image] == stood)
	}
	if q.ends[q.image] == stood {
		return first + later
	}
	return first
}

// learnt is how likely shifts are when an image at a distance has stood or fallen. Weights are relative to the largest,
// so that many images leave some; what no shift explains teaches nothing.
func learnt(shifts []shift, distance float64, stood bool) []shift {
	after, most := slices.Clone(shifts), 0.0
	for i, f := range after {
		p := standing(distance / f.times)
		if !stood {
			p = 1 - p
		}
		after[i].weight *= p
		most = max(most, after[i].weight)
	}
	if most == 0 {
		return shifts
	}
	for i := range after {
		after[i].weight /= most
	}
	return after
}

// rounded keeps a step of the eighth root of 2, so that the last digits of a processor do not matter.
func rounded(x float64) float64 {
	if x == 0 {
		return 0
	}
	return math.Exp2(math.Round(8*math.Log2(x)) / 8)
}
