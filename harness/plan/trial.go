package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/number"
)

// Trial makes a column of cells: an attack or a certificate at one epsilon, an attack without epsilon, or one
// corruption.
type Trial interface {
	Name() string            // the name that cells have
	Setting() *config.Attack // the config's setting to which it belongs
	Epsilon() cell.Epsilon   // the epsilon that cells have
	Norm() *string           // the norm that cells have; nil for corruptions and attacks without norm
	// Within is where its images must lie.
	Within() Ball
	// Recipe returns the attacks, for a classifier with so many classes and images of a shape. The recipe's epsilon
	// may be larger than the trial's; images beyond the trial's then do not count.
	Recipe(classes int, shape attacks.Shape) (attacks.Recipe, error)
	// Describe returns the setting for results.
	Describe() (result.Attack, error)

	// Random reports whether further seeds make it anew.
	Random() bool
	// Of lists the defenses of a group's classifiers that the trial is made of.
	Of(g Group) []string
	// Key identifies what is made of a row's classifier for an attacker of a mode, whatever suites ask for it.
	Key(r cell.Row, mode string, seed uint64) cell.Made
	// Exact reports whether networks run as their files have them, not rewritten to be faster.
	Exact() bool
	// Kept reports whether its images are kept until they are used. saving says whether the run saves adversarial
	// images.
	Kept(saving bool) bool
	// Crafted reports whether its images are made against a network's answers. They may be given to other networks
	// too.
	Crafted() bool
	// Samples is how many answers its classifier takes for each image that an attack of the same job has changed.
	Samples() int64
	// Cost describes, for a listing, the forward and backward passes that it takes at most on a set of images.
	Cost(forward, backward int64, count func(int64) string) string
	// Do calls the maker's method for the trial's kind.
	Do(m Maker, s Step) error
}

// ColumnOf returns a trial's column. Source is "" outside mode transfer.
func ColumnOf(t Trial, source string) cell.Column {
	return cell.Column{Source: source, Attack: t.Name(), Epsilon: t.Epsilon()}
}

// Maker makes the images and certificates of trials.
type Maker interface {
	// Attack makes images on the classifier that a step attacks.
	Attack(s Step) error
	// Corrupt makes the same images for every classifier.
	Corrupt(s Step, c attacks.Corruption) error
	// Certify proves a certificate of every classifier of a step.
	Certify(s Step) error
}

// mostTrials bounds the epsilons of an attack, times its sides.
const mostTrials = 10_000

// Trials lists a setting's trials, at each epsilon or for each corruption, and checks its parameters.
func Trials(a *config.Attack) (all []Trial, err error) {
	if n := number.Product(len(a.Epsilons), max(1, len(a.Sides))); n > mostTrials {
		return nil, fmt.Errorf("attack %s has %d epsilons and sides; %d are the most", a.Name, n, mostTrials)
	}
	for _, c := range a.Corruptions {
		all = append(all, newCorruption(a, c))
	}
	for _, one := range attacksOf(a) {
		recipe, err := one.Recipe(math.MaxInt16, attacks.AnyShape)
		if err != nil {
			return nil, err
		}
		switch {
		case recipe.Certificate != nil:
			all = append(all, certificate{one, recipe.Certificate.Proof()})
		case attacks.Free(a.Kind):
			all = append(all, free{one, a, BallOf(recipe)})
		default:
			all = append(all, one)
		}
	}
	return all, nil
}

// attacksOf lists a setting's attacks at each epsilon, or with each side.
func attacksOf(a *config.Attack) (all []attack) {
	epsilons := a.Epsilons
	if attacks.Brackets(a.Kind) { // a bracket has no epsilon
		epsilons = []float64{1}
	}
	for _, eps := range epsilons {
		if a.Sides == nil {
			all = append(all, attack{a, eps})
		}
		for _, side := range a.Sides {
			one := *a
			one.Name = fmt.Sprintf("%s:%d", a.Name, side)
			one.Parameters = maps.Clone(a.Parameters)
			one.Parameters[attacks.SideName] = side
			all = append(all, attack{&one, eps})
		}
	}
	return all
}

// attack is an attack at one epsilon. Other kinds embed it for the methods that they share.
type attack struct {
	setting *config.Attack
	epsilon float64
}

func (a attack) Name() string            { return a.setting.Name }
func (a attack) Setting() *config.Attack { return a.setting }
func (a attack) Epsilon() cell.Epsilon   { return cell.Epsilon(a.epsilon) }
func (a attack) Norm() *string           { return new(a.setting.Norm.String()) }
func (a attack) Within() Ball {
	aim, _ := attacks.ParseAim(a.setting.Target) // the recipe reports an error
	return Ball{Norm: a.setting.Norm, Epsilon: a.epsilon, Stored: a.setting.Stored(), Aim: aim}
}
func (attack) Random() bool             { return true }
func (attack) Of(g Group) []string      { return []string{g.Attacked} }
func (a attack) Exact() bool            { return a.setting.Prove }
func (attack) Kept(bool) bool           { return true }
func (attack) Crafted() bool            { return true }
func (attack) Samples() int64           { return 0 }
func (attack) Do(m Maker, s Step) error { return m.Attack(s) }

// made returns the epsilon at which images are made.
func (a attack) made() float64 {
	if a.setting.Spans() {
		return slices.Max(a.setting.Epsilons)
	}
	return a.epsilon
}

func (a attack) Key(r cell.Row, mode string, seed uint64) cell.Made {
	k := madeOf(r, a.Name(), a.made(), seed)
	if r.Defense != cell.None {
		k.Mode = mode
	}
	return k
}

func (attack) Cost(forward, backward int64, count func(int64) string) string {
	return fmt.Sprintf("at most %s forward, %s backward", count(forward), count(backward))
}

func (a attack) Recipe(classes int, shape attacks.Shape) (attacks.Recipe, error) {
	r, err := a.setting.Make(a.made(), classes)
	if err != nil {
		return r, fmt.Errorf("attack %s: %w", a.Name(), err)
	}
	r = r.On(shape)
	for _, c := range r.Methods() {
		if err := c.Check(classes, shape); err != nil {
			return r, fmt.Errorf("attack %s: %w", a.Name(), err)
		}
	}
	return r, nil
}

func (a attack) Describe() (result.Attack, error) {
	d, err := a.setting.Describe()
	if err != nil {
		return result.Attack{}, fmt.Errorf("attack %s: %w", a.Name(), err)
	}
	known := result.Attack{Kind: d.Kind, Title: d.Title, Version: d.Version, Recipe: d.Recipe,
		Norm: new(a.setting.Norm.String()), Epsilons: a.setting.Epsilons, Parameters: d.Parameters}
	for _, c := range d.Components {
		known.Components = append(known.Components, result.Component{Kind: c.Kind, Parameters: c.Parameters})
	}
	return known, nil
}

// NormTolerance is the relative excess over epsilon that float32 images can't avoid.
const NormTolerance = 1e-5

// Ball is where an adversarial image must lie, beside the box [0,1]. The zero value holds the clean image alone.
type Ball struct {
	Norm    attacks.Norm
	Epsilon float64
	Stored  bool          // all values lie on the levels k/255, unless the image is the clean one
	Limit   attacks.Limit // limit of an attack without norm, if its images show whether they keep it; else nil
	Aim     attacks.Aim   // the class that breaks an image
}

// Outside is the error about an image that its attack may not return.
type Outside struct {
	Image   int     `json:"image"`            // its id in the data set
	Problem string  `json:"problem"`          // what leaves the ball or the box, and by how much
	Norm    float64 `json:"norm,omitempty"`   // of its perturbation, 0 if it has none
	Excess  float64 `json:"excess,omitempty"` // over epsilon or beyond [0,1], 0 if its values are not numbers
}

// Error returns the problem.
func (e Outside) Error() string { return e.Problem }

// BallOf returns where a recipe's images must lie.
func BallOf(r attacks.Recipe) Ball {
	b := Ball{Norm: r.Norm, Epsilon: r.Epsilon, Stored: r.Stored, Aim: r.Aim}
	if r.Limit != nil && r.Limit.Hidden() == "" {
		b.Limit = r.Limit
	}
	return b
}

// Measure returns the norm of a perturbation of an image of a shape, in float64; nothing else measures it. The error
// is an [Outside].
func (b Ball) Measure(clean, adversarial []float32, shape attacks.Shape) (float64, error) {
	if len(clean) != len(adversarial) {
		return 0, Outside{Problem: fmt.Sprintf("it has %d values, the clean image %d", len(adversarial), len(clean))}
	}
	broken, beyond, between, most := 0, 0, 0, 0.0
	for _, v := range adversarial {
		if b.Stored && attacks.BetweenLevels(v) {
			between++
		}
		switch {
		case v >= 0 && v <= 1:
		case number.Finite(float64(v)):
			beyond++
			most = max(most, float64(-v), float64(v)-1)
		default:
			broken++
		}
	}
	if broken > 0 {
		return 0, Outside{Problem: fmt.Sprintf("%d of its %d values are NaN or infinite", broken, len(adversarial))}
	}
	d, exceeds := b.Norm.Distance(clean, adversarial), ""
	if b.Limit != nil {
		exceeds = b.Limit.Outside(clean, attacks.Result{Adversarial: adversarial}, shape)
	}
	switch {
	case beyond > 0:
		return d, Outside{Norm: d, Excess: most, Problem: fmt.Sprintf(
			"%d of its %d values lie outside [0,1], by up to %.3g", beyond, len(adversarial), most)}
	case between > 0 && d > 0:
		return d, Outside{Norm: d, Problem: fmt.Sprintf("%d of its %d values are on no level k/255 of 8 bits", between,
			len(adversarial))}
	case exceeds != "":
		return d, Outside{Norm: d, Problem: exceeds}
	case !(d <= b.Epsilon*(1+NormTolerance)):
		return d, Outside{Norm: d, Excess: d - b.Epsilon, Problem: fmt.Sprintf("its perturbation has %s norm %.6g, "+
			"%.3g above epsilon %s", b.Norm, d, d-b.Epsilon, number.Format(b.Epsilon))}
	}
	return d, nil
}
