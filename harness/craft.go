package harness

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"selfheal/attacks"
	"selfheal/control"
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

// gradients is what was seen of an attack's gradients, by the number of images.
type gradients struct {
	images    int // attacked by a component that takes gradients
	zero      int // a run began where the gradient was exactly 0
	notFinite int // a gradient or loss was infinite or NaN
}

// craft runs a recipe's components in order on a target, each on the images that it
// still classifies correctly, from the clean image. After each component the judge
// measures what it returned and asks the classifier again; only that decides.
func (r *runner) craft(ctx context.Context, at *target, label string, recipe attacks.Recipe, set []attacks.Image, clean []verdict) (*crafted, error) {
	start := time.Now()
	c := untouched(set)
	robust := make([]bool, len(set))
	spent, asked := make([]int, len(set)), make([]int, len(set)) // iterations and forward passes of the components before
	standing := 0
	for i := range set {
		if robust[i] = clean[i].right; robust[i] {
			standing++
		}
	}
	var wrong atomic.Int64
	seen := make([]watched, len(set))
	for _, component := range recipe.Components {
		var todo []int
		for i := range set {
			if robust[i] {
				todo = append(todo, i)
			}
		}
		if len(todo) == 0 {
			break
		}
		began := time.Now()
		oracle := &counted{target: at}
		f, b := component.Passes(at.Classes())
		p := r.progress.component(label, component.Name(), len(todo), standing, len(set), int64(len(todo))*int64(f+b), oracle)
		var mu sync.Mutex // guards standing
		err := r.forEach(ctx, len(todo), attackState(at.Shape())+at.state, func(ctx context.Context, k int) error {
			i := todo[k]
			w := &watch{counted: oracle, seen: &seen[i]}
			res, err := component.Perturb(ctx, w, set[i], r.seed)
			if err != nil {
				return err
			}
			broken := false
			if res.Adversarial != nil {
				d, err := measure(recipe.Norm, recipe.Epsilon, set[i].Pixels, res.Adversarial)
				if err != nil {
					return fmt.Errorf("%s, image %d: %w", component.Name(), set[i].ID, err)
				}
				a, err := at.subject.ask(ctx, res.Adversarial)
				if err != nil {
					return err
				}
				if broken = control.Predict(a.logits) != set[i].Label; broken {
					c.images[i], c.norms[i], c.first[i], c.queries[i] = res.Adversarial, d, spent[i]+res.FirstSuccess, asked[i]+res.FirstForward
				} else {
					wrong.Add(1)
				}
			}
			spent[i] += res.Iterations
			asked[i] += res.Forward
			if d := res.Distance; d > 0 && (c.nearest[i] == 0 || d < c.nearest[i]) {
				c.nearest[i] = d
			}
			mu.Lock()
			defer mu.Unlock()
			if broken {
				robust[i] = false
				standing--
			}
			p.image(standing)
			return nil
		})
		if err != nil {
			p.stop()
			return nil, err
		}
		p.finish(standing)
		forward, backward := oracle.passes()
		c.steps = append(c.steps, result.Step{
			Attack: component.Name(), Attacked: len(todo), Robust: float64(standing) / float64(len(set)),
			Forward: forward, Backward: backward, Seconds: time.Since(began).Seconds(),
		})
	}
	c.wrong = int(wrong.Load())
	for _, w := range seen {
		c.gradients.count(w)
	}
	c.robust = robust
	if recipe.Norm == attacks.Linf && c.gradients.images > 0 {
		var err error
		if c.warnings, err = r.unbounded(ctx, at, set, c); err != nil {
			return nil, err
		}
	}
	c.seconds = time.Since(start).Seconds()
	return c, nil
}
