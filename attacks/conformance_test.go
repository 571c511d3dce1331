package attacks

import (
	"cmp"
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"selfheal/internal/must"
)

// shape is the test images' shape: not square, so that rows and columns differ.
var shape = Shape{C: 3, H: 6, W: 5}

// conform checks in each norm that a row's attack obeys the rules of all attacks, by the checks below.
func conform(t *testing.T, row row) {
	classes, norms := cmp.Or(row.Classes, 5), row.Norms
	if norms == nil {
		norms = slices.DeleteFunc(Norms(), func(n Norm) bool {
			return must.Get(Lookup(row.Kind))(t).CheckNorm(n) != nil
		})
	}
	for _, norm := range norms {
		t.Run(norm.String(), func(t *testing.T) {
			t.Parallel()
			made := func(epsilon float64) trial { return row.trial(t, norm, epsilon) }
			limit, spread := unlimited, 0.1
			if norm == L0 { // several values are needed
				limit, spread = 0.3, 0.5
			}
			linear := newLinear(shape, classes, 7, limit)
			images := imagesNear(linear, 30, spread, 8)
			var distances []float64
			for _, im := range images {
				distances = append(distances, linear.distance(norm, im.Pixels, im.Label))
			}
			epsilon := slices.Sorted(slices.Values(distances))[len(distances)/2]
			if epsilon > 0.4 && norm != L0 {
				t.Fatalf("epsilon %v reaches the box", epsilon)
			}
			clearly := [...]float64{0.9, 0.9, 0.75, 1}[norm] * epsilon
			checkVerdicts(t, made(epsilon), &linear.classifier, images, distances, clearly, row.Breaks)
			checkReach(t, made, norm, classes, cmp.Or(row.Reach[norm], 1.01), row.Exact)

			two := newLinear(shape, 2, 13, limit)
			pair := imagesNear(two, 10, spread, 14)
			distances = nil
			for k, im := range pair {
				distances = append(distances, two.distance(norm, im.Pixels, im.Label))
				pair[k].Label++
			}
			epsilon = slices.Sorted(slices.Values(distances))[len(distances)*3/4]
			clearly = [...]float64{0.9, 0.9, 0.75, 1}[norm] * epsilon
			checkVerdicts(t, made(epsilon), two.masked(), pair, distances, clearly, row.Breaks)

			mlp := randomMLP(shape, 20, classes, 9)
			images = imagesNear(mlp, 4, 0.5, 10) // up to 0 and 1
			small, large := [...]float64{1e-3, 1e-3, 1e-3, 1}[norm], [...]float64{0.08, 0.8, 4, 20}[norm]
			for _, epsilon := range []float64{small, large} {
				full := made(epsilon)
				verdict := full
				verdict.verdictOnly = true
				checkStops(t, full.checkRuns(t, mlp, images), verdict.checkRuns(t, mlp, images))
				for _, a := range []trial{full, verdict} {
					checkSeeds(t, a, mlp, images, row.Seedless)
					checkCancel(t, a, mlp, images[0])
				}
			}
			checkBlind(t, made, norm, classes)
			row.checkLoss(t, made(small), mlp, images[0])
		})
	}
}

// trial makes the row's attack.
func (r row) trial(t *testing.T, norm Norm, epsilon float64) trial {
	t.Helper()
	s := Setup{Kind: r.Kind, Norm: norm, Parameters: r.Parameters}
	if r.Component {
		s.Components = []Component{{Kind: s.Kind, Parameters: s.Parameters}}
		s.Kind, s.Version, s.Parameters = "autoattack", "custom", nil
	}
	return trial{recipe(t, s, epsilon, cmp.Or(r.Classes, 5)).Components[0], norm, epsilon, false}
}

// checkLoss checks that the attack asks for the losses of its row.
func (r row) checkLoss(t *testing.T, a trial, o *classifier, im Image) {
	t.Helper()
	want := must.Get(Lookup(r.Kind))(t).loss(r.Parameters)
	for _, p := range passes(t, a, o, im) {
		if p.gradient && p.loss != want {
			t.Errorf("%s climbs %v, not %v", r.Kind, p.loss, want)
		}
	}
}

// trial is an attack with the arguments that made it.
type trial struct {
	Attack
	norm        Norm
	epsilon     float64
	verdictOnly bool
}

func (a trial) options(seed uint64) Options { return Options{Seed: seed, VerdictOnly: a.verdictOnly} }

// checkVerdicts compares an attack with the analytic robustness of a linear model.
func checkVerdicts(t *testing.T, a trial, o *classifier, images []Image, distances []float64, clearly, share float64) {
	t.Helper()
	breakable, broke := 0, 0
	for k, im := range images {
		res := a.perturb(t, o, im, 1)
		if res.Adversarial != nil && distances[k] > a.epsilon*(1+1e-4) {
			t.Errorf("image %d: broken within %v, but the boundary is %v away", k, a.epsilon, distances[k])
		}
		if distances[k] < clearly {
			breakable++
			if res.Adversarial != nil {
				broke++
			}
		}
	}
	if breakable < len(images)/6 {
		t.Fatalf("only %d of %d images are breakable", breakable, len(images))
	}
	if float64(broke) < share*float64(breakable) {
		t.Errorf("broke %d of %d breakable images, want %v of them", broke, breakable, share)
	}
}

// checkReach gives every image of a linear model its own epsilon: its exact distance to the boundary times the factor
// that the attack states. Weights are limited, so that many values are as good as the best: in ℓ1 AutoAttack's steps
// move two values at least, and could otherwise not reach the boundary.
func checkReach(t *testing.T, made func(epsilon float64) trial, norm Norm, classes int, reach float64,
	isExact bool) {
	t.Helper()
	linear := newLinear(shape, classes, 11, 1)
	tried := 0
	for _, im := range imagesNear(linear, 20, 0.1, 12) {
		exact := linear.distance(norm, im.Pixels, im.Label)
		if exact < 0.005 { // float32 logits don't place the boundary well enough
			continue
		}
		epsilon := reach * exact
		if norm == L0 {
			epsilon = math.Ceil(epsilon)
		}
		if epsilon < 0.35 || norm == L0 { // no value can come to 0 or 1
			tried++
			if made(epsilon).perturb(t, &linear.classifier, im, 1).Adversarial == nil {
				t.Errorf("image %d: not broken within %v, %v times the distance of the boundary", im.ID, epsilon, reach)
			}
		}
		if epsilon := 2 * exact; isExact && epsilon < 0.35 {
			found := made(epsilon).perturb(t, &linear.classifier, im, 1).Distance
			if !(found > exact*(1-1e-3) && found < exact*1.01) {
				t.Errorf("image %d: distance %v, the boundary is %v away", im.ID, found, exact)
			}
		}
	}
	if tried < 4 {
		t.Fatalf("only %d images to try", tried)
	}
}

// perturb runs an attack and checks what can be checked on one result.
func (a trial) perturb(t *testing.T, o *classifier, im Image, seed uint64) Result {
	t.Helper()
	res, _ := a.watched(t, o, im, seed)
	return res
}

// watched is perturb with the passes made.
func (a trial) watched(t *testing.T, o *classifier, im Image, seed uint64) (Result, *spy) {
	t.Helper()
	before := slices.Clone(im.Pixels)
	watched := &spy{Oracle: o}
	f0, b0 := o.passes()
	res := must.Get(a.Perturb(context.Background(), watched, im, a.options(seed)))(t)
	f1, b1 := o.passes()
	f, b := a.Passes(o.Classes())
	broken := res.Adversarial != nil
	for what, wrong := range map[string]bool{
		"other passes than it made":     res.Forward != f1-f0 || res.Backward != b1-b0,
		"more passes than it promised":  res.Forward > f || res.Backward > b,
		"the clean image is written to": !slices.Equal(before, im.Pixels),
		"it shares the clean image":     broken && &res.Adversarial[0] == &im.Pixels[0],
		"another first success":         broken != (res.FirstSuccess >= 0) || res.FirstSuccess > res.Iterations,
		"another first pass":            broken != (res.FirstForward >= 1) || res.FirstForward > len(watched.made),
		"another distance": broken && res.Distance > 0 &&
			res.Distance != a.norm.Distance(res.Adversarial, im.Pixels),
	} {
		if wrong {
			t.Fatalf("image %d: %s: %+v; made %d and %d of %d and %d passes", im.ID, what, res, f1-f0, b1-b0, f, b)
		}
	}
	if broken {
		// before rounding, which may add up over many values in ℓ1, was mended
		first := watched.made[res.FirstForward-1].x
		if d := a.norm.Distance(first, im.Pixels); d > a.epsilon*(1+1e-4) || !o.misclassified(first, im.Label) {
			t.Errorf("image %d: pass %d was at distance %v of %v, misclassified %v", im.ID, res.FirstForward, d,
				a.epsilon, o.misclassified(first, im.Label))
		}
	}
	return res, watched
}

// checkRuns runs every image alone, again, and all at once, and returns the results.
func (a trial) checkRuns(t *testing.T, o *classifier, images []Image) []Result {
	t.Helper()
	alone := []Result{}
	for _, im := range images {
		res := a.perturb(t, o, im, 1)
		if again := a.perturb(t, o, im, 1); !reflect.DeepEqual(res, again) {
			t.Errorf("image %d: a second run differs", im.ID)
		}
		alone = append(alone, res)
		if res.Adversarial != nil {
			a.checkInside(t, o, im, res.Adversarial)
		}
	}
	together := make([]Result, len(images))
	var wg sync.WaitGroup
	for k, im := range images {
		wg.Go(func() {
			res, err := a.Perturb(context.Background(), o, im, a.options(1))
			if err != nil {
				t.Error(err)
			}
			together[k] = res
		})
	}
	wg.Wait()
	if !reflect.DeepEqual(alone, together) {
		t.Error("concurrent runs differ from runs alone")
	}
	return alone
}

// checkInside checks that an adversarial image lies in the ball and in [0,1] and has another class.
func (a trial) checkInside(t *testing.T, o *classifier, im Image, adversarial []float32) {
	t.Helper()
	if !o.misclassified(adversarial, im.Label) {
		t.Errorf("image %d: the adversarial image is classified as the label", im.ID)
	}
	if d := a.norm.Distance(adversarial, im.Pixels); !(d <= a.epsilon*(1+1e-5)) {
		t.Errorf("image %d: distance %v exceeds epsilon %v by %.2g", im.ID, d, a.epsilon, d/a.epsilon-1)
	}
	for _, v := range adversarial {
		if !(v >= 0 && v <= 1) {
			t.Errorf("image %d: value %v outside [0,1]", im.ID, v)
		}
	}
}

// checkStops compares an attack at full strength with its verdict-only form.
func checkStops(t *testing.T, full, verdict []Result) {
	t.Helper()
	for k, f := range full {
		v := verdict[k]
		if f.FirstSuccess != v.FirstSuccess || f.FirstForward != v.FirstForward {
			t.Errorf("image %d: first success after %d iterations, in pass %d; for the verdict alone %d and %d",
				k, f.FirstSuccess, f.FirstForward, v.FirstSuccess, v.FirstForward)
		}
		passes := f.Forward
		if f.Adversarial != nil {
			passes = f.FirstForward
		}
		if v.Forward != passes {
			t.Errorf("image %d: %d passes for the verdict, want %d", k, v.Forward, passes)
		}
	}
}

// checkSeeds compares two seeds by all the points asked for.
func checkSeeds(t *testing.T, a trial, o *classifier, images []Image, same bool) {
	t.Helper()
	visits := func(seed uint64, im Image) []float32 {
		watched := &spy{Oracle: o}
		must.Get(a.Perturb(t.Context(), watched, im, a.options(seed)))(t)
		return slices.Concat(watched.points(false)...)
	}
	im := images[0]
	one := visits(1, im)
	if equal := slices.Equal(one, visits(2, im)); equal != same {
		t.Errorf("another seed visits the same points: %v, want %v", equal, same)
	}
	im.ID += 100
	if equal := slices.Equal(one, visits(1, im)); equal != same {
		t.Errorf("another image id visits the same points: %v, want %v", equal, same)
	}
}

// checkCancel cancels before the start, during an early pass and in the middle of all: the attack ends before its next
// pass, with the context's error.
func checkCancel(t *testing.T, a trial, o *classifier, im Image) {
	t.Helper()
	forward, _ := a.Passes(o.Classes())
	for _, at := range []int{0, 1, 3, (forward + 1) / 2} {
		if forward <= at+1 {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		watched := &spy{Oracle: o}
		watched.visit = func() {
			if len(watched.made) == at {
				cancel()
			}
		}
		if at == 0 {
			cancel()
		}
		res, err := a.Perturb(ctx, watched, im, a.options(1))
		cancel()
		passes := len(watched.made)
		if passes > at+1 {
			t.Errorf("cancelled at pass %d, made %d", at, passes)
		}
		if passes >= at && !errors.Is(err, context.Canceled) && res.Adversarial == nil {
			t.Errorf("cancelled at pass %d: error %v", at, err)
		}
	}
}

// checkBlind tries classifiers that give an answer for the clean image alone, or whose last logit is NaN elsewhere.
func checkBlind(t *testing.T, made func(epsilon float64) trial, norm Norm, classes int) {
	t.Helper()
	o := randomMLP(shape, 20, classes, 9)
	for _, from := range []int{0, classes - 1} {
		for _, im := range imagesNear(o, 3, 0.4, 10) {
			o.blindFrom, o.blind = from, func(x []float32) bool { return !slices.Equal(x, im.Pixels) }
			a := made([...]float64{0.3, 3, 15, 60}[norm])
			for _, a.verdictOnly = range []bool{false, true} {
				if res := a.perturb(t, o, im, 1); res.Adversarial == nil {
					t.Errorf("image %d: not broken, with NaN from logit %d on", im.ID, from)
				} else {
					a.checkInside(t, o, im, res.Adversarial)
				}
			}
			o.blind = nil
		}
	}
}
