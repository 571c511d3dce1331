package run

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/journal"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// timedImages bounds the images that an answer is timed on, one at a time.
const timedImages = 10

type sample struct {
	kind string
	made *crafted
}

type study struct {
	*walk
	job     *open.Job
	base    result.SolverStudy // the fields that all controls' studies share
	set     open.Images
	samples []sample
	own     *journal.Vectors // images that are made for the study alone
}

// study makes the solver study of the present job's model: a result for each control, written when it is complete.
func (w *walk) study() error {
	b := w.at.Job
	if !b.Studies() || !b.Set.First() {
		return nil
	}
	s := &study{walk: w, job: b, set: b.Set.Head(b.Suite.Solver.Images)}
	s.base = result.SolverStudy{N: s.set.Len(),
		Job:      cell.Job{Suite: b.Suite.Name, Dataset: b.Suite.Dataset, Model: b.Model.Name},
		Defaults: settings(config.DefaultSolver())}
	clean, err := s.add(result.CleanImages, &crafted{})
	if err != nil {
		return err
	}
	if b.Studied != nil {
		if err := s.attack(clean); err != nil {
			return fmt.Errorf("suite %s, solver study of model %s: %w", b.Suite.Name, b.Model.Name, err)
		}
	}
	for _, name := range b.Suite.Solver.Controls {
		made, err := s.control(name)
		if err != nil {
			return fmt.Errorf("suite %s, solver study of control %s on model %s: %w", b.Suite.Name, name, b.Model.Name,
				err)
		}
		if err := w.cells.addStudy(made); err != nil {
			return err
		}
	}
	return w.images.free(studyKey(b.Job), s.own)
}

func (s *study) add(kind string, made *crafted) ([]judge.Verdict, error) {
	key := studyKey(s.job.Job)
	key.Part = kind
	got, err := s.verdicts(s.job, key, s.job.Classifiers[0], s.set, made, nil, false)
	_, right := bits(got.verdicts)
	s.samples = append(s.samples, sample{kind, made})
	s.base.Baseline = append(s.base.Baseline, score(kind, right, s.set.Len()))
	return got.verdicts, err
}

// attack adds the adversarial images: the first of those that the run has made for every image, if they are shared,
// or else images made for the study alone, which are the same.
func (s *study) attack(clean []judge.Verdict) error {
	b := s.job
	t, who := b.Studied, b.Classifiers[0]
	recipe, err := t.Recipe(who.Classes, who.Shape)
	if err != nil {
		return err
	}
	var made *crafted
	if u := s.images.studied(b.Job); u != nil && u.made != nil {
		first := *u.made
		first.each = first.each[:s.set.Len()]
		made = &first
	} else {
		on, err := s.source.Oracle(b, who, result.Whitebox)
		if err != nil {
			return err
		}
		defer on.Close()
		id := b.Cell(cell.None)
		id.Column = plan.ColumnOf(t, "")
		made, err = s.craft(b, on, nil, order{recipe: recipe, seed: s.plan.Config.Seed, set: s.set, clean: clean,
			cell: id, key: studyKey(b.Job), label: fmt.Sprintf("solver study, %s, %s", b.Model.Name, t.Name())})
		if err != nil {
			return err
		}
		s.own = made.vectors
	}
	s.base.Attack, s.base.Recipe, s.base.Norm = t.Name(), recipe.Name, t.Setting().Norm.String()
	s.base.Epsilon = t.Epsilon()
	_, err = s.add(result.AdversarialImages, made)
	return err
}

func (c *cells) addStudy(s result.SolverStudy) error {
	if c == nil {
		return nil
	}
	c.record.Solver = append(c.record.Solver, s)
	return c.out.Cell(c.record, nil)
}

func score(kind string, right, n int) result.Score {
	return result.Score{Images: kind, Correct: right, Accuracy: float64(right) / float64(n)}
}

type solverStudy struct {
	*study
	loop    func() (*open.Controller, error) // opens it if the journal lacks a result
	name    string
	key     folder.Key
	done    int // number of solvers tried
	planned int
	seconds float64
}

func (s *study) control(name string) (made result.SolverStudy, err error) {
	var opened *open.Controller
	defer func() {
		if opened != nil {
			opened.Close()
		}
	}()
	around := s.plan.Config.Control(name)
	own := around.Solver
	methods, others := sameStart(own), variants(own, s.job.Suite.Solver)
	one := &solverStudy{study: s, name: name, planned: len(methods) + len(others),
		key: studyKey(s.job.Job).As("solver of study"),
		loop: func() (_ *open.Controller, err error) {
			if opened == nil {
				opened, err = s.job.Controller(s.ctx, name, true)
			}
			return opened, err
		}}
	one.key.Part = name
	made = s.base
	made.Control, made.Solver = name, settings(own)
	var mine result.SolverRun
	for _, m := range methods {
		curves, run, err := one.follow(m, control.EachStep)
		if err != nil {
			return made, err
		}
		made.Curves = append(made.Curves, curves...)
		if m == own {
			mine = run
		}
	}
	mine.Why, mine.Own = result.OwnSolver, true
	made.Runs = append(made.Runs, mine)
	for _, v := range others {
		run := mine
		switch {
		case v.solver == own:
			one.say(run)
		case v.why == result.DefaultRate:
			var curves []result.SolverCurve
			if curves, run, err = one.follow(v.solver, control.EachStep); err != nil {
				return made, err
			}
			for i := range curves {
				curves[i].Default = true
			}
			made.Curves = append(made.Curves, curves...)
		default:
			if _, run, err = one.follow(v.solver, control.EachSweep); err != nil {
				return made, err
			}
		}
		run.Why, run.Value, run.Own = v.why, v.value, v.solver == own
		made.Runs = append(made.Runs, run)
	}
	costs, err := folder.OnceTimed(s.journal, one.key.As("costs of study"), func() ([]result.SolverCost, error) {
		return one.costs(methods)
	})
	made.Costs, made.Seconds = costs.Value, one.seconds+costs.Seconds
	return made, err
}

func (s *solverStudy) say(run result.SolverRun) {
	s.done++
	e := progress.SolverStudied{Model: s.job.Model.Name, Control: s.name, Study: s.done, Studies: s.planned,
		SolverSettings: run.Settings, Passes: run.Passes}
	for _, o := range run.Outcomes {
		e.Outcomes = append(e.Outcomes, progress.StudyOutcome{Images: o.Images,
			Before: o.Sweeps[0].Objective, After: o.Final().Objective, Accuracy: o.Accuracy})
	}
	s.progress.Report(e)
}

type answer func(ctx context.Context, x, logits []float32) error

// costs measures the cost of an answer, of the undefended network and under every solver.
func (s *solverStudy) costs(methods []control.Solver) ([]result.SolverCost, error) {
	own, err := s.loop()
	if err != nil {
		return nil, err
	}
	var all []result.SolverCost
	var clean [][]float32
	ctx := s.ctx
	for i := range min(s.set.Len(), timedImages) {
		im, err := s.set.Read(i)
		if err != nil {
			return nil, err
		}
		clean, ctx = append(clean, im.Pixels), attacks.About(ctx, im) // any truth will do for the time
	}
	add := func(method string, passes float64, of answer) error {
		ms, err := medianTime(ctx, clean, s.job.Net.Classes(), of)
		all = append(all, result.SolverCost{Method: method, Passes: passes, Milliseconds: ms, Images: len(clean)})
		return err
	}
	if err := add(cell.None, 1, s.job.Net.Logits); err != nil {
		return nil, err
	}
	for _, m := range methods {
		loop, err := own.WithSolver(m)
		if err == nil {
			err = add(m.Method.String(), loop.Passes(), loop.Logits)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// medianTime returns the median time of an answer in milliseconds, for one image after the other. It does not count a
// first answer.
func medianTime(ctx context.Context, images [][]float32, classes int, of answer) (float64, error) {
	out := make([]float32, classes)
	times := make([]float64, 1+len(images))
	for i := range times {
		start := time.Now()
		if err := of(ctx, images[max(i-1, 0)], out); err != nil {
			return 0, err
		}
		times[i] = float64(time.Since(start)) / float64(time.Millisecond)
	}
	return lists.Median(times[1:]), nil
}

type reading struct {
	objective     float64
	right, finite bool
}

// followed holds a solver's curves and outcomes on every image of every kind.
type followed struct {
	Curves []result.SolverCurve
	Run    result.SolverRun
}

// follow traces a solver on every image of every kind. It returns its curves, with a point for each reading, and its
// outcomes.
func (s *solverStudy) follow(with control.Solver, d control.Detail) ([]result.SolverCurve, result.SolverRun, error) {
	key := s.key
	key.Solver, key.Number = new(settings(with)), int(d)
	got, err := folder.OnceTimed(s.journal, key, func() (f followed, err error) {
		own, err := s.loop()
		if err != nil {
			return f, err
		}
		loop, err := own.WithSolver(with)
		if err != nil {
			return f, err
		}
		f.Run = result.SolverRun{Settings: settings(with), Passes: loop.Passes()}
		for _, sample := range s.samples {
			at, readings, err := s.trace(loop, 2*own.State, sample, d) // a point needs as much memory again as the loop
			if err != nil {
				return f, err
			}
			f.Curves = append(f.Curves, result.SolverCurve{Images: sample.kind, Settings: f.Run.Settings,
				Points: points(at, readings)})
			f.Run.Outcomes = append(f.Run.Outcomes, outcome(sample.kind, at, readings))
		}
		return f, nil
	})
	if err == nil {
		s.seconds += got.Seconds
		s.say(got.Value.Run)
	}
	return got.Value.Curves, got.Value.Run, err
}

// trace follows a loop on images, each of which keeps so much state, in bytes. It returns the points, which differ
// between images only in the numbers read there, and the readings by image and point.
func (s *solverStudy) trace(loop *control.Controller, state int64, of sample, d control.Detail) ([]control.Point,
	[][]reading, error) {
	var at []control.Point
	readings := make([][]reading, s.set.Len())
	err := s.job.ForEach(s.ctx, len(readings), state, func(ctx context.Context, i int) error {
		im, x, err := of.made.read(s.set, i)
		if err != nil {
			return err
		}
		return loop.Trace(attacks.About(ctx, im), x, d, func(p control.Point) error {
			v, finite := judge.Decide(p.Logits, im.Label)
			finite = finite && number.Finite(p.Objective)
			readings[i] = append(readings[i], reading{p.Objective, finite && v.Right, finite})
			if i == 0 {
				p.Controls, p.Logits = nil, nil // only numbers are kept
				at = append(at, p)
			}
			return nil
		})
	})
	return at, readings, err
}

func points(at []control.Point, readings [][]reading) []result.SolverPoint {
	out := make([]result.SolverPoint, len(at))
	for k, p := range at {
		right := lists.Count(readings, func(image []reading) bool { return image[k].right })
		out[k] = result.SolverPoint{Sweep: p.Sweep, Layer: p.Layer, Step: p.Step, Done: p.Done, Passes: p.Passes,
			Mean: meanObjective(readings, k), Correct: right, Accuracy: float64(right) / float64(len(readings))}
	}
	return out
}

// meanObjective returns the mean of the objective at a point, with its standard error.
func meanObjective(readings [][]reading, k int) result.Mean {
	n, sum, squares := float64(len(readings)), 0.0, 0.0
	for _, image := range readings {
		if !image[k].finite {
			return result.Mean{}
		}
		sum += image[k].objective
	}
	m := sum / n
	for _, image := range readings {
		squares += (image[k].objective - m) * (image[k].objective - m)
	}
	e := 0.0
	if n > 1 {
		e = math.Sqrt(squares / (n - 1) / n)
	}
	if !number.Finite(m, e) { // the sums overflow
		return result.Mean{}
	}
	return result.Mean{Objective: &m, StandardError: e}
}

// rounding is the relative rise of an image's objective that float32 states can't avoid.
const rounding = 1e-6

func outcome(kind string, at []control.Point, readings [][]reading) result.SolverOutcome {
	var o result.SolverOutcome
	var sweeps []int // the points at which a sweep is complete
	for k, p := range at {
		if p.Done {
			sweeps = append(sweeps, k)
			o.Sweeps = append(o.Sweeps, meanObjective(readings, k))
		}
	}
	last := len(at) - 1
	share := func(holds func(image []reading) bool) float64 {
		return float64(lists.Count(readings, holds)) / float64(len(readings))
	}
	o.BelowGreedy = share(func(image []reading) bool {
		return image[last].finite && image[last].objective < image[0].objective
	})
	o.NonIncreasing = share(func(image []reading) bool {
		falls := image[0].finite
		for i, k := range sweeps[1:] {
			falls = falls && image[k].finite && image[k].objective <= image[sweeps[i]].objective*(1+rounding)
		}
		return falls
	})
	o.NotFinite = share(func(image []reading) bool { return !image[last].finite })
	o.Score = score(kind, lists.Count(readings, func(image []reading) bool { return image[last].right }), len(readings))
	return o
}

func settings(s control.Solver) result.SolverSettings {
	if s.Method == control.PMP {
		s.Inner = 1
	}
	return result.SolverSettings{Method: s.Method.String(), Outer: s.Outer, Inner: s.Inner,
		Regularization: s.Regularization, LearningRate: s.LearningRate, Momentum: s.Momentum}
}

// sameStart returns greedy control, msa and pmp with the settings of a solver, which is one of them. All begin at the
// same greedy controls. msa makes as many ascent steps a layer as pmp, which makes a sweep for each of msa's outer ×
// inner steps. If own is a pmp, msa makes the default number of inner steps and at least as many steps in all.
func sameStart(own control.Solver) []control.Solver {
	msa, pmp := own, own
	switch own.Method {
	case control.MSA:
		pmp.Method, pmp.Outer, pmp.Inner = control.PMP, own.Outer*own.Inner, 0
	case control.PMP:
		inner := min(config.DefaultSolver().Inner, own.Outer)
		msa.Method, msa.Outer, msa.Inner = control.MSA, (own.Outer+inner-1)/inner, inner
	}
	return []control.Solver{{Method: control.Greedy, Regularization: own.Regularization}, msa, pmp}
}

type variant struct {
	why    string
	value  float64
	solver control.Solver
}

// variants returns a control's own solver, the same with the default rate and momentum, unless it has them, and the
// same with one setting changed at a time, to each value that the study names or its own.
func variants(own control.Solver, study *config.SolverStudy) []variant {
	var all []variant
	usual := config.DefaultSolver()
	if own.LearningRate != usual.LearningRate || own.Momentum != usual.Momentum {
		v := variant{why: result.DefaultRate, solver: own}
		v.solver.LearningRate, v.solver.Momentum = usual.LearningRate, usual.Momentum
		all = append(all, v)
	}
	inner := study.Inner
	if own.Method != control.MSA {
		inner = nil
	}
	return slices.Concat(all,
		tried(result.SetRegularization, own, study.Regularization,
			func(s *control.Solver) *float64 { return &s.Regularization }),
		tried(result.SetOuter, own, study.Outer, func(s *control.Solver) *int { return &s.Outer }),
		tried(result.SetInner, own, inner, func(s *control.Solver) *int { return &s.Inner }),
		tried(result.SetLearningRate, own, study.LearningRate,
			func(s *control.Solver) *float64 { return &s.LearningRate }),
		tried(result.SetMomentum, own, study.Momentum, func(s *control.Solver) *float64 { return &s.Momentum }))
}

// tried returns a solver's variants with values of one setting, its own among them.
func tried[T int | float64](why string, own control.Solver, values []T, of func(*control.Solver) *T) (all []variant) {
	if len(values) == 0 {
		return nil
	}
	values = append([]T{*of(&own)}, values...)
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		s := own
		*of(&s) = v
		all = append(all, variant{why, float64(v), s})
	}
	return all
}
