// Package attacks holds the adversarial attacks: PGD and the components of AutoAttack (APGD, FAB, Square) in ℓ∞, ℓ2
// and ℓ1, and those that look for the smallest norm, in ℓ0 too.
//
// An attack works on one image at a time and asks an [Oracle] for logits and gradients; batching is the oracle's
// business. An image's outcome therefore depends on its pixels and id, the classifier, the attack and the seed, and
// on nothing else. An attack proposes; it never judges itself: whoever runs it measures the perturbation and asks the
// classifier again.
package attacks

import (
	"context"
	"fmt"
	"math"

	"selfheal/internal/number"
)

// Shape is the shape of one image: channels, height, width.
type Shape struct{ C, H, W int }

// Size returns the number of values in one image, C·H·W.
func (s Shape) Size() int { return s.C * s.H * s.W }

// AnyShape stands for images that are not known yet, which suit any attack and any epsilon.
var AnyShape = Shape{C: 3, H: 1 << 14, W: 1 << 14}

// Image is one clean image and its label.
type Image struct {
	ID     int       // index in its data set; keys the random numbers
	Pixels []float32 // C·H·W values in [0,1], row-major CHW; attacks never write to it
	Label  int       // in [0, classes)
}

// Evaluation is what one forward and one backward pass give at a point.
type Evaluation struct {
	Logits   []float32 // one value a class
	Loss     float32   // the loss asked for; attacks maximise it
	Gradient []float32 // ∂Loss/∂x, C·H·W
}

// Oracle answers an attack's questions about one classifier on [0,1] images. Its methods may be called from many
// goroutines at once, one call an image; the answer for an image does not depend on which other calls are under way.
type Oracle interface {
	Shape() Shape
	Classes() int
	// Logits writes the logits at x into out (len Classes). One forward pass.
	Logits(ctx context.Context, x, out []float32) error
	// Gradient evaluates loss and its gradient at x: one forward and one backward pass. target is read only by
	// targeted losses. The slices of e are reused when they are long enough and allocated otherwise.
	Gradient(ctx context.Context, x []float32, loss Loss, label, target int, e *Evaluation) error
}

// Vanished is the ℓ2 norm below which a gradient counts as 0: attacks divide by it plus 1e-12, for shorter steps.
const Vanished = 1e-11

// Result is what an attack returns for one image.
type Result struct {
	// Adversarial is the perturbed image, or nil when the attack never
	// succeeded (the caller then keeps the clean image).
	Adversarial []float32
	// FirstSuccess is how many iterations (queries for Square) had been made,
	// over targets and restarts, when the image was first misclassified: 0 for
	// the very first start point; -1 if never. Points outside the ball don't count.
	FirstSuccess int
	// FirstForward is how many forward passes had been made, that of the point itself and those that ranked the
	// targets included, when FirstSuccess was set; -1 if it never was.
	FirstForward int
	// Iterations is how many iterations (over targets and restarts) were made.
	Iterations int
	// Forward and Backward count model passes spent on this image.
	Forward, Backward int
	// Distance is the smallest norm of a misclassified point found, whether or not it is ≤ epsilon, for attacks that
	// minimise the norm. 0 for other attacks, and where no such point was found.
	Distance float64
	// Nearer are the misclassified points that were nearer than all before, in order, of such attacks.
	Nearer []Nearer
	// Starts counts the runs that began with a gradient, over targets and restarts, and Blind those of them whose first
	// gradient was 0 in every value, or below the smallest normal float32: such a run has no direction to go.
	Starts, Blind int
	// Pose is where Adversarial is moved to, of an attack that moves images.
	Pose *Pose
	// Rounded is what rounding to levels did to the image, of attacks on pixels of 8 bits.
	Rounded Rounding
}

// Nearer says at which distance a point was found, and after how many iterations and forward passes.
type Nearer struct {
	Distance   float64 `json:"distance"`
	Iterations int     `json:"iterations"`
	Forward    int     `json:"forward"`
}

// Method is what is tried on an image, or proven of it.
type Method interface {
	// Name is the component's name in results: "apgd-ce", "square", …
	Name() string
	// Check reports why the method can't be used on a classifier with these
	// classes and image shape (too few classes for a loss, too small an image), or nil.
	Check(classes int, shape Shape) error
	// Passes bounds the forward and backward passes for one image. For an image that is never broken they are exact,
	// except for what may give up (FAB, Bisection, Auto-PGD), have no room (patch) or nothing to refine or to mend, and
	// where classes can't win.
	Passes(classes int) (forward, backward int)
}

// common is what all methods have.
type common struct {
	name    string
	Norm    Norm
	Epsilon float64 // radius in the norm, in pixel units of [0,1]; the largest distance accepted
	Loss    Loss    // what is climbed
	alone   bool    // whether the attack is run by itself, not in a recipe of several, and sees more than labels
	stored  bool    // whether the images that count lie on the levels of 8 bits
}

func (c common) Name() string { return c.name }

// Check reports too few classes for the loss and an epsilon that no image is large enough for.
func (c common) Check(classes int, s Shape) error {
	switch widest := c.Norm.widest(s); {
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
	// Perturb attacks im. The caller guarantees that the classifier is right on
	// the clean image. It returns ctx's error when cancelled.
	Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error)
}

// Options are what the caller of an attack decides.
type Options struct {
	Seed uint64 // with the image's ID it keys the random numbers
	// VerdictOnly says that nobody needs the adversarial image: the attack ends at the first
	// point that counts as a success. Which images it breaks, and when, stays the same; the
	// point returned is the first found instead of the last or nearest one.
	VerdictOnly bool
}

// Limit is what an attack without norm may make of an image. Limits that allow the same are equal.
type Limit interface {
	// Outside says in a sentence what of a result on a clean image exceeds the limit; "" where nothing does.
	Outside(clean []float32, made Result, s Shape) string
	// Visible reports whether that shows in the image alone, without what else the result says.
	Visible() bool
}

// Certificate is proven of a clean image. Whoever runs it proves it.
type Certificate interface {
	Method
	// Proof says how it is proven, and how cells hold what is proven.
	Proof() Proof
}

// Proof says how a certificate is proven, and how cells hold what is proven.
type Proof struct {
	Exact    bool   // of the network as its file has it, not of one that is rewritten to be faster
	Random   bool   // anew under each seed
	Spans    bool   // one computation decides every epsilon
	Brackets bool   // no epsilon is given: it tells what each image withstands
	Samples  int    // answers that its classifier gives to each image that an attack has changed
	Cost     string // for a listing; %s stands for a number of forward passes
}

// Recipe is a named, versioned sequence of attacks; each is run on the images
// that all before it left unbroken, from the clean image, as AutoAttack does.
type Recipe struct {
	Name       string // "autoattack-standard/1"; the number rises when its results may change
	Norm       Norm
	Epsilon    float64
	Components []Attack
	// Fallback says, as a sentence, which losses were replaced because the model
	// has too few classes for them; "" if none was. The name then says "-few".
	Fallback string
	// Minimises says that it is one attack that looks for the smallest norm: the distances
	// that it finds are what it is run for.
	Minimises bool
	// Free says that the attack has neither norm nor epsilon, which are ℓ∞ and 1 here: any image.
	Free bool
	// Labels says that nothing but classes is asked for.
	Labels bool
	// Limit holds what an attack without norm makes of an image; nil for attacks in a norm.
	Limit Limit
	// Stored says that all values of the images that count lie on the levels of 8 bits.
	Stored bool
	// Corruption makes the images instead of components; norm and epsilon are then nothing. Nil for an attack.
	Corruption *Corruption
	// Certificate is proven of the clean images instead of attacking them. Nil for an attack.
	Certificate Certificate
}

// Methods are the components, or the certificate.
func (r Recipe) Methods() (all []Method) {
	for _, c := range r.Components {
		all = append(all, c)
	}
	if r.Certificate != nil {
		all = append(all, r.Certificate)
	}
	return all
}

// times multiplies counts of passes. More than any machine makes are all the same: sums of them do not overflow.
func times(counts ...int) int { return int(min(number.Product(counts...), 1<<50)) }

// Passes bounds the forward and backward passes for one image. A certificate's are exact, unless it may end early.
func (r Recipe) Passes(classes int) (forward, backward int64) {
	for _, m := range r.Methods() {
		f, b := m.Passes(classes)
		forward, backward = forward+int64(f), backward+int64(b)
	}
	return forward, backward
}
