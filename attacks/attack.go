// Package attacks owns the adversarial attacks: PGD, the components of AutoAttack (APGD, FAB, Square) in ℓ∞, ℓ2 and ℓ1,
// the attacks that minimise the norm, in ℓ0 too, and those that see labels alone. A caller describes an attack by a
// [Setup], turns it into a [Recipe] by [Setup.Make], asks each method's Check, and calls Perturb for each image.
//
// An attack works on one image at a time and asks an [Oracle] for logits and gradients; the oracle does the batching.
// The outcome for an image depends only on its pixels and id, the classifier, the attack and the seed. An attack
// proposes and never judges itself: its caller measures the perturbation and asks the classifier again.
package attacks

import (
	"context"
	"fmt"
	"math"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// Shape is the shape of one image: channels, height, width.
type Shape struct{ C, H, W int }

// Size returns the number of values in one image, C·H·W.
func (s Shape) Size() int { return s.C * s.H * s.W }

// Row reports whether the images are rows of features.
func (s Shape) Row() bool { return s.C*s.H == 1 }

// AnyShape stands in for the shape of images that are not known yet. It passes every attack's Check at any epsilon.
var AnyShape = Shape{C: 3, H: 1 << 14, W: 1 << 14}

// Image is one clean image and its label.
type Image struct {
	ID     int       // index in its data set; keys the random numbers
	Pixels []float32 // C·H·W values in [0,1], row-major CHW; attacks never write to it
	Label  int       // in [0, classes)
	Target int       // the class that [FileTarget] aims at, in [0, classes)
	Truth  []float32 // what the head of a task compares the answer with; nil for classification
}

type truthKey struct{}

// About returns a context for questions about an image. By it an oracle knows the image's truth, see [TruthOf].
func About(ctx context.Context, im Image) context.Context {
	if im.Truth == nil {
		return ctx
	}
	return context.WithValue(ctx, truthKey{}, im.Truth)
}

// TruthOf returns the truth of the image that a question is about, or nil.
func TruthOf(ctx context.Context) []float32 {
	truth, _ := ctx.Value(truthKey{}).([]float32)
	return truth
}

// Evaluation holds the results of one forward and one backward pass at a point.
type Evaluation struct {
	Logits   []float32 // one value a class
	Loss     float32   // the loss asked for; attacks maximise it
	Gradient []float32 // ∂Loss/∂x, C·H·W
}

// Oracle answers an attack's questions about one classifier on [0,1] images. Many goroutines may call its methods at
// once, one call per image; the answer for an image does not depend on which other calls are under way.
type Oracle interface {
	Shape() Shape
	Classes() int
	// Logits writes the logits at x into out (len Classes). One forward pass.
	Logits(ctx context.Context, x, out []float32) error
	// Gradient evaluates loss and its gradient at x: one forward and one backward pass. target is read only by
	// targeted losses. The slices of e are reused when they are long enough and allocated otherwise.
	Gradient(ctx context.Context, x []float32, loss Loss, label, target int, e *Evaluation) error
}

// Vanished is the ℓ2 norm below which a gradient counts as 0. Attacks divide by the norm plus 1e-12, so a smaller one
// would shorten their steps.
const Vanished = 1e-11

// Result holds what an attack found for one image.
type Result struct {
	// Adversarial is the perturbed image, or nil if the attack never succeeded (the caller then keeps the clean image).
	Adversarial []float32
	// FirstSuccess is the number of iterations (queries for Square), over targets and restarts, made before the image
	// was first misclassified: 0 for the very first start point; -1 if never. Points outside the ball don't count.
	FirstSuccess int
	// FirstForward is the number of forward passes made when FirstSuccess was set, including the pass at that point and
	// those that ranked the targets; -1 if it never was.
	FirstForward int
	// Iterations is the number of iterations made, over targets and restarts.
	Iterations int
	// Forward and Backward count model passes spent on this image.
	Forward, Backward int
	// Distance is the smallest norm of a misclassified point found by an attack that minimises the norm, whether or not
	// it is ≤ epsilon. It is 0 for other attacks and if no such point was found.
	Distance float64
	// Nearer lists, for such attacks, each misclassified point that was nearer than all before it, in order.
	Nearer []Nearer
	// Starts counts the runs that began with a gradient, over targets and restarts. Blind counts those whose first
	// gradient had no direction: every value was 0 or below the smallest normal float32.
	Starts, Blind int
	// Pose is the pose of Adversarial, for an attack that moves images.
	Pose *Pose
	// Rounded tells how rounding to 8-bit levels changed the outcome, for attacks on 8-bit pixels.
	Rounded Rounding
}

// Nearer gives the distance of a point and the iterations and forward passes made until it was found.
type Nearer struct {
	Distance   float64 `json:"distance"`
	Iterations int     `json:"iterations"`
	Forward    int     `json:"forward"`
}

// Method is an attack on an image or a certificate for it.
type Method interface {
	// Name is the component's name in results: "apgd-ce", "square", …
	Name() string
	// Check returns an error if the method can't be used on a classifier with these classes and image shape, such as
	// too few classes for a loss or too small an image.
	Check(classes int, shape Shape) error
	// Passes bounds the forward and backward passes for one image. The bound is exact for an image that is never
	// broken, except for methods that may give up (FAB, Bisection, Auto-PGD), have no room (patch), have nothing to
	// refine or repair, or face classes that can't win.
	Passes(classes int) (forward, backward int)
}

// common holds the fields that all methods share.
type common struct {
	name    string
	Norm    Norm
	Epsilon float64 // radius in the norm, in pixel units of [0,1]; the largest distance accepted
	Loss    Loss    // the loss to maximise
	alone   bool    // whether the attack is run by itself, not within a recipe of several, and sees more than labels
	stored  bool    // whether only images on 8-bit levels count
}

func (c common) Name() string { return c.name }

// Needs returns nothing: the oracle's own gradient will do.
func (c common) Needs() Needs { return Needs{} }

// Check returns an error for too few classes for the loss, and for an epsilon that is too large for every image.
func (c common) Check(classes int, s Shape) error {
	switch widest := c.Norm.Widest(s); {
	case !(c.Epsilon > 0) || math.IsInf(c.Epsilon, 1):
		return fmt.Errorf("%s: epsilon must be positive and finite, not %v", c.name, c.Epsilon)
	case s.C < 1 || s.H < 1 || s.W < 1:
		return fmt.Errorf("%s: images of %dx%dx%d have no pixels", c.name, s.C, s.H, s.W)
	case s != AnyShape && c.Epsilon > widest:
		return fmt.Errorf("%s: epsilon %.6g is too large: images of %dx%dx%d are at most %.6g apart in %s",
			c.name, c.Epsilon, s.C, s.H, s.W, widest, c.Norm)
	case c.Epsilon >= 1e9:
		return fmt.Errorf("%s: epsilon %.6g is larger than any image", c.name, c.Epsilon)
	case c.Norm == L0 && c.Epsilon != math.Trunc(c.Epsilon):
		return fmt.Errorf("%s: epsilon in l0 is a number of changed values, a whole one, not %v", c.name, c.Epsilon)
	case classes < c.Loss.MinClasses():
		return fmt.Errorf("%s: the %s loss needs at least %d classes, the model has %d", c.name, c.Loss,
			c.Loss.MinClasses(), classes)
	}
	return nil
}

// Attack perturbs one image within its norm ball. Implementations are values
// without mutable state: Perturb may be called from many goroutines at once.
type Attack interface {
	Method
	Needs() Needs
	// Perturb attacks im. The caller guarantees that the classifier is right on the clean image. Perturb returns ctx's
	// error when cancelled.
	Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error)
}

// Options are the caller's choices for one image.
type Options struct {
	Seed uint64 // with the image's ID it keys the random numbers
	// VerdictOnly says that nobody needs the adversarial image, so that the attack ends at the first point that counts
	// as a success. It breaks the same images at the same iterations; the point returned is the first one found instead
	// of the last or nearest.
	VerdictOnly bool
	Memory      *Memory // keeps the attack's state; nil for none
	// Others returns images of other classes, or of the one to reach, the nearest first. Attacks that start there take
	// it; nil for none.
	Others func() ([][]float32, error)
}

// others returns the images of Options.Others.
func (o Options) others() ([][]float32, error) {
	if o.Others == nil {
		return nil, nil
	}
	return o.Others()
}

// Limit bounds how an attack without norm may change an image. Limits that allow the same changes are equal.
type Limit interface {
	// Outside returns a sentence that says how a result on a clean image exceeds the limit; "" if it does not.
	Outside(clean []float32, made Result, s Shape) string
	// Hidden says why the image alone, without the result's other fields, does not show that the limit is exceeded; ""
	// if it does.
	Hidden() string
}

// Certificate is proved for a clean image. Its caller computes the proof.
type Certificate interface {
	Method
	// Proof says how the certificate is proved and how cells store the result.
	Proof() Proof
}

// Proof says how a certificate is proved and how cells store the result.
type Proof struct {
	Exact   bool   // for the network in its file's form, not one rewritten to be faster
	Random  bool   // each seed has its own proof
	Spans   bool   // one computation decides every epsilon
	Samples int    // answers of its classifier to each image that an attack has changed
	Smooths bool   // of another classifier than the attacked one, whose images have ℓ2 radii
	Gaps    bool   // it finds for each image the radii that it withstands and does not, and has no epsilon
	Cost    string // for a listing; %s stands for a number of forward passes
}

// Recipe is a named, versioned sequence of attacks. As in AutoAttack, each attack is run on the images that all before
// it left unbroken, from the clean image.
type Recipe struct {
	Name       string // "autoattack-standard/1"; the number rises when its results may change
	Norm       Norm
	Epsilon    float64
	Components []Attack
	// Fallback is a sentence that says which losses were replaced because the model has too few classes for them, and
	// whether Square was left out; "" if nothing was. The name then ends in "-few".
	Fallback string
	// Minimises is set if the recipe is a single attack that minimises the norm: it is run to learn the distances.
	Minimises bool
	// Free is set if the attack has neither norm nor epsilon: any image is allowed. They are then ℓ∞ and 1 here.
	Free bool
	// Labels is set if the attack sees only predicted classes.
	Labels bool
	// Limit bounds the changes of an attack without norm; nil for attacks in a norm.
	Limit Limit
	// Stored is set if only images on 8-bit levels count.
	Stored bool
	// Aim is the class that must be reached; the zero value is any wrong one.
	Aim Aim
	// Corruption makes the images instead of components; norm and epsilon then have no meaning. Nil for an attack.
	Corruption *Corruption
	// Certificate is proved for the clean images instead of attacking them. Nil for an attack.
	Certificate Certificate
}

// On returns the recipe for images of a shape. Rows of features have no windows of 5 pixels a side, with which Square
// starts in ℓ2 and ℓ1: a recipe of several attacks leaves it out.
func (r Recipe) On(s Shape) Recipe {
	kept := lists.Only(r.Components, func(a Attack) bool { return a.Name() != "square" })
	if !s.Row() || r.Norm == Linf || len(kept) == 0 || len(kept) == len(r.Components) {
		return r
	}
	if r.Components = kept; r.Fallback == "" {
		r.Name = strings.Replace(r.Name, "/", "-few/", 1)
	} else {
		r.Fallback += "; "
	}
	r.Fallback += fmt.Sprintf("rows of features have no windows for square in %s, which is left out", r.Norm.Title())
	return r
}

// Methods returns the components, or the certificate.
func (r Recipe) Methods() (all []Method) {
	for _, c := range r.Components {
		all = append(all, c)
	}
	if r.Certificate != nil {
		all = append(all, r.Certificate)
	}
	return all
}

// times multiplies counts of passes. It caps the product at 2⁵⁰, more than any machine can make, so that sums do not
// overflow.
func times(counts ...int) int { return int(min(number.Product(counts...), 1<<50)) }

// Passes bounds the forward and backward passes for one image. A certificate's counts are exact, unless it may end
// early.
func (r Recipe) Passes(classes int) (forward, backward int64) {
	for _, m := range r.Methods() {
		f, b := m.Passes(classes)
		forward, backward = forward+int64(f), backward+int64(b)
	}
	return forward, backward
}
