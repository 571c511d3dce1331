package attacktest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"selfheal/attacks"
)

// Expectation says what an attack can be held to beyond the common rules.
type Expectation struct {
	Classes int // classes of the test models; default 5
	// Breaks is the share of the breakable images that the attack must break on
	// a linear model: of those whose distance to a boundary is at most 90 % of
	// epsilon, in ℓ1, where gradient steps spread over several values, 75 %.
	Breaks float64
	// Seedless says that the seed does not change the result.
	Seedless bool
}

// shape is that of the test images: not square, so that rows and columns differ.
var shape = attacks.Shape{C: 3, H: 6, W: 5}

// Conform checks the attacks that make returns, in each norm, against the rules
// all attacks obey:
//
//   - on a linear model, away from 0 and 1, no image further than epsilon from
//     every boundary is broken, and Breaks of those clearly nearer are;
//   - an adversarial image is within epsilon·(1+1e-5) in float64, inside [0,1],
//     and misclassified, also where [0,1] cuts the ball;
//   - the clean image is not written to, a second run and concurrent runs give
//     the same bits, another seed gives others (unless Seedless);
//   - passes reported are those the oracle saw, at most those Passes promises;
//   - a cancelled context ends the attack before its next pass.
func Conform(t *testing.T, make func(norm attacks.Norm, epsilon float64) attacks.Attack, want Expectation) {
	if want.Classes == 0 {
		want.Classes = 5
	}
	for _, norm := range []attacks.Norm{attacks.Linf, attacks.L2, attacks.L1} {
		t.Run(norm.String(), func(t *testing.T) {
			linear := NewLinear(shape, want.Classes, 7)
			images := Images(linear, 60, 0.1, 8)
			distances := []float64{}
			for _, im := range images {
				distances = append(distances, linear.Distance(norm, im.Pixels, im.Label))
			}
			middle := slices.Clone(distances)
			slices.Sort(middle)
			epsilon := middle[len(middle)/2]
			if epsilon > 0.4 {
				t.Fatalf("epsilon %v reaches the box", epsilon)
			}
			clearly := [...]float64{0.9, 0.9, 0.75}[norm] * epsilon
			checkVerdicts(t, make(norm, epsilon), linear, images, distances, epsilon, clearly, want.Breaks)

			mlp := RandomMLP(shape, 20, want.Classes, 9)
			images = Images(mlp, 8, 0.5, 10) // up to 0 and 1
			for _, epsilon := range []float64{1e-3, [...]float64{0.08, 0.8, 4}[norm]} {
				a := make(norm, epsilon)
				checkRuns(t, a, mlp, images, norm, epsilon)
				checkSeeds(t, a, mlp, images, want.Seedless)
				checkCancel(t, a, mlp, images[0])
			}
		})
	}
}

// checkVerdicts compares an attack with the analytic robustness of a linear model.
func checkVerdicts(t *testing.T, a attacks.Attack, o *Linear, images []attacks.Image, distances []float64, epsilon, clearly, share float64) {
	t.Helper()
	breakable, broke := 0, 0
	for k, im := range images {
		res := perturb(t, a, &o.Oracle, im, 1)
		if res.Adversarial != nil && distances[k] > epsilon*(1+1e-4) {
			t.Errorf("image %d: broken within %v, but the boundary is %v away", k, epsilon, distances[k])
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

// perturb runs an attack and checks what can be checked on one result.
func perturb(t *testing.T, a attacks.Attack, o *Oracle, im attacks.Image, seed uint64) attacks.Result {
	t.Helper()
	before := slices.Clone(im.Pixels)
	f0, b0 := o.Passes()
	res, err := a.Perturb(context.Background(), o, im, seed)
	if err != nil {
		t.Fatalf("image %d: %v", im.ID, err)
	}
	f1, b1 := o.Passes()
	if res.Forward != f1-f0 || res.Backward != b1-b0 {
		t.Errorf("image %d: reports %d forward and %d backward passes, made %d and %d", im.ID, res.Forward, res.Backward, f1-f0, b1-b0)
	}
	if f, b := a.Passes(o.Classes()); res.Forward > f || res.Backward > b {
		t.Errorf("image %d: made %d and %d passes, more than the %d and %d promised", im.ID, res.Forward, res.Backward, f, b)
	}
	if !slices.Equal(before, im.Pixels) {
		t.Errorf("image %d: the clean image was written to", im.ID)
	}
	if (res.Adversarial != nil) != (res.FirstSuccess >= 0) || res.FirstSuccess > res.Iterations {
		t.Errorf("image %d: first success %d of %d iterations, adversarial %v", im.ID, res.FirstSuccess, res.Iterations, res.Adversarial != nil)
	}
	return res
}

// checkRuns runs every image alone, again, and all at once.
func checkRuns(t *testing.T, a attacks.Attack, o *MLP, images []attacks.Image, norm attacks.Norm, epsilon float64) {
	t.Helper()
	alone := []attacks.Result{}
	for _, im := range images {
		res := perturb(t, a, &o.Oracle, im, 1)
		if again := perturb(t, a, &o.Oracle, im, 1); !reflect.DeepEqual(res, again) {
			t.Errorf("image %d: a second run differs", im.ID)
		}
		alone = append(alone, res)
		if res.Adversarial == nil {
			continue
		}
		if d := norm.Distance(res.Adversarial, im.Pixels); d > epsilon*(1+1e-5) {
			t.Errorf("image %d: distance %v exceeds epsilon %v by %.2g", im.ID, d, epsilon, d/epsilon-1)
		}
		for _, v := range res.Adversarial {
			if !(v >= 0 && v <= 1) {
				t.Errorf("image %d: value %v outside [0,1]", im.ID, v)
			}
		}
		logits := make([]float32, o.Classes())
		o.run(res.Adversarial, logits)
		if Argmax(logits) == im.Label {
			t.Errorf("image %d: the adversarial image is classified as the label", im.ID)
		}
	}
	together := make([]attacks.Result, len(images))
	var wg sync.WaitGroup
	for k, im := range images {
		wg.Go(func() {
			res, err := a.Perturb(context.Background(), o, im, 1)
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
}

// checkSeeds compares two seeds by all the points asked for.
func checkSeeds(t *testing.T, a attacks.Attack, o *MLP, images []attacks.Image, same bool) {
	t.Helper()
	visits := func(seed uint64, im attacks.Image) (sum []float32) {
		spy := &spy{Oracle: o, visit: func(x []float32) { sum = append(sum, x...) }}
		if _, err := a.Perturb(context.Background(), spy, im, seed); err != nil {
			t.Fatal(err)
		}
		return sum
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

// checkCancel cancels before the start, and during the third pass.
func checkCancel(t *testing.T, a attacks.Attack, o *MLP, im attacks.Image) {
	t.Helper()
	for _, at := range []int{0, 3} {
		if f, _ := a.Passes(o.Classes()); f <= at+1 {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		passes := 0
		visit := func([]float32) {
			if passes++; passes == at {
				cancel()
			}
		}
		if at == 0 {
			cancel()
		}
		res, err := a.Perturb(ctx, &spy{Oracle: o, visit: visit}, im, 1)
		cancel()
		if passes > at+1 {
			t.Errorf("cancelled at pass %d, made %d", at, passes)
		}
		if passes >= at && !errors.Is(err, context.Canceled) && res.Adversarial == nil {
			t.Errorf("cancelled at pass %d: error %v", at, err)
		}
	}
}

// spy sees every point an attack asks about.
type spy struct {
	attacks.Oracle
	visit func(x []float32)
}

func (s *spy) Logits(ctx context.Context, x, out []float32) error {
	s.visit(x)
	return s.Oracle.Logits(ctx, x, out)
}

func (s *spy) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int, e *attacks.Evaluation) error {
	s.visit(x)
	return s.Oracle.Gradient(ctx, x, loss, label, target, e)
}
