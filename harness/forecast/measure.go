package forecast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/cell"
	"selfheal/harness/certify"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/planted"
	"selfheal/harness/run"
	"selfheal/harness/stats"
)

// A run's time depends on which images an attack breaks, and when. A pilot tells: a few steps of a strong attack on
// some images. A broken image costs a verdict as much as it costs the pilot; one that stands is attacked by every
// component. Passes are measured in rounds of as many images as the run works on at once.

// Span is a time in seconds, and the bounds between which it lies.
type Span struct{ Low, Likely, High float64 }

func exactly(seconds float64) Span { return Span{seconds, seconds, seconds} }

// between returns the span of a time of which the bounds alone are known.
func between(low, high float64) Span {
	if low == 0 {
		return Span{0, high / 2, high}
	}
	return Span{low, math.Sqrt(low * high), high}
}

func (s *Span) add(o Span) {
	s.Low, s.Likely, s.High = s.Low+o.Low, s.Likely+o.Likely, s.High+o.High
}

// shared is the factor by which a machine's other work, and what is not counted, may make a run slower.
const shared = 1.5

// String writes "about 8 s, within a factor of 3".
func (s Span) String() string {
	factor := shared
	if s.Low > 0 {
		factor *= max(s.High/s.Likely, s.Likely/s.Low)
	}
	return "about " + Duration(s.Likely) + ", within a factor of " + in(factor, unit{seconds: 1})
}

// Times are the times of a plan's jobs on this machine.
type Times struct{ jobs map[*plan.Job]jobTime }

type jobTime struct {
	Span
	why    string // why it is unknown; "" if it is known
	looked int    // number of images that the network was asked about
	right  int    // number of those that it gets right
	pilots []*pilot
}

// Measurable reports whether all files of at least one job are there.
func Measurable(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Jobs, func(j *plan.Job) bool { return p.Lacks(j) == "" })
}

// Measure opens the networks of a plan's jobs whose files are there and times their passes, undefended and under each
// control, for about a second each. It leaves out fits that are not in the cache, and solver studies. A job whose
// files can't be opened has no time. begun counts the jobs so far. The error is ctx's, or that of a device that can't
// compute.
func Measure(ctx context.Context, p *plan.Plan, fits *pca.Cache, begun *atomic.Int64) (*Times, error) {
	opener, err := open.New(p.Config, open.Options{Cache: fits})
	if err != nil {
		return nil, err
	}
	defer opener.Close()
	m := &measuring{Opener: opener, ctx: ctx, plan: p, begun: begun, times: &Times{map[*plan.Job]jobTime{}},
		made:   map[cell.Made]bool{},
		images: run.Images(p)}
	err = p.Walk(m)
	m.leave()
	return m.times, err
}

// measuring is a visitor that times passes and adds them up.
type measuring struct {
	*open.Opener
	ctx    context.Context
	plan   *plan.Plan
	begun  *atomic.Int64
	times  *Times
	made   map[cell.Made]bool
	images map[cell.Made]bool // made at full strength

	// The state of the present job; nil if it can't be timed.
	job    *open.Job
	speeds map[string]speed // by defense
	time   jobTime
	pilots map[string]*pilot // of the job, by their labels
}

// speed is the time that an oracle takes for one image, in seconds.
type speed struct {
	forward, gradient float64 // for a pass and a gradient
	question          float64 // passes of one question
	exact             *speed  // in the judge's arithmetic; nil if nothing is attacked
}

func (s speed) passes(forward, backward int64) float64 {
	return float64(forward-backward)*s.forward + float64(backward)*s.gradient
}

// judging returns the time of a pass by the judge.
func (s speed) judging() float64 {
	if s.exact != nil {
		s = *s.exact
	}
	return s.forward / s.question
}

// Begin opens a job and times its oracles.
func (m *measuring) Begin(j *plan.Job) error {
	m.time = jobTime{}
	m.begun.Add(1)
	if missing := m.plan.Lacks(j); missing != "" {
		m.time.why = missing + " is absent"
		return nil
	}
	if err := m.open(j); err != nil {
		return m.unknown(err)
	}
	return nil
}

// unknown notes why the present job has no time, and skips the rest of it.
func (m *measuring) unknown(err error) error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	m.leave()
	m.time.why = strings.Join(strings.Fields(err.Error()), " ")
	return nil
}

func (m *measuring) open(j *plan.Job) (err error) {
	start := time.Now()
	if m.job, err = m.Job(m.ctx, j); err != nil {
		return err
	}
	if m.job.Set.Len() == 0 {
		return errors.New("the data set has no images")
	}
	gradients := m.job.TakesGradients()
	if err := m.job.Defend(m.ctx, false); err != nil {
		return err
	}
	opening := time.Since(start).Seconds() // again for the job, unless it stays open
	m.time.add(Span{opening, 1.5 * opening, 2 * opening})
	m.speeds, m.pilots = map[string]speed{}, map[string]*pilot{}
	for _, who := range m.job.Classifiers {
		modes := j.Attackers(who.Defense())
		attacked := len(modes) > 0
		on := open.Answering(who)
		if attacked {
			if on, err = m.job.Oracle(who, modes[len(modes)-1]); err != nil { // the last is the slowest
				return err
			}
		}
		s, err := m.speed(on, gradients && attacked)
		if err == nil && attacked {
			s.exact, err = m.exactly(on, gradients && m.again())
		}
		on.Close()
		if err != nil {
			return err
		}
		m.speeds[who.Defense()] = s
	}
	return nil
}

// again reports whether standing images are attacked again in the judge's arithmetic.
func (m *measuring) again() bool { return m.Config.Runtime.Reduced() != "" }

// exactly times an oracle's questions in the judge's arithmetic.
func (m *measuring) exactly(on *open.Oracle, gradients bool) (*speed, error) {
	exact, err := on.Exactly()
	if err != nil {
		return nil, err
	}
	s, err := m.speed(exact, gradients)
	return &s, err
}

// speed times an oracle and counts how many images the undefended network gets right.
func (m *measuring) speed(on *open.Oracle, gradients bool) (s speed, err error) {
	set := m.job.Set
	s.question = float64(control.QuestionPasses(on.Of.Net.Votes()))
	width := min(m.Width(on.State), set.Len())
	images, answers := make([]attacks.Image, width), make([][]float32, width)
	for i := range images {
		answers[i] = make([]float32, on.Classes())
		if images[i], err = set.Read(i * set.Len() / width); err != nil {
			return s, err
		}
	}
	s.forward, err = m.round(width, on.Of.State(), func(ctx context.Context, i int) error {
		return on.Logits(attacks.About(ctx, images[i]), images[i].Pixels, answers[i])
	})
	if err == nil && on.Of.Control == nil {
		m.time.looked, m.time.right = width, 0
		for i, z := range answers {
			if attacks.Right(z, images[i].Label) {
				m.time.right++
			}
		}
	}
	if err != nil || !gradients {
		return s, err
	}
	evaluations := make([]attacks.Evaluation, width)
	s.gradient, err = m.round(width, on.State, func(ctx context.Context, i int) error {
		im := images[i]
		return on.Gradient(attacks.About(ctx, im), im.Pixels, attacks.CrossEntropy, im.Label, -1, &evaluations[i])
	})
	return s, err
}

// Each kind of pass is timed for so long at least, and in three rounds unless these take longer than patience.
const (
	timed    = 300 * time.Millisecond
	patience = 5 * time.Second
)

// round returns the time of a pass of one image in rounds of n. It skips the first round, which makes room for the
// batch, and takes the shortest of the others, as longer ones had to share the machine.
func (m *measuring) round(n int, state int64, do func(ctx context.Context, i int) error) (float64, error) {
	best := math.Inf(1)
	enough := func(rounds int, spent time.Duration) bool {
		return spent > timed && (rounds > 3 || rounds > 1 && spent > patience)
	}
	for began, rounds := time.Now(), 0; !enough(rounds, time.Since(began)); rounds++ {
		start := time.Now()
		if err := m.ForEach(m.ctx, n, state, do); err != nil {
			return 0, err
		}
		if rounds > 0 {
			best = min(best, time.Since(start).Seconds())
		}
	}
	return best / float64(n), nil
}

// n returns how many images a cell has, and right how many of them the network gets right without attack.
func (m *measuring) n() float64     { return float64(m.job.Set.Len()) }
func (m *measuring) right() float64 { return m.n() * float64(m.time.right) / float64(m.time.looked) }

// answers adds the answers to images. A network that draws random numbers takes a pass for each vote.
func (m *measuring) answers(g plan.Group, images float64) {
	m.passes(g, images*float64(votes(m.job.Model)))
}

func (m *measuring) passes(g plan.Group, images float64) {
	for _, defense := range g.Scored {
		m.time.add(exactly(images * m.speeds[defense].judging()))
	}
}

// Clean adds the answers to clean images and to the probes' images.
func (m *measuring) Clean(_ *plan.Job, g plan.Group) error {
	if m.job == nil {
		return nil
	}
	m.answers(g, m.n())
	for _, defense := range g.Scored {
		passes := 0.0
		if m.job.Model.Votes == 0 {
			passes = min(m.right(), float64(run.Probed(m.job.Classifier(defense)))) * run.ProbePasses
		}
		if defense == cell.None {
			passes += open.TrialPasses(m.job.Net, m.job.Set.Len())
		}
		most := passes * m.speeds[defense].judging()
		m.time.add(Span{0, most, most})
	}
	return nil
}

func (m *measuring) Try(s plan.Step) error {
	if m.job == nil {
		return nil
	}
	return s.Do(m, s)
}

// Attack adds an attack's passes, unless its images are already made, and the answers to its images.
func (m *measuring) Attack(s plan.Step) error {
	if key := s.Keys()[0]; !m.made[key] && s.From == s.Job { // another source's time is added with its job
		m.made[key] = true
		if err := m.crafting(s, m.images[key]); err != nil {
			return m.unknown(err)
		}
	}
	right := m.right()
	m.answers(s.Group, right)
	if s.First {
		for _, t := range s.Trials {
			m.passes(s.Group, right*float64(t.Samples()))
		}
	}
	return nil
}

// crafting adds the passes of a step's attack. full is set if others need its images.
func (m *measuring) crafting(s plan.Step, full bool) error {
	right, v, r, classes := m.right(), m.speeds[s.Attacked], m.job.Recipes[s.Trial], m.job.Net.Classes()
	f, b := r.Usual(s.Attacked != cell.None).Passes(classes)
	first, gradients := r.Components[0].Passes(classes)
	whole, most := v.passes(f, b), v.passes(r.Passes(classes)) // the time of an image that stands
	early := v.passes(int64(first), int64(gradients))          // and of one that the first component breaks
	verdict := r.Stored || !full && !r.Minimises
	standing, bounds := 0.5, [2]float64{0, 1} // fractions of the right images
	known := false
	if gradients > 0 && !r.Free && !r.Minimises && r.Norm != attacks.L0 {
		p, err := m.pilot(s, r, right*whole)
		if err != nil {
			return err
		}
		if known = p.right > 0; known {
			right = m.n() * float64(p.right) / float64(p.looked)
			standing, bounds = float64(p.standing)/float64(p.right), stats.Wilson(p.standing, p.right)
			if verdict {
				early = min(early, v.passes(p.broken()))
			}
		}
	} else if verdict { // a broken image costs at least one pass
		early = v.passes(1, int64(min(gradients, 1)))
	}
	at := func(standing float64) float64 {
		t := right * (standing*whole + (1-standing)*early)
		if m.again() {
			t += float64(run.Sampled(int(right*standing))) * v.exact.passes(f, b)
		}
		return t
	}
	t := Span{at(bounds[0]), at(standing), at(bounds[1])}
	if !known {
		t = between(t.Low, t.High)
	}
	t.High += right * bounds[1] * (most - whole) // if something hides the gradient
	if planted.Fits(r) {
		all := planted.Most * v.passes(planted.Passes(r, classes), 0)
		t.Likely += min(planted.Share*t.Likely, all)
		t.High += min(planted.Share*t.High, all)
	}
	if r.Norm == attacks.Linf && gradients > 0 {
		probe, err := run.Unbounded(classes)
		if err != nil {
			return err
		}
		most := float64(run.Probed(m.job.Classifier(s.Attacked)))
		each := v.passes(probe.Passes(classes))
		t.Likely += min(right*standing, most) * each
		t.High += min(right*bounds[1], most) * each
	}
	m.time.add(t)
	return nil
}

// pilot says how many images, spread over a data set, stand after some steps of Auto-PGD.
type pilot struct {
	label                   string
	looked, right, standing int
	forward, backward       int // passes on the images that it breaks
}

// broken returns the mean passes of a broken image.
func (p *pilot) broken() (forward, backward int64) {
	n := max(1, p.right-p.standing)
	return int64(math.Ceil(float64(p.forward) / float64(n))), int64(math.Ceil(float64(p.backward) / float64(n)))
}

func (p *pilot) String() string {
	return fmt.Sprintf("%d of %d (%s)", p.standing, p.right, p.label)
}

const (
	pilotSteps  = 10
	pilotImages = 8   // at least
	pilotTime   = 2.0 // seconds, of short runs; long ones have a fiftieth of their most, at most so often this:
	pilotTimes  = 15
)

// pilot attacks images of the present job for a short time, unless it has done so: as far as the attacker of a step
// knows the classifier, in the recipe's norm and epsilon. most is the most that the recipe takes, in seconds.
func (m *measuring) pilot(s plan.Step, r attacks.Recipe, most float64) (*pilot, error) {
	p := &pilot{label: fmt.Sprintf("%s %s", r.Norm, s.Epsilon())}
	target := s.Trial.Setting().Target
	if target != "" {
		p.label += ", target " + target
	}
	if s.Attacked != cell.None {
		p.label += ", " + s.Attacked + " " + s.Knows
	}
	if known := m.pilots[p.label]; known != nil {
		return known, nil
	}
	set := m.job.Set
	seconds := min(max(pilotTime, most/50), pilotTimes*pilotTime)
	p.looked = min(set.Len(), max(pilotImages, int(seconds/(pilotSteps*m.speeds[s.Attacked].gradient))))
	on, err := m.job.Oracle(m.job.Classifier(s.Attacked), s.Knows)
	if err != nil {
		return nil, err
	}
	defer on.Close()
	attack, err := attacks.Setup{Kind: "apgd-ce", Norm: r.Norm, Target: target,
		Parameters: map[string]any{"steps": pilotSteps}}.Make(r.Epsilon, on.Classes())
	if err != nil {
		return nil, err
	}
	var lock sync.Mutex
	err = m.ForEach(m.ctx, p.looked, on.State, func(ctx context.Context, i int) error {
		image, err := set.Read(i * set.Len() / p.looked)
		if err != nil {
			return err
		}
		ctx = attacks.About(ctx, image)
		z := make([]float32, on.Classes())
		if err := on.Logits(ctx, image.Pixels, z); err != nil || !attacks.Right(z, image.Label) {
			return err
		}
		found, err := attack.Components[0].Perturb(ctx, on, image, attacks.Options{VerdictOnly: true})
		lock.Lock()
		defer lock.Unlock()
		if p.right++; found.Adversarial == nil {
			p.standing++
		} else {
			p.forward, p.backward = p.forward+found.Forward, p.backward+found.Backward
		}
		return err
	})
	m.pilots[p.label], m.time.pilots = p, append(m.time.pilots, p)
	return p, err
}

// Corrupt adds the answers to a corruption's images.
func (m *measuring) Corrupt(s plan.Step, _ attacks.Corruption) error {
	m.answers(s.Group, m.n())
	return nil
}

// Certify adds a certificate's passes and its other time.
func (m *measuring) Certify(s plan.Step) error {
	p := &certify.Prover{Job: m.job, Progress: m.Progress, Seed: m.Config.Seed}
	defer p.Close()
	for i, k := range s.Keys() {
		if m.made[k] {
			continue
		}
		m.made[k] = true
		who := m.job.Classifier(s.Of(s.Group)[i])
		each, err := p.Measure(m.ctx, certify.Case{Trial: s.Trial, Recipe: m.job.Recipes[s.Trial], Who: who,
			Seed: s.Seed},
			m.speeds[who.Defense()].judging())
		if err != nil {
			return m.unknown(err)
		}
		m.time.add(between(m.n()*each[0], m.n()*each[1]))
	}
	return nil
}

func (m *measuring) End(j *plan.Job) error {
	m.times.jobs[j] = m.time
	m.leave()
	return nil
}

func (m *measuring) leave() {
	if m.job != nil {
		m.job.Close()
		m.job = nil
	}
}
