package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"gonum.org/v1/gonum/mat"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/models/ort"
)

// timedPasses is about how long each kind of pass of a network, alone and under each control, is timed.
const timedPasses = 400 * time.Millisecond

// surveyor measures what estimates are made of.
type surveyor struct {
	*run
	costs     *CostCache
	machine   string // what timings hold for, beside the network
	speeds    map[string]surveyed
	rehearsed map[string]rehearsal
	fitted    map[string]bool // linear embeddings whose fit is counted already
	made      map[craftKey][]outlook
	probed    map[probeKey]bool
	factors   []float64 // of a draw's rates
}

// surveyed is what is known of an oracle.
type surveyed struct {
	speed
	opening float64 // seconds until a loss's gradient is compiled
	images  []glance
	judge   *speed // of the same oracle in the judge's arithmetic, where that is another
}

// judging is how fast the judge answers.
func (s surveyed) judging() speed {
	if s.judge != nil {
		return *s.judge
	}
	return s.speed
}

// timing is what the cache keeps of an oracle.
type timing struct {
	Forward  curve   `json:"forward"`
	Gradient curve   `json:"gradient"`
	Opening  float64 `json:"opening"` // seconds until a loss's gradient is compiled
}

func (t timing) sound() bool {
	return sound(t.Forward) && sound(t.Gradient) && t.Opening >= 0 && len(t.Forward) > 0
}

// sound reports whether a curve's points rise and take time.
func sound(c curve) bool {
	for i, p := range c {
		if !(p.Seconds > 0) || p.Images < 1 || i > 0 && p.Images <= c[i-1].Images {
			return false
		}
	}
	return true
}

// asking makes one pass for the i-th image.
type asking func(ctx context.Context, i int) error

// stopwatch measures what an idle machine would take, as far as can be told while others use it too.
type stopwatch struct {
	start     time.Time
	processor float64
}

func newStopwatch() stopwatch { return stopwatch{time.Now(), processorSeconds()} }

// read gives the time passed and the processor time taken.
func (w stopwatch) read() (wall, processor float64) {
	return time.Since(w.start).Seconds(), processorSeconds() - w.processor
}

// idle is the time that work takes on a machine which does nothing else: it lies between that of all cores at work
// and that of one.
func (s *surveyor) idle(wall, processor float64) float64 {
	if s.pool.OnDevice() || processor <= 0 {
		return wall
	}
	return max(min(wall, processor), processor/float64(s.cores()))
}

// timed measures rounds of 1, 4, 16, … and width images, as a run has them under way, as long as the time
// allows; one round at least. Of several measurements the shortest counts: what is longer is somebody else's.
func (s *surveyor) timed(ctx context.Context, width int, state int64, do asking) (curve, error) {
	const measurements = 5
	round := func(n, rounds int) (float64, error) {
		watch := newStopwatch()
		err := s.forEach(ctx, n, state, func(ctx context.Context, i int) error {
			for range rounds {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
		wall, processor := watch.read()
		return s.idle(wall, processor) / float64(rounds), err
	}
	var sizes []int
	for n := 1; n < width; n *= 4 {
		sizes = append(sizes, n)
	}
	sizes = append(sizes, width)
	var c curve
	left, share := timedPasses.Seconds(), timedPasses.Seconds()/float64(len(sizes))
	for i, n := range sizes {
		if i > 1 && c.at(n) > left {
			break
		}
		best, err := round(n, 1) // makes room for a batch of this size, which takes longer
		if err != nil {
			return nil, err
		}
		rounds, spent := max(1, int(share/measurements/best)), best
		for again := false; !again || spent < share && c.at(n) < left; again = true {
			t, err := round(n, rounds)
			if err != nil {
				return nil, err
			}
			best, spent = min(best, t), spent+t*float64(rounds)
		}
		left -= spent
		if i > 0 {
			best = max(best, c[i-1].Seconds)
		}
		c = append(c, point{n, best})
	}
	return c, nil
}

// look measures an oracle: how fast it answers, and how far images are from its boundary.
func (s *surveyor) look(ctx context.Context, b *bench, on *oracle, climbs, sampled bool) (surveyed, error) {
	key := s.oracleKey(b, on, climbs)
	if known, ok := s.speeds[key]; ok {
		return known, nil
	}
	width := widthOf(s.pool, on.state)
	t, err := recalled(s.costs, "timing/1 "+key+s.machine, timing.sound, func() (t timing, err error) {
		answers := make([][]float32, width)
		for i := range answers {
			answers[i] = make([]float32, on.Classes())
		}
		images := make([]attacks.Image, width)
		for i := range images {
			if images[i], err = b.set.image(i % b.set.Len()); err != nil {
				return t, err
			}
		}
		t.Forward, err = s.timed(ctx, width, on.of.state(), func(ctx context.Context, i int) error {
			return on.Logits(ctx, images[i].Pixels, answers[i])
		})
		if err != nil || !climbs {
			return t, err
		}
		watch := newStopwatch()
		if err := on.prepare(attacks.Margin); err != nil {
			return t, err
		}
		t.Opening = s.idle(watch.read())
		evaluations := make([]attacks.Evaluation, width)
		t.Gradient, err = s.timed(ctx, width, on.state, func(ctx context.Context, i int) error {
			return on.Gradient(ctx, images[i].Pixels, attacks.Margin, images[i].Label, -1, &evaluations[i])
		})
		return t, err
	})
	if err != nil {
		return surveyed{}, err
	}
	known := surveyed{speed: speed{t.Forward, t.Gradient, width, s.cores()}, opening: t.Opening}
	if sampled {
		known.images, err = s.glances(ctx, b, on, known.speed, key)
	}
	if err == nil && on.exact != nil {
		var exact surveyed
		if exact, err = s.look(ctx, b, on.exact, climbs, false); err == nil {
			known.judge = &exact.speed
		}
	}
	if err != nil {
		return surveyed{}, err
	}
	s.speeds[key] = known
	return known, nil
}

// cores is how many cores a run computes on.
func (o *opener) cores() int {
	if o.pool.OnDevice() {
		return runtime.GOMAXPROCS(0)
	}
	return max(1, min(runtime.GOMAXPROCS(0), o.pool.Workers()*o.pool.Threads()))
}

// oracleKey says what an oracle's answers depend on.
func (s *surveyor) oracleKey(b *bench, on *oracle, climbs bool) string {
	key := fmt.Sprintf("%s %v", b.net.ID, climbs)
	if on.exact != nil {
		key = fmt.Sprintf("%s %v", b.attacked.ID, climbs)
	}
	if on.of.loop != nil {
		known, _ := json.Marshal(s.record.Controls[on.of.loop.Name])
		key += fmt.Sprintf(" %s %s seed %d", b.Suite.Mode, known, s.cfg.Seed)
	}
	return key
}

// machineKey says what timings depend on beside the network.
func (o *opener) machineKey() string {
	return fmt.Sprintf(" on %s, %d of %d cores, %s/%s, ONNX Runtime %s, %s, batch %d, %d workers of %d threads, "+
		"winograd %v", cpuName(), runtime.GOMAXPROCS(0), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, ort.Version(),
		o.pool.Provider()+" "+o.pool.Precision(), o.pool.Batch(), o.pool.Workers(), o.pool.Threads(),
		o.cfg.Runtime.Winograd)
}

// rehearse is a component's rehearsal, made once.
func (s *surveyor) rehearse(ctx context.Context, a attacks.Attack, r attacks.Recipe, net *control.Network) rehearsal {
	key := fmt.Sprintf("rehearsal/2 %#v %v %d", a, net.Shape(), net.Classes()) + s.machine
	if known, ok := s.rehearsed[key]; ok {
		return known
	}
	sound := func(r rehearsal) bool { return r.Stands.passes() > 0 && r.Falls.passes() > 0 && r.Early.passes() > 0 }
	known, _ := recalled(s.costs, key, sound, func() (rehearsal, error) {
		return rehearse(ctx, a, r.Norm, r.Epsilon, net.Shape(), net.Classes()), nil
	})
	s.rehearsed[key] = known
	return known
}

// ready reports whether the cache has the fits of a control's linear embeddings, and about how long those
// take that it lacks.
func (s *surveyor) ready(ctx context.Context, net *control.Network, c *config.Control, v speed) (seconds float64,
	err error) {
	layers, err := cut(net, c)
	if err != nil {
		return 0, err
	}
	for _, l := range layers {
		if l.Embedding.Kind != control.Linear {
			continue
		}
		d, err := s.fitSet(l)
		if err != nil {
			return 0, err
		}
		key, dim := s.fitKey(l, d), int(l.state().Items())
		if _, ok := s.cache.Load(key, dim); ok || s.fitted[key] {
			continue
		}
		s.fitted[key] = true
		took, err := s.fitSeconds(ctx, l, d, key, v)
		if err != nil {
			return 0, err
		}
		seconds += took
	}
	return seconds, nil
}

// fitSeconds is about how long a linear embedding's fit takes: walks over the clean states, and what is computed
// of these, most of it on one core.
func (s *surveyor) fitSeconds(ctx context.Context, l placed, d *dataset.Dataset, key string, v speed) (float64, error) {
	dim, passes := int(l.state().Items()), 0.0
	if l.t > 0 {
		passes = 1
	}
	sound := func(w pca.Work) bool { return w.Walks > 0 && w.Flops > 0 }
	w, err := recalled(s.costs, "fit/1 "+key, sound, func() (pca.Work, error) {
		sample := affordable(min(d.Len(), pca.ChunkRows(dim)), func(n int) float64 { return passes * v.round(n, 0) })
		return pca.Expect(ctx, dim, d.Len(), l.chain.CleanStates(l.t, sample, d.Pixels), l.target())
	})
	if err != nil {
		return 0, err
	}
	flops, err := s.gonum()
	return passes*float64(w.Walks)*v.lasting(repeated(d.Len(), work{Forward: 1})) +
		(w.Flops/float64(s.cores())+w.Serial)/flops, err
}

// gonum is how many floating-point operations its products of matrices make in a second of one core.
func (s *surveyor) gonum() (float64, error) {
	const n = 384
	positive := func(v float64) bool { return v > 0 }
	return recalled(s.costs, "gonum/1"+s.machine, positive, func() (float64, error) {
		a, b := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
		a.Apply(func(_, _ int, _ float64) float64 { return 1 }, a) // zeros are passed over
		watch, products := newStopwatch(), 0.0
		for {
			b.Mul(a, a)
			products++
			if wall, processor := watch.read(); wall > timedLooks.Seconds() {
				return products * 2 * n * n * n / cmp.Or(processor, wall), nil
			}
		}
	})
}

// report is about how long it takes to write results, tables, figures and pages, and the theory's where they are
// asked for. Measured on reports of 2 to 48 cells and 36 to 80,000 records.
func (s *surveyor) report() float64 {
	const suite, cell, record, theory = 0.1, 0.035, 18e-6, 6.4 // seconds of each
	seconds := suite * float64(len(s.cfg.Suites))
	for _, j := range s.plan.Jobs {
		cells := float64(1+len(j.Suite.Controls)) * float64(1+len(j.Attacks))
		seconds += cells * (cell + record*float64(s.record.Datasets[j.Suite.Dataset].N))
	}
	if s.cfg.Theory {
		seconds += theory
	}
	return seconds
}
