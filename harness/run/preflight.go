package run

import (
	"context"
	"fmt"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/certify"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/models/ort"
)

// preflight opens everything that a run will need, before an hour is spent on the first model and the last one turns
// out to be missing.
type preflight struct {
	plan.Idle
	*open.Opener
	ctx  context.Context
	near map[string]bool // models whose gradients are those of the judge where attacks run
}

// Preflight sees whether a plan's files are there and fit each other.
func Preflight(ctx context.Context, o *open.Opener, p *plan.Plan) error {
	err := p.Walk(preflight{Opener: o, ctx: ctx, near: map[string]bool{}})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return open.Wrong(err)
}

// Begin opens a job, closes its loops, and differentiates them where attacks will.
func (p preflight) Begin(j *plan.Job) error {
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	b, err := p.Job(j)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := p.comparable(b); err != nil {
		return err
	}
	if slices.ContainsFunc(j.Trials, plan.Trial.Exact) {
		if err := certify.Provable(b.Net.Graph); err != nil {
			return fmt.Errorf("model %s: %w", b.Net.Name, err)
		}
	}
	gradients := !j.Oblivious() &&
		slices.ContainsFunc(b.Recipes, func(r attacks.Recipe) bool { return open.TakesGradients(r, b.Net.Classes()) })
	for _, name := range j.Suite.Controls {
		if err := p.control(b, name, gradients); err != nil {
			return err
		}
	}
	return p.study(j, b.Net)
}

// control closes the loop of a control.
func (p preflight) control(b *open.Job, name string, gradients bool) error {
	loop, err := p.Controller(p.ctx, b.Net, p.Config.Control(name), false)
	if err != nil {
		return err
	}
	defer loop.Close()
	if !gradients {
		return nil
	}
	on, err := b.Oracle(open.Under(loop, b.Net))
	if err != nil {
		return err
	}
	defer on.Close()
	return on.Prepare(attacks.CrossEntropy)
}

// study closes the loops of a job's study and sees whether its attack can be made.
func (p preflight) study(j *plan.Job, net *control.Network) error {
	if !j.Studies() {
		return nil
	}
	if j.Studied != nil {
		if _, err := open.RecipeFor(j.Studied, net); err != nil {
			return err
		}
	}
	for _, name := range j.Suite.Solver.Controls {
		c, err := p.Controller(p.ctx, net, p.Config.Control(name), false)
		if err != nil {
			return err
		}
		c.Close()
	}
	return nil
}

// comparedImages is how many images' gradients are compared.
const comparedImages = 8

// comparable refuses a provider whose gradients are not those of the CPU provider, which judges. Where that does not
// judge, as on a device, a small pool on the CPU computes the same.
func (p preflight) comparable(b *open.Job) error {
	onCPU := !p.Pool.Target(true).Row().All
	if b.Attacked == b.Net && onCPU || p.near[b.Model.Name] {
		return nil
	}
	reference := b.Net
	if !onCPU {
		pool := ort.NewPool(0, comparedImages)
		defer pool.Close()
		here, err := p.NetworkOn(pool, b.Model, false)
		if err != nil {
			return err
		}
		defer here.Close()
		reference = here
	}
	apart, err := control.Apart(p.ctx, reference, b.Attacked, min(comparedImages, b.Set.Len()), b.Set.Read)
	if err == nil {
		err = apart.Check()
	}
	if err != nil {
		return fmt.Errorf("model %s: %w; take provider cpu", b.Model.Name, err)
	}
	p.near[b.Model.Name] = true
	return nil
}
