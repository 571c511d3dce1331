package harness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"selfheal/attacks"
	"selfheal/harness/result"
)

// crafted is what a recipe made of a set of images against one classifier.
type crafted struct {
	images  [][]float32 // the clean image where the attack never succeeded
	norms   []float64   // 0 there
	first   []int       // iteration of the first success over all components, -1 if never
	queries []int       // forward passes made until then, -1 if never
	nearest []float64   // smallest norm of a misclassified point that an attack which minimises it found, 0 if none did
	robust  []bool      // still right after all components
	steps   []result.Step
	seconds float64
	wrong   int // successes that an attack claimed and the judge did not see
	// verdictOnly says that attacks ended at the first success: the images are
	// adversarial, but not what full strength would have made of them.
	verdictOnly bool
	gradients   gradients
	warnings    []result.Warning
}

// unbroken picks from a subject's verdicts on clean images those that hold for what was
// crafted too, of images that no attack broke; nil where there are none.
func (c *crafted) unbroken(clean []verdict) []*verdict {
	if clean == nil {
		return nil
	}
	known := make([]*verdict, len(clean))
	for i := range clean {
		if c.first[i] < 0 {
			known[i] = &clean[i]
		}
	}
	return known
}

// gradients is what was seen of an attack's gradients, by the number of images.
type gradients struct {
	images    int // attacked by a component that takes gradients
	zero      int // a run began where the gradient was exactly 0
	notFinite int // a gradient or loss was infinite or NaN
}

// craft runs a recipe's components in order on a target, each on the images that it
// still classifies correctly, from the clean image. After each component the judge
// measures what it returned and asks the classifier again; only that decides. With
// verdictOnly nobody needs the images, and an attack ends at an image's first success.
func (r *runner) craft(ctx context.Context, at *target, label string, recipe attacks.Recipe, seed uint64, verdictOnly bool, set []attacks.Image, clean []verdict) (*crafted, error) {
	start := time.Now()
	w := &workshop{crafted: untouched(set), at: at, recipe: recipe, verdictOnly: verdictOnly, set: set, seed: seed,
		spent: make([]int, len(set)), asked: make([]int, len(set)), seen: make([]watched, len(set))}
	w.crafted.verdictOnly = verdictOnly
	w.robust = make([]bool, len(set))
	for i := range set {
		if w.robust[i] = clean[i].right; w.robust[i] {
			w.standing++
		}
	}
	for _, component := range recipe.Components {
		var todo []int
		for i := range set {
			if w.robust[i] {
				todo = append(todo, i)
			}
		}
		if len(todo) == 0 {
			break
		}
		began := time.Now()
		oracle := &counted{target: at}
		f, b := component.Passes(at.Classes())
		p := r.progress.component(label, component.Name(), len(todo), w.standing, len(set), int64(len(todo))*int64(f+b), oracle)
		err := r.forEach(ctx, len(todo), attackState(at.Shape())+at.state, func(ctx context.Context, k int) error {
			standing, err := w.attack(ctx, component, oracle, todo[k])
			if err == nil {
				p.image(standing)
			}
			return err
		})
		if err != nil {
			p.stop()
			return nil, err
		}
		p.finish(w.standing)
		forward, backward := oracle.passes()
		w.steps = append(w.steps, result.Step{
			Attack: component.Name(), Attacked: len(todo), Robust: float64(w.standing) / float64(len(set)),
			Forward: forward, Backward: backward, Seconds: time.Since(began).Seconds(),
		})
	}
	for _, s := range w.seen {
		w.gradients.count(s)
	}
	w.seconds = time.Since(start).Seconds() // what follows looks for faults, and is no part of the attack
	if recipe.Norm == attacks.Linf && w.gradients.images > 0 {
		var err error
		if w.warnings, err = r.unbounded(ctx, at, set, w.crafted); err != nil {
			return nil, err
		}
	}
	return w.crafted, nil
}

// workshop is the state of crafting. Each image's entries belong to the goroutine that
// attacks it.
type workshop struct {
	*crafted
	at           *target
	recipe       attacks.Recipe
	verdictOnly  bool
	set          []attacks.Image
	seed         uint64
	spent, asked []int // iterations and forward passes of the components before
	seen         []watched

	mu       sync.Mutex // guards what follows, and crafted.wrong
	standing int        // images that are still right
}

// attack runs a component on one image and has its claim judged. It returns how many
// images still stand.
//
// Where a verdict alone was asked for and the judge refutes the claim, as it may at a
// boundary or with random answers, the component is run once more at full strength:
// it would have gone on, and what it returns then is judged instead.
func (w *workshop) attack(ctx context.Context, component attacks.Attack, oracle *counted, i int) (standing int, err error) {
	oracleOf := &watch{counted: oracle, seen: &w.seen[i]}
	first := component
	if w.verdictOnly {
		first = attacks.VerdictOnly(component)
	}
	res, broken, err := w.try(ctx, first, oracleOf, i)
	if err == nil && w.verdictOnly && res.Adversarial != nil && !broken {
		res, broken, err = w.try(ctx, component, oracleOf, i)
	}
	if err != nil {
		return 0, err
	}
	w.spent[i] += res.Iterations
	w.asked[i] += res.Forward
	if d := res.Distance; d > 0 && (w.nearest[i] == 0 || d < w.nearest[i]) {
		w.nearest[i] = d
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if broken {
		w.robust[i] = false
		w.standing--
	} else if res.Adversarial != nil {
		w.wrong++
	}
	return w.standing, nil
}

// try runs an attack on one image; broken is the judge's word on what it returned.
func (w *workshop) try(ctx context.Context, a attacks.Attack, o attacks.Oracle, i int) (res attacks.Result, broken bool, err error) {
	im := w.set[i]
	if res, err = a.Perturb(ctx, o, im, w.seed); err != nil || res.Adversarial == nil {
		return res, false, err
	}
	d, err := measure(w.recipe.Norm, w.recipe.Epsilon, im.Pixels, res.Adversarial)
	if err != nil {
		return res, false, fmt.Errorf("%s, image %d: %w", a.Name(), im.ID, err)
	}
	logits, err := w.at.subject.logits(ctx, res.Adversarial)
	if err != nil {
		return res, false, err
	}
	if broken = attacks.Argmax(logits) != im.Label; broken {
		w.images[i], w.norms[i], w.first[i], w.queries[i] = res.Adversarial, d, w.spent[i]+res.FirstSuccess, w.asked[i]+res.FirstForward
	}
	return res, broken, nil
}
