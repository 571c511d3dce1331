package attacks

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"selfheal/attacks/corruption"
)

// SpatialKind is the kind of rotations and translations in a config.
const SpatialKind = "spatial"

// Pose is how an image is moved: it is turned about its centre, then shifted.
type Pose struct {
	Rotation float64 `json:"rotation"` // in degrees, clockwise
	X        float64 `json:"x"`        // in pixels, to the right
	Y        float64 `json:"y"`        // in pixels, downwards
}

// Holds reports whether o turns and shifts by no more than p.
func (p Pose) Holds(o Pose) bool {
	return math.Abs(o.Rotation) <= p.Rotation && math.Abs(o.X) <= p.X && math.Abs(o.Y) <= p.Y
}

// Move returns the image moved. Each value is the bilinear interpolation of the four values around the place that it
// comes from, black beyond the image's edge, as in torchvision.transforms.functional.affine.
func (p Pose) Move(image []float32, s Shape) []float32 {
	sin, cos := math.Sincos(p.Rotation * math.Pi / 180)
	out, plane := make([]float32, len(image)), s.H*s.W
	middleX, middleY := float64(s.W-1)/2, float64(s.H-1)/2
	for i := range plane {
		x, y := float64(i%s.W)-middleX-p.X, float64(i/s.W)-middleY-p.Y
		fromX, fromY := cos*x+sin*y+middleX, cos*y-sin*x+middleY
		left, top := math.Floor(fromX), math.Floor(fromY)
		for _, corner := range [4]struct{ x, y, weight float64 }{
			{left, top, (left + 1 - fromX) * (top + 1 - fromY)}, {left + 1, top, (fromX - left) * (top + 1 - fromY)},
			{left, top + 1, (left + 1 - fromX) * (fromY - top)}, {left + 1, top + 1, (fromX - left) * (fromY - top)},
		} {
			if corner.x < 0 || corner.y < 0 || corner.x >= float64(s.W) || corner.y >= float64(s.H) {
				continue
			}
			at := int(corner.y)*s.W + int(corner.x)
			for c := range s.C {
				out[c*plane+i] += float32(corner.weight) * image[c*plane+at]
			}
		}
	}
	for i, v := range out {
		out[i] = min(v, 1) // rounding may lift the weights' sum above 1
	}
	return out
}

// spatial turns and shifts the image (Engstrom et al. 2019, "Exploring the Landscape of Spatial Robustness", section
// 3). It tries all poses of a grid, or some at random, and returns the misclassified pose with the lowest margin.
type spatial struct {
	common
	Rotation, Translation float64
	Queries               int // 0: the grid
}

// Places of the grid on each axis, including the ends.
const gridRotations, gridShifts = 31, 7

// most returns the largest pose.
func (a spatial) most() Pose { return Pose{a.Rotation, a.Translation, a.Translation} }

func (a spatial) limit() Limit { return moved{a.most()} }

// moved limits the pose.
type moved struct{ most Pose }

// Hidden says that an image has no pose.
func (moved) Hidden() string {
	return "moves images, and whether others are clean ones moved can't be told of them"
}

// Outside checks that the image is the clean one at the result's pose.
func (m moved) Outside(clean []float32, made Result, s Shape) string {
	if made.Pose == nil || !m.most.Holds(*made.Pose) || !slices.Equal(made.Adversarial, made.Pose.Move(clean, s)) {
		return fmt.Sprintf("it is not the clean image moved within %+v", m.most)
	}
	return ""
}

// Moves reports whether the recipe moves parts of the image to other places.
func (r Recipe) Moves() bool {
	_, moves := r.Limit.(moved)
	return moves || r.Corruption != nil && corruption.Moves(r.Corruption.Name)
}

// Check also returns an error for limits that leave the image where it is.
func (a spatial) Check(classes int, s Shape) error {
	if s.Row() {
		return fmt.Errorf("%s: it turns and shifts images, and these are rows of features", a.name)
	}
	if a.most() == (Pose{}) {
		return fmt.Errorf("%s: rotation and translation are 0", a.name)
	}
	return a.common.Check(classes, s)
}

// Passes returns one forward pass per pose.
func (a spatial) Passes(int) (forward, backward int) {
	if a.Queries > 0 {
		return a.Queries, 0
	}
	shifts := len(places(a.Translation, gridShifts))
	return len(places(a.Rotation, gridRotations)) * shifts * shifts, 0
}

// places returns n numbers from −most to most, at equal distances.
func places(most float64, n int) (all []float64) {
	if most == 0 {
		return []float64{0}
	}
	for i := range n {
		all = append(all, most*float64(2*i-n+1)/float64(n-1))
	}
	return all
}

// poses returns the poses of the grid, the farthest first: those break most images.
func (a spatial) poses() (all []Pose) {
	shifts := places(a.Translation, gridShifts)
	for _, turn := range places(a.Rotation, gridRotations) {
		for _, x := range shifts {
			for _, y := range shifts {
				all = append(all, Pose{turn, x, y})
			}
		}
	}
	far := func(p Pose) float64 {
		return math.Abs(p.Rotation)/max(a.Rotation, 1) + (math.Abs(p.X)+math.Abs(p.Y))/max(a.Translation, 1)
	}
	slices.SortStableFunc(all, func(p, q Pose) int { return cmp.Compare(far(q), far(p)) })
	return all
}

// drawn returns random poses.
func (a spatial) drawn(rng *rand.Rand) iter.Seq[Pose] {
	uniform := func(most float64) float64 { return most * (2*rng.Float64() - 1) }
	return func(yield func(Pose) bool) {
		for range a.Queries {
			if !yield(Pose{uniform(a.Rotation), uniform(a.Translation), uniform(a.Translation)}) {
				return
			}
		}
	}
}

func (a spatial) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	t := newAttempt(o, im, how)
	poses := slices.Values(a.poses())
	if a.Queries > 0 {
		poses = a.drawn(generator(how.Seed, a.name, 0, 0, im.ID))
	}
	most := math.Inf(-1)
	for p := range poses {
		x := p.Move(im.Pixels, o.Shape())
		wrong, err := t.wrong(ctx, x)
		if err != nil {
			return Result{}, err
		}
		if by := a.Loss.Value(t.eval.Logits, im.Label, -1); wrong && (t.res.Pose == nil || by > most) {
			t.succeed(t.now(0))
			t.res.Adversarial, t.res.Pose, most = x, &p, by
			if how.VerdictOnly {
				break
			}
		}
		t.res.Iterations++
	}
	return t.res, nil
}
