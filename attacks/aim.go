package attacks

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

// Aim is the class that a targeted attack must reach; only an answer of that class is a success. The zero value stands
// for any wrong class.
type Aim struct {
	targeted, next, listed bool
	class                  int
}

// Targets that differ by image.
const (
	NextClass  = "next" // the class after the image's label, the first class after the last
	FileTarget = "file" // the image's own, [Image.Target]
)

// ParseAim reads a target: a class's number, next or file; "" is any wrong class.
func ParseAim(text string) (Aim, error) {
	if text == "" {
		return Aim{}, nil
	}
	class, err := strconv.Atoi(text)
	next, listed := text == NextClass, text == FileTarget
	if !next && !listed && (err != nil || class < 0 || class > math.MaxInt16) {
		return Aim{}, fmt.Errorf("target must be a class's number from 0, next or file, not %.40q", text)
	}
	return Aim{true, next, listed, class}, nil
}

// Class returns the class to reach from an image, among so many classes. There is none, and ok is false, if any wrong
// class will do or if the label is the class itself.
func (a Aim) Class(im Image, classes int) (class int, ok bool) {
	switch class = a.class; {
	case a.next:
		class = (im.Label + 1) % classes
	case a.listed:
		class = im.Target
	}
	return class, a.targeted && class != im.Label
}

// Targeted reports whether one class must be reached.
func (a Aim) Targeted() bool { return a.targeted }

// Versus returns two logits: the largest of the other classes' and the target's. The target is reached where the second
// is larger. It is not where a logit is NaN.
func Versus(logits []float32, target int) [2]float32 {
	pair := [2]float32{float32(math.Inf(-1)), logits[target]}
	for j, z := range logits {
		if z != z {
			return [2]float32{1, 0}
		}
		if j != target {
			pair[0] = max(pair[0], z)
		}
	}
	return pair
}

// aimed wraps an attack so that it succeeds only with one class. The attack sees a classifier of two classes, the
// target and the others, and climbs the targeted form of its loss: the target's cross-entropy, the targeted DLR, or
// the target's logit less the largest other one.
type aimed struct {
	Attack
	aim Aim
}

// Check also returns an error for a class that the classifier lacks.
func (a aimed) Check(classes int, s Shape) error {
	if a.aim.class >= classes {
		return fmt.Errorf("%s: target %d is no class of a model of %d, from 0 to %d", a.Name(), a.aim.class, classes,
			classes-1)
	}
	return a.Attack.Check(classes, s)
}

// Passes bounds the passes: there is one target.
func (a aimed) Passes(int) (forward, backward int) { return a.Attack.Passes(2) }

// Perturb attacks the image unless its label is the target.
func (a aimed) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	target, ok := a.aim.Class(im, o.Classes())
	if !ok {
		return Result{FirstSuccess: -1, FirstForward: -1}, ctx.Err()
	}
	of := &towards{Oracle: o, label: im.Label, target: target, whole: make([]float32, o.Classes())}
	im.Label = 0
	return a.Attack.Perturb(ctx, of, im, how)
}

// towards is an oracle of two classes: all classes but the target, and the target.
type towards struct {
	Oracle
	label, target int
	whole         []float32 // all logits
}

func (o *towards) Classes() int { return 2 }

// Along implements [Other].
func (o *towards) Along(gradient string) (Oracle, error) {
	by, err := Along(o.Oracle, gradient)
	if by == nil || err != nil {
		return nil, err
	}
	return &towards{by, o.label, o.target, o.whole}, nil
}

func (o *towards) Logits(ctx context.Context, x, out []float32) error {
	if err := o.Oracle.Logits(ctx, x, o.whole); err != nil {
		return err
	}
	pair := Versus(o.whole, o.target)
	copy(out, pair[:])
	return nil
}

func (o *towards) Gradient(ctx context.Context, x []float32, loss Loss, _, _ int, e *Evaluation) error {
	label, down := o.label, false
	switch loss {
	case CrossEntropy:
		loss = TargetedCrossEntropy
	case DLR:
		loss = TargetedDLR
	case LogitDifference:
		loss = Margin
		fallthrough
	case Margin, ProbabilityMargin: // the margin of the target, as if it were the label, falls
		label, down = o.target, true
	}
	pair := e.Logits
	e.Logits = o.whole
	err := o.Oracle.Gradient(ctx, x, loss, label, o.target, e)
	o.whole = e.Logits
	two := Versus(o.whole, o.target)
	e.Logits = append(pair[:0], two[:]...)
	if down {
		e.Loss = -e.Loss
		for i, g := range e.Gradient {
			e.Gradient[i] = -g
		}
	}
	return err
}
