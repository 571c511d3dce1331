package attacks

import (
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// libraries holds the answers of Foolbox, adv-lib, torchattacks and SciPy on a small tanh network, as
// testdata/libraries.py writes them.
type libraries struct {
	network
	Cases []struct {
		Attack, Norm string
		Image        int
		Epsilon      float64
		Parameters   given
		Targeted     bool      // at the class after the label
		Norms        []float64 // of the points at which a gradient was asked for
		Last, Point  []float32 // the last of them, and what the attack gives
	}
}

func TestAttacksAgreeWithLibraries(t *testing.T) {
	var ref libraries
	o := loadFrom(t, "libraries", &ref, &ref.network)
	for _, c := range ref.Cases {
		n, im := norm(t, c.Norm), ref.image(c.Image)
		spec := must.Get(Lookup(c.Attack))(t)
		attack := component(c.Attack, n, c.Epsilon, must.Get(spec.part(n, c.Parameters, nil))(t).parameters)
		near, watched := 1e-5, &spy{Oracle: o}
		on := Oracle(watched)
		if c.Targeted {
			target := must.Get(ParseAim(NextClass))(t)
			class, _ := target.Class(im, o.classes)
			on = &towards{Oracle: watched, label: im.Label, target: class, whole: make([]float32, o.classes)}
			im.Label = 0
		}
		if n == L0 { // steps along signs part by rounding
			near = 1e-4
		}
		var res Result
		if a, ok := attack.(pgd); ok { // from the clean image
			a.StepSize = a.usualStep()
			must.Do(t, newClimb(a, on, im, Options{}).run(t.Context()))
		} else {
			res = perturb(t, attack, on, im, 0)
		}
		points, point := watched.points(true), watched.made[len(watched.made)-1].x
		if spec.minimises {
			if point = res.Adversarial; c.Attack == "fab" {
				points = [][]float32{point}
			} else if res.Forward != len(points) || res.Backward != len(points) {
				t.Errorf("%s, %s, image %d: %d and %d passes, made %d", c.Attack, n, c.Image, res.Forward, res.Backward,
					len(points))
			}
		}
		if c.Attack == "deepfool" { // a gradient for each other class, and one that finds another class
			gradients := len(points)
			points = slices.CompactFunc(points, slices.Equal)
			if want := (len(points)-1)*(o.classes-1) + 1; gradients != want {
				t.Errorf("%s, %s, image %d: %d gradients, want %d", c.Attack, n, c.Image, gradients, want)
			}
		}
		if len(points) != len(c.Norms) {
			t.Errorf("%s, %s, image %d: %d points, want %d", c.Attack, n, c.Image, len(points), len(c.Norms))
			continue
		}
		for k, want := range c.Norms {
			if got := n.Distance(points[k], im.Pixels); !(math.Abs(got-want) <= 1e-4*max(want, 1e-3)) {
				t.Errorf("%s, %s, image %d: point %d lies %v away, want %v", c.Attack, n, c.Image, k, got, want)
				break
			}
		}
		last := points[len(points)-1]
		if offLast, off := furthest(last, c.Last), furthest(point, c.Point); !(offLast <= near && off <= near) {
			t.Errorf("%s, %s, image %d: the last point is off by %.2g, the one found by %.2g", c.Attack, n, c.Image,
				offLast, off)
		}
	}
}

// DeepFool's last step is checked by a forward pass.
func TestDeepFoolEndsWithItsSteps(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	for _, im := range imagesNear(o, 4, 0.3, 10) {
		long := perturb(t, component("deepfool", L2, 10, nil), o, im, 0)
		short := perturb(t, component("deepfool", L2, 10, given{"steps": long.Iterations}), o, im, 0)
		if furthest(long.Adversarial, short.Adversarial) != 0 || long.Forward != long.Backward ||
			short.Backward != 4*long.Iterations || short.Forward != short.Backward+1 {
			t.Errorf("image %d: %d and %d passes, with no step more than needed %d and %d for %d steps", im.ID,
				long.Forward, long.Backward, short.Forward, short.Backward, long.Iterations)
		}
	}
}
