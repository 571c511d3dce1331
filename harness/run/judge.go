package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/number"
)

// verdict is the judge's word on one image.
type verdict struct {
	Class   int        `json:"class"`             // of the largest logit
	Margin  number.Any `json:"margin"`            // z_y − max other logit
	Norm    float64    `json:"norm,omitempty"`    // of the perturbation
	Pixels  int        `json:"pixels,omitempty"`  // that it changes, where the norm counts values
	Loop    *solved    `json:"loop,omitempty"`    // nil of a network alone
	Right   bool       `json:"right"`             // it is the label
	Simplex bool       `json:"simplex,omitempty"` // the answer looks like probabilities
	Logs    bool       `json:"logs,omitempty"`    // the answer looks like their logarithms
	Unit    bool       `json:"unit,omitempty"`    // the answer has length 1
	Sum     float64    `json:"sum,omitempty"`     // of an answer whose values all lie in (0,1)
	Rounds  bool       `json:"rounds,omitempty"`  // at levels of 8 bits the answer is right instead of wrong, or wrong
	Broken  bool       `json:"broken,omitempty"`  // a number that must be finite is not: see [open.NotFinite]
}

type solved struct {
	Objective float64             `json:"objective"`
	Greedy    float64             `json:"greedy"`
	Norm      float64             `json:"norm"`
	Layers    []control.LayerCost `json:"layers"`
	Sweeps    []number.Any        `json:"sweeps,omitempty"` // the objective at the greedy start and after each sweep
}

// The judge may ask a controlled classifier for more than its answer, which stays the same, to the bit.
const (
	answerOnly = iota
	withCosts  // what its loop did
	withSweeps // and that from sweep to sweep
)

// decide reads an answer, of which NaN is none that is right, and reports whether its margin is finite.
func decide(logits []float32, label int) (v verdict, finite bool) {
	v.Class = attacks.Argmax(logits)
	v.Right, v.Margin = attacks.Right(logits, label), number.Any(attacks.LogitMargin(logits, label))
	v.Simplex, v.Logs, v.Unit, v.Sum = simplex(logits), logarithms(logits), unit(logits), shares(logits)
	return v, number.Finite(float64(v.Margin))
}

// judge is the one place that decides whether a classifier is right on an image x, in a ball around the clean one. Its
// errors are a [plan.Outside] and, with the verdict all the same, an [open.NotFinite] about a loop or the clean image:
// an attack that leads to such an answer has broken the image.
func judge(ctx context.Context, c open.Classifier, im attacks.Image, x []float32, within plan.Ball, want int) (
	v verdict, err error) {
	norm, err := within.Measure(im.Pixels, x, c.Shape)
	if err != nil {
		return verdict{Norm: norm}, err
	}
	pixels := 0
	if within.Norm == attacks.L0 {
		pixels = attacks.Pixels(im.Pixels, x, c.Shape)
	}
	im.Pixels = nil // hundreds of images wait for a solver at once
	var logits []float32
	var o *control.Outcome
	switch {
	case c.Loop == nil || want == answerOnly:
		logits, err = c.Logits(ctx, x)
	case want == withSweeps && c.Loop.Solver.Iterates(): // greedy control has no sweeps
		o, err = c.Loop.RunTraced(ctx, x)
	default:
		o, err = c.Loop.Run(ctx, x)
	}
	if err != nil {
		return v, err
	}
	if o != nil {
		logits = o.Logits
	}
	v, finite := decide(logits, im.Label)
	v.Pixels = pixels
	if c.Net.Graph.Levels && within != (plan.Ball{}) {
		if logits, err = c.Logits(ctx, open.Levels(x, nil)); err != nil {
			return v, err
		}
		v.Rounds = attacks.Right(logits, im.Label) != v.Right
	}
	if v.Norm = norm; within != (plan.Ball{}) {
		finite = true
	}
	if o != nil {
		finite = finite && number.Finite(o.Objective) && number.Finite(o.Greedy) && number.Finite(o.Norm)
		v.Loop = &solved{Objective: o.Objective, Greedy: o.Greedy, Norm: o.Norm, Layers: o.Layers}
		for _, s := range o.Sweeps {
			v.Loop.Sweeps = append(v.Loop.Sweeps, number.Any(s.Objective))
		}
	}
	if !finite {
		return v, open.NotFinite{Who: c.Info, Image: im.ID}
	}
	return v, nil
}

// judge asks a classifier about the images that were made of a set, except those that the journal holds under a key.
// Clean are its verdicts on the clean images, which hold where no attack broke the image; nil where there are none. The
// first images are followed from sweep to sweep where that is asked for.
func (r *run) judge(key folder.Key, who open.Classifier, set open.Images, made *crafted, clean *judgement,
	sweeps bool) (*judgement, error) {
	out := newJudgement(set.Len(), who.Info)
	if made.proof != nil { // nothing but the proof is new
		for i := range out.verdicts {
			out.same(i, clean)
			out.verdicts[i].Right = made.proof.Right(i, set.Label(i))
		}
		return out, nil
	}
	untried := func(i int) bool { return clean != nil && made.Untried(i) }
	for i := range out.verdicts {
		if untried(i) {
			out.same(i, clean)
		}
	}
	images := set.Places(func(i int) bool { return !untried(i) })
	work, todo, err := folder.Recall(r.journal, key, set, images, func(i int, v verdict) bool {
		fits := out.fits(v)
		if fits {
			out.take(i, v)
		}
		return fits
	})
	if err != nil {
		return out, err
	}
	ask := func(ctx context.Context, im attacks.Image, i int) (v verdict, err error) {
		want := withCosts
		if sweeps && i < traced {
			want = withSweeps
		}
		x, err := made.Image(im, i)
		if err == nil {
			v, err = judge(ctx, who, im, x, made.within, want)
		}
		switch {
		case errors.As(err, new(open.NotFinite)): // of several the first counts, whichever is met first
			return verdict{Broken: true}, nil
		case errors.As(err, new(plan.Outside)):
			err = fmt.Errorf("image %d: %w", set.ID(i), err)
		}
		return v, err
	}
	err = work.Do(r.ctx, todo, r.Over(who.State()), ask)
	out.seconds = work.Seconds()
	if i := slices.IndexFunc(out.verdicts, func(v verdict) bool { return v.Broken }); i >= 0 && err == nil {
		err = open.NotFinite{Who: who.Info, Image: set.ID(i)}
	}
	return out, err
}

// traced: record the solver's sweeps for the first 8 images of each cell. Each sweep costs such an image a pass more.
const traced = 8

// judgement is a classifier's verdicts on images, and how long it took to get them.
type judgement struct {
	verdicts []verdict // without their Loop
	seconds  float64

	// The numbers of a closed loop, which stay in memory for as many images as there are.
	stages []int       // of the layers
	rows   [][]float64 // of each image: objective, greedy, norm, and each layer's norm and loss
	sweeps [traced][]number.Any
}

func newJudgement(n int, who open.Info) *judgement {
	j := &judgement{verdicts: make([]verdict, n)}
	if c := who.Control; c != nil {
		j.stages, j.rows = slices.Sorted(maps.Keys(c.Places)), make([][]float64, n)
	}
	return j
}

// fits reports whether a verdict has the numbers of the loop.
func (j *judgement) fits(v verdict) bool {
	return v.Broken || j.rows == nil || v.Loop != nil && len(v.Loop.Layers) == len(j.stages)
}

func (j *judgement) take(i int, v verdict) {
	if s := v.Loop; s != nil && j.rows != nil {
		row := append(make([]float64, 0, 3+2*len(s.Layers)), s.Objective, s.Greedy, s.Norm)
		for _, l := range s.Layers {
			row = append(row, l.Norm, l.Loss)
		}
		if j.rows[i] = row; i < traced {
			j.sweeps[i] = s.Sweeps
		}
	}
	v.Loop = nil
	j.verdicts[i] = v
}

func (j *judgement) same(i int, as *judgement) {
	if j.verdicts[i] = as.verdicts[i]; j.rows != nil {
		j.rows[i] = as.rows[i]
	}
	if i < traced {
		j.sweeps[i] = as.sweeps[i]
	}
}

// summary reports how the closed loop did over a cell's images.
func (j *judgement) summary(c *open.ControlInfo) *result.Solver {
	s := &result.Solver{Method: c.Solver.Method.String(), PassesPerRun: c.Passes}
	n := float64(len(j.rows))
	costs := make([]control.LayerCost, len(j.stages))
	for _, row := range j.rows {
		objective, greedy := row[0], row[1]
		s.Objective += objective
		s.Greedy += greedy
		s.ControlNorm += row[2]
		if objective < greedy {
			s.BelowGreedy++
		}
		for i := range costs {
			costs[i].Norm += row[3+2*i] / n
			costs[i].Loss += row[4+2*i] / n
		}
	}
	s.Objective, s.Greedy, s.ControlNorm, s.BelowGreedy = s.Objective/n, s.Greedy/n, s.ControlNorm/n, s.BelowGreedy/n
	for i, t := range j.stages {
		costs[i].T = t
	}
	s.Layers = c.Layers(costs)
	s.Sweeps, s.Traced = j.meanSweeps()
	return s
}

// meanSweeps is the mean objective at the greedy start and after each sweep, over the images that were followed, and
// how many these are; nil where there are none, or where the solver did not stay finite on the way.
func (j *judgement) meanSweeps() (means []float64, n int) {
	for _, sweeps := range j.sweeps {
		if sweeps == nil {
			break
		}
		n++
		if means == nil {
			means = make([]float64, len(sweeps))
		}
		for k, sweep := range sweeps {
			means[k] += float64(sweep)
		}
	}
	for k := range means {
		if means[k] /= float64(n); !number.Finite(means[k]) {
			return nil, 0
		}
	}
	return means, n
}

// trial finds the trial of a config's attack at one of its epsilons; epsilon 0 stands for its only one.
func trial(cfg *config.Config, name string, epsilon float64) (plan.Trial, error) {
	base, _, _ := strings.Cut(name, ":")
	a := cfg.Attack(base)
	if a == nil || !a.Several() && base != name {
		return nil, open.Unknown("attack", name, cfg.Attacks, func(a config.Attack) string { return a.Name })
	}
	all, err := plan.Trials(a)
	var list []string
	for _, e := range a.Epsilons {
		list = append(list, number.Format(e))
	}
	i, known := 0, strings.Join(list, ", ")
	switch {
	case err != nil:
	case a.Several() && base != name:
		if i = slices.IndexFunc(all, func(t plan.Trial) bool { return t.Name() == name }); i < 0 {
			err = fmt.Errorf("attack %s has no cell %s; its cells are called as %s", base, name, all[0].Name())
		}
	case len(a.Sides) > 1:
		err = fmt.Errorf("attack %s has several sides; its cells are called as %s", base, all[0].Name())
	case a.Corruptions != nil || epsilon == 0 && len(all) == 1: // all corruptions allow the same
	case epsilon == 0:
		err = fmt.Errorf("attack %s has several epsilons; say which: %s", name, known)
	default:
		i = slices.IndexFunc(all, func(t plan.Trial) bool {
			return epsilon > t.Epsilon()*(1-1e-9) && epsilon < t.Epsilon()*(1+1e-9)
		})
		if i < 0 {
			err = fmt.Errorf("attack %s has no epsilon %s; it has: %s", name, number.Format(epsilon), known)
		}
	}
	if err != nil {
		return nil, err
	}
	return all[i], nil
}

// Claim is somebody's adversarial images, and the attack that they are said to be of.
type Claim struct {
	Shape   []int // [N, C, H, W]
	Images  []float32
	Dataset string  // of the config: the clean images, in order
	Limit   int     // only the first so many of those; 0 for all
	Attack  string  // of the config: the norm and epsilon
	Epsilon float64 // which of the attack's; 0 for its only one
}

// Verification is the judge's answer to a [Claim].
type Verification struct {
	Dataset     string         `json:"dataset"`
	Model       string         `json:"model"`
	Defense     string         `json:"defense"` // "none" or the control's name
	Attack      string         `json:"attack"`
	Norm        *string        `json:"norm"`    // null of a corruption
	Epsilon     *float64       `json:"epsilon"` // null of a corruption
	N           int            `json:"n"`
	Unperturbed int            `json:"unperturbed"` // images that are the clean ones
	MaxNorm     float64        `json:"max_norm"`    // of the images whose values are numbers
	Outside     []plan.Outside `json:"outside"`     // images that leave the ball or the box
	Judged      int            `json:"judged"`      // the others
	Correct     int            `json:"correct"`     // of those
	Accuracy    float64        `json:"accuracy"`    // of those; 0 when there are none
	CI95        [2]float64     `json:"ci95"`        // Wilson
	Verdicts    string         `json:"verdicts"`    // one character an image: '1' right, '0' wrong, '-' outside
}

func channelsFirst(images []float32, shape [3]int) []float32 {
	out, plane := make([]float32, len(images)), shape[1]*shape[2]
	for i, v := range images {
		image, at := i/(plane*shape[0]), i%(plane*shape[0])
		out[image*plane*shape[0]+at%shape[0]*plane+at/shape[0]] = v
	}
	return out
}

// Verify measures the images of a claim as a run's judge does, and asks the model about those that are in ball and box:
// the controlled network where there is one. A claim that does not fit the config is an [open.ConfigError].
func Verify(ctx context.Context, u *open.Model, c Claim) (*Verification, error) {
	t, err := trial(u.Config, c.Attack, c.Epsilon)
	if err != nil {
		return nil, open.Wrong(err)
	}
	if t.Setting().Kind == attacks.SpatialKind { // a claim has no poses
		return nil, open.Wrong(fmt.Errorf("attack %s moves images, and whether others are clean ones moved can't be "+
			"told of them; verify takes attacks that change values", c.Attack))
	}
	d, err := u.Set(c.Dataset, c.Limit)
	if err != nil {
		return nil, open.Wrong(err)
	}
	shape := d.Shape()
	if last := []int{shape[1], shape[2], shape[0]}; len(c.Shape) == 4 && slices.Equal(c.Shape[1:], last) &&
		!slices.Equal(last, shape[:]) { // channels last, as data may have them too
		c.Images, c.Shape = channelsFirst(c.Images, shape), []int{c.Shape[0], shape[0], shape[1], shape[2]}
	}
	if len(c.Shape) != 4 || !slices.Equal(c.Shape[1:], shape[:]) {
		return nil, open.Wrong(fmt.Errorf("the adversarial images have shape %v, "+
			"those of dataset %s have [N %d %d %d], or channels last", c.Shape, c.Dataset, shape[0],
			shape[1], shape[2]))
	}
	if c.Shape[0] != d.Len() {
		return nil, open.Wrong(fmt.Errorf("there are %d adversarial images, but %d of dataset %s; "+
			"--limit N takes its first N", c.Shape[0], d.Len(), c.Dataset))
	}
	n := d.Len()
	judged, problems, unperturbed := make([]verdict, n), make([]plan.Outside, n), make([]bool, n)
	err = u.ForEach(ctx, n, u.State(), func(ctx context.Context, i int) error {
		var im attacks.Image
		var err error
		if im.ID, im.Pixels, im.Label, err = d.Image(i); err != nil {
			return err
		}
		x := c.Images[i*len(im.Pixels) : (i+1)*len(im.Pixels)]
		unperturbed[i] = slices.Equal(im.Pixels, x)
		judged[i], err = judge(ctx, u.Classifier, im, x, t.Within(), withCosts)
		if errors.As(err, &problems[i]) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	v := &Verification{Dataset: c.Dataset, Model: u.Net.Name, Defense: u.Defense(), Attack: c.Attack,
		N: n, Outside: []plan.Outside{}}
	v.Norm, v.Epsilon = t.Strength()
	verdicts := make([]byte, n)
	for i, of := range judged {
		v.MaxNorm = max(v.MaxNorm, of.Norm)
		if unperturbed[i] {
			v.Unperturbed++
		}
		switch p := problems[i]; {
		case p.Problem != "":
			verdicts[i] = '-'
			p.Image = d.ID(i)
			v.Outside = append(v.Outside, p)
		case of.Right:
			verdicts[i] = '1'
			v.Correct++
		default:
			verdicts[i] = '0'
		}
	}
	v.Judged, v.Verdicts = n-len(v.Outside), string(verdicts)
	if v.Judged > 0 {
		v.Accuracy = float64(v.Correct) / float64(v.Judged)
	}
	v.CI95 = stats.Wilson(v.Correct, v.Judged)
	return v, nil
}
