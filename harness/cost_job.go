package harness

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// Costs are what a plan's jobs are expected to take on this machine.
type Costs struct {
	jobs []forecast // one a job of the plan
	rest []float64  // seconds of what belongs to no job, a draw each
}

// forecast is what is expected of a job.
type forecast struct {
	seconds []float64 // in each of so many draws; nil where it is not known
	why     string    // it is not known
	looked  int       // images whose distance to the boundary was taken
	right   int       // of them
}

// MeasureOptions are what measuring needs beside the plan.
type MeasureOptions struct {
	Fits  *pca.Cache // of linear embeddings; nil for none
	Cache *CostCache // of what is measured; nil for none
}

// Measurable reports whether the files of any job are there.
func (p *Plan) Measurable() bool {
	return slices.ContainsFunc(p.Jobs, func(j Job) bool { return p.lacks(j) == "" })
}

// lacks names what a job needs and is absent.
func (p *Plan) lacks(j Job) string {
	cfg := p.Config
	paths := []string{cfg.Dataset(j.Suite.Dataset).Path, j.Model.Path}
	for _, name := range j.Suite.Controls {
		for _, l := range cfg.Control(name).Layers {
			switch e := l.Embedding; e.Kind {
			case control.Linear:
				paths = append(paths, cfg.Dataset(e.Fit).Path)
			case control.ONNX:
				paths = append(paths, e.Path)
			}
		}
	}
	i := slices.IndexFunc(paths, func(path string) bool { return absent(cfg.Files, path) })
	if i < 0 {
		return ""
	}
	return paths[i] + " is absent"
}

// Measure opens the networks of a plan's jobs whose files are there, takes the time of their passes,
// about a second for each alone and under each control, and forecasts the jobs. It attacks nothing. A job
// whose files can't be opened has no forecast. The error is that of a device that does not compute, or ctx's.
func (p *Plan) Measure(ctx context.Context, o MeasureOptions) (*Costs, error) {
	opener, err := newOpener(p.Config, o.Fits, nil)
	if err != nil {
		return nil, err
	}
	defer opener.close()
	r := &run{opener: opener, plan: p, uses: map[craftKey]*use{}}
	r.reserve()
	s := &surveyor{run: r, costs: o.Cache, machine: opener.machineKey(), speeds: map[string]surveyed{},
		rehearsed: map[string]rehearsal{}, fitted: map[string]bool{}, made: map[craftKey][]outlook{},
		probed: map[probeKey]bool{}, factors: make([]float64, draws)}
	for i := range s.factors {
		s.factors[i] = math.Exp(rateSpread * rand.New(rand.NewPCG(p.Config.Seed, uint64(i))).NormFloat64())
	}
	all := &Costs{}
	for _, j := range p.Jobs {
		f := forecast{why: p.lacks(j)}
		if f.why == "" {
			f, err = s.job(ctx, j)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			} else if err != nil {
				f = forecast{why: strings.Join(strings.Fields(err.Error()), " ")}
			}
		}
		all.jobs = append(all.jobs, f)
	}
	if !slices.ContainsFunc(all.jobs, func(f forecast) bool { return f.seconds == nil }) {
		keep(o.Cache, opener.agendaKey(), s.medians()) // for the run's time left
	}
	all.rest = s.forecast(func(int) float64 { return s.report() })
	return all, nil
}

// forecast is what takes so many seconds in each draw, at the rates that it has.
func (s *surveyor) forecast(seconds func(i int) float64) []float64 {
	out := make([]float64, draws)
	for i := range out {
		out[i] = seconds(i) * s.factors[i]
	}
	return out
}

// job forecasts a job: it opens what the job opens and looks at every oracle.
func (s *surveyor) job(ctx context.Context, j Job) (forecast, error) {
	watch := newStopwatch()
	b, err := s.prepare(j)
	if err != nil {
		return forecast{}, err
	}
	defer b.close()
	if b.set.Len() == 0 {
		return forecast{}, errors.New("the data set has no images")
	}
	climbs := slices.ContainsFunc(b.recipes, func(r attacks.Recipe) bool { return takesGradients(r, b.net.Classes()) })
	alone := alone(b.net)
	opening := 2 * s.idle(watch.read()) // before the run, and for the job
	plain, err := b.oracle(alone)
	if err != nil {
		return forecast{}, err
	}
	defer plain.close()
	known, err := s.look(ctx, b, plain, climbs, true)
	if err != nil {
		return forecast{}, err
	}
	f := forecast{looked: len(known.images), right: howMany(known.images, glance.right)}
	e := &estimate{surveyor: s, bench: b, seconds: make([]float64, draws), share: float64(f.right) / float64(f.looked)}
	oracles, seen := []*oracle{plain}, []surveyed{known}
	for _, name := range j.Suite.Controls {
		watch := newStopwatch()
		c := s.cfg.Control(name)
		fits, err := s.ready(ctx, b.net, c, known.speed)
		if err != nil {
			return f, err
		}
		loop, err := s.controller(ctx, b.net, c, fits == 0)
		if err != nil {
			return f, err
		}
		defer loop.Close()
		opening += fits + 2*s.idle(watch.read())
		who, white := under(loop, b.net), j.Suite.Mode != result.Oblivious
		on := listening(who)
		if white {
			if on, err = b.oracle(who); err != nil {
				return f, err
			}
			defer on.close()
		}
		v, err := s.look(ctx, b, on, climbs && white, white)
		if err != nil {
			return f, err
		}
		if len(v.images) < len(known.images)/4 { // too few to go by
			v.images = known.images
		}
		oracles, seen = append(oracles, on), append(seen, v)
	}
	for k, on := range oracles {
		listeners := seen[k : k+1]
		if j.Suite.Mode == result.Oblivious {
			if k > 0 {
				break
			}
			listeners = seen
		}
		if err := e.attackEach(ctx, on, seen[k], oracles[k:k+len(listeners)], listeners); err != nil {
			return f, err
		}
		opening += seen[k].opening * float64(2+e.losses())
	}
	e.gallery(seen)
	if err := e.study(ctx, known); err != nil {
		return f, err
	}
	f.seconds = s.forecast(func(i int) float64 { return opening + e.fixed + e.seconds[i] })
	return f, nil
}

// hashed makes a seed of a text.
func hashed(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// estimate is the forecast of a job being made.
type estimate struct {
	*surveyor
	*bench
	share   float64   // of the images that are right
	fixed   float64   // seconds in every draw
	seconds []float64 // of each draw, beside
}

// losses is about how many gradients are compiled beside the first.
func (e *estimate) losses() int {
	most := 0
	for _, r := range e.recipes {
		most = max(most, howMany(r.Components, func(a attacks.Attack) bool {
			_, g := a.Passes(e.net.Classes())
			return g > 0
		}))
	}
	return most
}

// attackEach counts what [run.attackEach] does.
func (e *estimate) attackEach(ctx context.Context, on *oracle, v surveyed, oracles []*oracle,
	listeners []surveyed) error {
	n := e.set.Len()
	for k, l := range listeners {
		e.fixed += l.judging().lasting(repeated(n, work{Forward: 1}))
		key := probeKey{e.Suite.Dataset, e.Model.Name, oracles[k].of.defense()}
		if !e.probed[key] {
			e.probed[key] = true
			images := min(int(e.share*float64(n)), probeLimit(oracles[k].of))
			e.fixed += l.lasting(repeated(images, work{Forward: repeats + neighbours}))
		}
	}
	for i, a := range e.Attacks {
		r := e.recipes[i]
		if r.Corruption != nil {
			for _, l := range listeners {
				e.fixed += l.judging().lasting(repeated(n*len(e.seeds()), work{Forward: 1}))
			}
			continue
		}
		if r.Certificate != nil {
			for k, l := range listeners {
				if err := e.certificate(ctx, a, r, oracles[k].of, l); err != nil {
					return err
				}
			}
			continue
		}
		for _, seed := range e.seeds() {
			key := e.key(a, on.of.defense(), seed)
			fresh := e.made[key] == nil
			var c crafting
			if fresh {
				c = crafting{verdict: !e.uses[key].images && !r.Minimises, n: n,
					distances: distances(v.images, r.Norm, r.Epsilon, e.net.Shape().Size()), speed: v.speed}
				for _, a := range r.Components {
					c.parts = append(c.parts, e.rehearse(ctx, a, r, e.net))
				}
				e.made[key] = e.drawn(&c, key)
			}
			for d, o := range e.made[key] {
				if fresh {
					e.seconds[d] += o.seconds
					if e.cfg.Runtime.Reduced() != "" {
						for _, p := range c.parts {
							e.seconds[d] += v.judging().lasting(repeated(sampled(o.right-o.fallen), p.Stands))
						}
					}
					if r.Norm == attacks.Linf && v.gradient != nil {
						standing := min(o.right-o.fallen, probeLimit(on.of))
						e.seconds[d] += v.lasting(repeated(standing, work{Gradients: 4}))
					}
				}
				for _, l := range listeners {
					e.seconds[d] += l.judging().lasting(repeated(o.fallen, work{Forward: 1}))
					if seed == e.cfg.Seed {
						e.seconds[d] += l.judging().round(o.fallen*int(e.polls()), 0)
					}
				}
			}
		}
	}
	return nil
}

// drawn are a crafting's draws. A network's typical distance is the same for all attacks in a draw.
func (e *estimate) drawn(c *crafting, key craftKey) []outlook {
	out := make([]outlook, draws)
	for i := range out {
		name := rand.New(rand.NewPCG(uint64(i), hashed(key.model+"/"+key.defense)))
		rng := rand.New(rand.NewPCG(uint64(i), hashed(fmt.Sprint(key))))
		out[i] = c.draw(rng, math.Exp(networkSpread*name.NormFloat64()))
	}
	return out
}

// gallery counts the pictures' answers.
func (e *estimate) gallery(seen []surveyed) {
	own, _ := newGallery(e.cfg, "").quota(e.Job)
	own = min(own, len(e.slots(0)), e.set.Len())
	e.fixed += seen[len(seen)-1].lasting(repeated(own, work{Forward: 2}))
}

// study counts a solver study, whose solvers cost what their passes do beside those of the control's own.
func (e *estimate) study(ctx context.Context, plain surveyed) error {
	if !e.studies() {
		return nil
	}
	study, n, kinds := e.Suite.Solver, min(e.set.Len(), e.Suite.Solver.Images), 1
	if e.StudyAttack != nil {
		kinds = 2
		if e.studied(e.Job) == nil {
			r, err := e.StudyAttack.Recipe(e.net.Classes(), e.net.Shape())
			if err != nil {
				return err
			}
			for _, a := range r.Components {
				e.fixed += plain.lasting(repeated(n, e.rehearse(ctx, a, r, e.net).Stands))
			}
		}
	}
	for _, name := range study.Controls {
		c := e.cfg.Control(name)
		loop, err := e.controller(ctx, e.net, c, false)
		if err != nil {
			return err
		}
		v, err := e.look(ctx, e.bench, listening(under(loop, e.net)), false, false)
		if err == nil {
			e.fixed += e.studyPasses(loop, study, v, n, kinds)
		}
		loop.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// studyPasses is the time of one control's study.
func (e *estimate) studyPasses(loop *controller, study *config.SolverStudy, v surveyed, n, kinds int) float64 {
	own, layers, seconds := loop.Solver, len(loop.places), 0.0
	cost := func(s control.Solver, steps bool) {
		with, err := loop.WithSolver(s)
		if err != nil {
			return
		}
		looks := float64(s.Outer)
		if steps {
			looks *= float64(max(s.Inner, 1) * layers)
		}
		share := (with.Passes() + 1 + 2*looks) / loop.Passes() // a look is a pass with its embeddings
		seconds += share * float64(kinds) * v.lasting(repeated(n, work{Forward: 1}))
	}
	for _, s := range sameStart(own) {
		cost(s, true)
		if with, err := loop.WithSolver(s); err == nil {
			seconds += float64(1+min(n, timedImages)) * v.forward.at(1) * with.Passes() / loop.Passes()
		}
	}
	for _, o := range variants(own, study) {
		if o.solver != own {
			cost(o.solver, o.why == result.DefaultRate)
		}
	}
	return seconds
}
