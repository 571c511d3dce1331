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
	steps   []result.Step
	seconds float64
	wrong   int // successes that an attack claimed and the judge did not see
}

// craft runs a recipe's components in order, each on the images that are still
// classified correctly, from the clean image. After each component the judge
// measures what it returned and asks the classifier again; only that decides.
func (r *runner) craft(ctx context.Context, net *control.Network, label string, recipe attacks.Recipe, set []attacks.Image, clean []verdict) (*crafted, error) {
	start := time.Now()
	c := &crafted{images: make([][]float32, len(set)), norms: make([]float64, len(set)), first: make([]int, len(set)), steps: []result.Step{}}
	robust := make([]bool, len(set))
	spent := make([]int, len(set)) // iterations of the components before
	standing := 0
	for i, im := range set {
		c.images[i], c.first[i] = im.Pixels, -1
		if robust[i] = clean[i].right; robust[i] {
			standing++
		}
	}
	var wrong atomic.Int64
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
		oracle := &counted{Oracle: net}
		f, b := component.Passes(net.Classes())
		p := r.progress.component(label, component.Name(), len(todo), standing, len(set), int64(len(todo))*int64(f+b), oracle)
		var mu sync.Mutex // guards standing
		err := r.forEach(ctx, len(todo), attackState(net.Shape()), func(ctx context.Context, k int) error {
			i := todo[k]
			res, err := component.Perturb(ctx, oracle, set[i], r.seed)
			if err != nil {
				return err
			}
			broken := false
			if res.Adversarial != nil {
				d, err := measure(recipe.Norm, recipe.Epsilon, set[i].Pixels, res.Adversarial)
				if err != nil {
					return fmt.Errorf("%s, image %d: %w", component.Name(), set[i].ID, err)
				}
				z := make([]float32, net.Classes())
				if err := net.Logits(ctx, res.Adversarial, z); err != nil {
					return err
				}
				if broken = control.Predict(z) != set[i].Label; broken {
					c.images[i], c.norms[i], c.first[i] = res.Adversarial, d, spent[i]+res.FirstSuccess
				} else {
					wrong.Add(1)
				}
			}
			spent[i] += res.Iterations
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
		c.steps = append(c.steps, result.Step{
			Attack: component.Name(), Attacked: len(todo), Robust: float64(standing) / float64(len(set)),
			Forward: oracle.forward.Load(), Backward: oracle.backward.Load(), Seconds: time.Since(began).Seconds(),
		})
	}
	c.wrong = int(wrong.Load())
	c.seconds = time.Since(start).Seconds()
	return c, nil
}

// counted counts the passes that go through an oracle: what an attack really
// cost, whatever it says itself.
type counted struct {
	attacks.Oracle
	forward, backward atomic.Int64
}

func (o *counted) Logits(ctx context.Context, x, out []float32) error {
	o.forward.Add(1)
	return o.Oracle.Logits(ctx, x, out)
}

func (o *counted) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int, e *attacks.Evaluation) error {
	o.forward.Add(1)
	o.backward.Add(1)
	return o.Oracle.Gradient(ctx, x, loss, label, target, e)
}
