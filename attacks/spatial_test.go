package attacks

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// Moved images are torchvision's: testdata/poses.json is of scripts/goldens/attacks.py.
func TestPosesAgreeWithTorchvision(t *testing.T) {
	t.Parallel()
	var golden struct {
		Shape [3]int
		Image []float32
		Poses []struct {
			Pose
			Out []float32
		}
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/poses.json"))(t), &golden))
	s := Shape{C: golden.Shape[0], H: golden.Shape[1], W: golden.Shape[2]}
	if len(golden.Poses) < 10 {
		t.Fatalf("%d poses", len(golden.Poses))
	}
	for _, p := range golden.Poses {
		if off := furthest(p.Move(golden.Image, s), p.Out); off > 1e-5 {
			t.Errorf("%+v: off by %.2g", p.Pose, off)
		}
	}
}

// The grid breaks exactly the images that one of its poses breaks, by the one that breaks it most, for a pass a pose.
func TestSpatial(t *testing.T) {
	t.Parallel()
	o := newLinear(shape, 5, 7, unlimited)
	grid := recipe(t, Setup{Kind: SpatialKind, Parameters: given{"rotation": 2, "translation": 0.02}}, 1, 5)
	a := grid.Components[0].(spatial)
	if got := grid.Limit; got != (moved{Pose{2, 0.02, 0.02}}) || !grid.Free {
		t.Errorf("limits %+v", got)
	}
	broken := 0
	images := imagesNear(o, 40, 0.1, 8)
	for _, im := range images {
		most := math.Inf(-1)
		for _, p := range a.poses() {
			logits := make([]float32, 5)
			o.answer(p.Move(im.Pixels, shape), logits)
			if !Right(logits, im.Label) {
				most = max(most, Margin.Value(logits, im.Label, -1))
			}
		}
		res := trial{a, Linf, 1, false}.perturb(t, &o.classifier, im, 1)
		if res.Forward != 31*7*7 || (res.Adversarial != nil) != (most > math.Inf(-1)) {
			t.Errorf("image %d: %d passes, broken %v, want %v", im.ID, res.Forward, res.Adversarial != nil, most)
		}
		if res.Adversarial == nil {
			continue
		}
		broken++
		logits := make([]float32, 5)
		o.answer(res.Adversarial, logits)
		if by := Margin.Value(logits, im.Label, -1); by != most || grid.Limit.Outside(im.Pixels, res, shape) != "" ||
			!slices.Equal(res.Pose.Move(im.Pixels, shape), res.Adversarial) {
			t.Errorf("image %d: %+v, broken by %v, not %v", im.ID, *res.Pose, by, most)
		}
	}
	if broken < 5 || broken > 35 {
		t.Errorf("%d of 40 images broken", broken)
	}
	full, verdict := trial{a, Linf, 1, false}, trial{a, Linf, 1, true}
	checkStops(t, full.checkRuns(t, &o.classifier, images[:8]), verdict.checkRuns(t, &o.classifier, images[:8]))
	checkSeeds(t, full, &o.classifier, images, true)
	checkCancel(t, full, &o.classifier, images[0])
}

// Poses at random keep to the limits, are as many as asked for, and depend on seed and image.
func TestRandomPoses(t *testing.T) {
	t.Parallel()
	o := newLinear(shape, 5, 7, unlimited)
	images := imagesNear(o, 20, 0.1, 8)
	made := recipe(t, Setup{Kind: SpatialKind, Parameters: given{"queries": 50}}, 1, 5)
	a := trial{made.Components[0], Linf, 1, false}
	for _, res := range a.checkRuns(t, &o.classifier, images) {
		if res.Forward != 50 || res.Pose != nil && !(Pose{30, 3, 3}).Holds(*res.Pose) {
			t.Errorf("%d passes, %+v", res.Forward, res.Pose)
		}
	}
	checkSeeds(t, a, &o.classifier, images, false)
	if _, err := (Setup{Kind: SpatialKind, Parameters: given{"rotation": 0, "translation": 0}}).Make(1, 5); err == nil {
		t.Error("limits of 0 are taken")
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	most := Pose{30, 3, 2}
	for _, p := range []Pose{{}, {30, 3, 2}, {-30, -3, -2}} {
		if !most.Holds(p) {
			t.Errorf("%+v lies beyond %+v", p, most)
		}
	}
	for _, p := range []Pose{{30.1, 0, 0}, {-30.1, 0, 0}, {0, 3.1, 0}, {0, -3.1, 0}, {0, 0, 2.1}, {0, 0, -2.1}} {
		if most.Holds(p) {
			t.Errorf("%+v lies within %+v", p, most)
		}
	}
}

// The grid's places are at equal distances; poses come by their turn and shifts as shares of the largest, the farthest
// first.
func TestGrid(t *testing.T) {
	t.Parallel()
	some, none := places(3, 7), places(0, 7)
	if !slices.Equal(some, []float64{-3, -2, -1, 0, 1, 2, 3}) || !slices.Equal(none, []float64{0}) {
		t.Errorf("places %v and %v", some, none)
	}
	all := spatial{Rotation: 30, Translation: 2}.poses()
	far := func(p Pose) float64 { return math.Abs(p.Rotation)/30 + math.Abs(p.X)/2 + math.Abs(p.Y)/2 }
	seen := map[Pose]bool{}
	for i, p := range all {
		if seen[p] = true; i > 0 && far(p) > far(all[i-1])+1e-12 {
			t.Errorf("pose %d, %+v, is farther than the one before", i, p)
		}
	}
	if len(seen) != 31*7*7 || far(all[0]) != 3 || far(all[len(all)-1]) != 0 {
		t.Errorf("%d poses, from %+v to %+v", len(seen), all[0], all[len(all)-1])
	}
}
