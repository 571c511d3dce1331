package harness

import (
	"context"
	"fmt"
	"slices"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// timedImages is how many images at most the time of an answer is measured on, one at a
// time.
const timedImages = 10

// studies reports whether a job's model is studied.
func (j Job) studies() bool {
	return j.Suite.Solver != nil && slices.Contains(j.Suite.Solver.Models, j.Model.Name)
}

// sample is what a study looks at: the images of one kind.
type sample struct {
	kind string
	made *crafted
}

// image is the sample's i-th image of a set.
func (s sample) image(set images, i int) (im attacks.Image, x []float32, err error) {
	if im, err = set.image(i); err == nil {
		x, err = s.made.image(im, i)
	}
	return im, x, err
}

// checkStudy closes the loops of a job's study and sees whether its attack can be made.
func (r *run) checkStudy(ctx context.Context, j Job, net *control.Network) error {
	if !j.studies() {
		return nil
	}
	if a := j.StudyAttack; a != nil {
		if _, err := recipeFor(*a, net); err != nil {
			return err
		}
	}
	for _, name := range j.Suite.Solver.Controls {
		c, err := r.controller(ctx, net, r.cfg.Control(name), false)
		if err != nil {
			return err
		}
		c.Close()
	}
	return nil
}

// studied is the use of what a job's study needs, where all images of it are made at full
// strength for others; else nil.
func (r *run) studied(j Job) *use {
	if !j.studies() || j.StudyAttack == nil || r.shard.N > 0 { // a shard has made a part of them
		return nil
	}
	if u := r.uses[j.key(*j.StudyAttack, config.None, r.cfg.Seed)]; u != nil && u.images {
		return u
	}
	return nil
}

// study makes the solver study of a job's model: a result for each control, which is
// written when it is whole.
func (r *run) study(ctx context.Context, b *bench) error {
	if !b.studies() || !b.set.tail() {
		return nil
	}
	set := b.set.first(b.Suite.Solver.Images)
	base := result.SolverStudy{Suite: b.Suite.Name, Dataset: b.Suite.Dataset, Model: b.Model.Name, N: set.Len(),
		Defaults: settings(config.DefaultSolver())}
	var samples []sample
	add := func(kind string, made *crafted) ([]verdict, error) {
		key := fmt.Sprintf("study %q %q %s", b.Suite.Name, b.Model.Name, kind)
		got, err := r.judge(ctx, key, b.classifiers[0], set, made, nil, false)
		_, right := bits(got.verdicts)
		samples = append(samples, sample{kind, made})
		base.Baseline = append(base.Baseline, score(kind, right, set.Len()))
		return got.verdicts, err
	}
	clean, err := add(result.CleanImages, untouched())
	if err != nil {
		return err
	}
	var own *crafted // for the study alone
	if a := b.StudyAttack; a != nil {
		made, recipe, shared, err := r.studyImages(ctx, b, set, clean)
		if err == nil {
			_, err = add(result.AdversarialImages, made)
		}
		if !shared {
			own = made
		}
		if err != nil {
			return fmt.Errorf("suite %s, solver study of model %s: %w", b.Suite.Name, b.Model.Name, err)
		}
		base.Attack, base.Norm, base.Epsilon, base.Recipe = a.Name, a.Norm.String(), &a.Epsilon, recipe.Name
	}
	for _, name := range b.Suite.Solver.Controls {
		study := base
		study.Control = name
		if err := r.studyControl(ctx, b, set, samples, &study); err != nil {
			return fmt.Errorf("suite %s, solver study of control %s on model %s: %w", b.Suite.Name, name, b.Model.Name,
				err)
		}
		if r.shard.N > 0 { // results are the merge's
			continue
		}
		r.record.Solver = append(r.record.Solver, study)
		if err := r.out.cell(r.record, nil); err != nil {
			return err
		}
	}
	if own != nil {
		return r.free(studyKey(b.Job), own.images)
	}
	return nil
}

// studyKey is that of images which are made for a study alone.
func studyKey(j Job) string { return fmt.Sprintf("study %q %q", j.Suite.Name, j.Model.Name) }

func score(kind string, right, n int) result.Score {
	return result.Score{Images: kind, Correct: right, Accuracy: float64(right) / float64(n)}
}

// studyImages are the study's adversarial images: the first of those that the run has made
// for every image, which are shared, else made for these images alone. They are the same.
func (r *run) studyImages(ctx context.Context, b *bench, set images, clean []verdict) (made *crafted,
	recipe attacks.Recipe, shared bool, err error) {
	a := *b.StudyAttack
	if recipe, err = a.Recipe(b.classifiers[0].Classes, b.classifiers[0].Shape); err != nil {
		return nil, recipe, false, err
	}
	if u := r.studied(b.Job); u != nil && u.made != nil {
		first := *u.made
		first.each = first.each[:set.Len()]
		return &first, recipe, true, nil
	}
	on, err := r.oracle(b, b.classifiers[0])
	if err != nil {
		return nil, recipe, false, err
	}
	made, err = r.craft(ctx, on, order{recipe: recipe, seed: r.cfg.Seed, set: set, clean: clean,
		cell: identity(scoring{bench: b, who: on.of, attack: &a}.cell()), key: studyKey(b.Job),
		label: fmt.Sprintf("solver study, %s, %s", b.Model.Name, a.Name)})
	return made, recipe, false, err
}

// student makes the study of one control.
type student struct {
	*run
	model   string
	net     *control.Network
	loop    *controller
	set     images
	samples []sample
	control string
	key     string // in the journal
	done    int    // solvers tried
	planned int
	seconds float64
}

func (r *run) studyControl(ctx context.Context, b *bench, set images, samples []sample,
	study *result.SolverStudy) error {
	var loop *controller // nil in a merge
	var err error
	if !r.merging {
		if loop, err = r.controller(ctx, b.net, r.cfg.Control(study.Control), true); err != nil {
			return err
		}
		defer loop.Close()
	}
	own := r.cfg.Control(study.Control).Solver
	methods, others := sameStart(own), variants(own, b.Suite.Solver)
	s := &student{run: r, model: b.Model.Name, net: b.net, loop: loop, set: set, samples: samples,
		planned: len(methods) + len(others), control: study.Control,
		key: fmt.Sprintf("study %q %q %q", b.Suite.Name, b.Model.Name, study.Control)}
	study.Solver = settings(own)
	var mine result.SolverRun
	for _, m := range methods {
		curves, run, err := s.follow(ctx, m, control.EachStep)
		if err != nil {
			return err
		}
		study.Curves = append(study.Curves, curves...)
		if m == own {
			mine = run
		}
	}
	mine.Why, mine.Own = result.OwnSolver, true
	study.Runs = append(study.Runs, mine)
	for _, v := range others {
		run := mine
		switch {
		case v.solver == own:
			s.say(run)
		case v.why == result.DefaultRate:
			var curves []result.SolverCurve
			if curves, run, err = s.follow(ctx, v.solver, control.EachStep); err != nil {
				return err
			}
			for i := range curves {
				curves[i].Default = true
			}
			study.Curves = append(study.Curves, curves...)
		default:
			if _, run, err = s.follow(ctx, v.solver, control.EachSweep); err != nil {
				return err
			}
		}
		run.Why, run.Value, run.Own = v.why, v.value, v.solver == own
		study.Runs = append(study.Runs, run)
	}
	costs, err := once(s.run, s.key+" costs", func() (timed[[]result.SolverCost], error) {
		return clocked(func() ([]result.SolverCost, error) { return s.costs(ctx, methods) })
	})
	study.Costs, study.Seconds = costs.Value, s.seconds+costs.Seconds
	return err
}

// say tells how a solver did.
func (s *student) say(run result.SolverRun) {
	s.done++
	e := solverStudied{Model: s.model, Control: s.control, Study: s.done, Studies: s.planned,
		SolverSettings: run.Settings, Passes: run.Passes}
	for _, o := range run.Outcomes {
		e.Outcomes = append(e.Outcomes, studyOutcome{o.Images, o.Sweeps[0].Objective, o.Final().Objective, o.Accuracy})
	}
	s.progress.report(e)
}

func describeSolver(s result.SolverSettings) string {
	if s.Method == string(control.Greedy) {
		return s.Method
	}
	return fmt.Sprintf("%s %d × %d, c %g, rate %g, momentum %g", s.Method, s.Outer, s.Inner, s.Regularization,
		s.LearningRate, s.Momentum)
}

// answer is how a classifier gives its logits.
type answer func(ctx context.Context, x, logits []float32) error

// costs measures what an answer costs, of the network alone and under every solver.
func (s *student) costs(ctx context.Context, methods []control.Solver) ([]result.SolverCost, error) {
	var all []result.SolverCost
	var clean [][]float32
	for i := range min(s.set.Len(), timedImages) {
		im, err := s.set.image(i)
		if err != nil {
			return nil, err
		}
		clean = append(clean, im.Pixels)
	}
	add := func(method string, passes float64, of answer) error {
		ms, err := medianTime(ctx, clean, s.net.Classes(), of)
		all = append(all, result.SolverCost{Method: method, Passes: passes, Milliseconds: ms, Images: len(clean)})
		return err
	}
	if err := add(config.None, 1, s.net.Logits); err != nil {
		return nil, err
	}
	for _, m := range methods {
		loop, err := s.loop.WithSolver(m)
		if err == nil {
			err = add(m.Method.String(), loop.Passes(), loop.Logits)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// medianTime asks about one image after the other, about the first one once before that
// counts, and returns the median time of an answer in milliseconds.
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
	times = slices.Sorted(slices.Values(times[1:]))
	n := len(times)
	return (times[n/2] + times[(n-1)/2]) / 2, nil
}
