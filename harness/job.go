package harness

import (
	"context"
	"fmt"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// job runs one model of one suite.
func (r *runner) job(ctx context.Context, j Job) error {
	set, net, recipes, err := r.prepare(j)
	if err != nil {
		return err
	}
	defer net.Close()
	subjects := []subject{plain(net)}
	for _, name := range j.Suite.Controls {
		c, err := r.controller(ctx, net, r.cfg.Control(name), true)
		if err != nil {
			return err
		}
		defer c.Close()
		subjects = append(subjects, controlled(net, c))
	}
	r.gallery.begin()
	mode := r.whitebox
	if j.Suite.Mode == result.Oblivious {
		mode = r.oblivious
	}
	if err := mode(ctx, j, net, subjects, recipes, set); err != nil {
		return err
	}
	return r.exhibit(ctx, j, net)
}

// oblivious attacks the undefended network and gives the same images to every subject.
func (r *runner) oblivious(ctx context.Context, j Job, net *control.Network, subjects []subject, recipes []attacks.Recipe, set []attacks.Image) error {
	clean := untouched(set)
	before := make([][]verdict, len(subjects)) // on clean images
	for i, s := range subjects {
		var err error
		if before[i], err = r.score(ctx, j, net, s, nil, clean, attacks.Recipe{}, set, nil); err != nil {
			return err
		}
	}
	for i, a := range j.Attacks {
		made, err := r.crafted(ctx, j, undefended(net, subjects[0]), a, r.seed, recipes[i], set, before[0])
		if err != nil {
			return err
		}
		for k, s := range subjects {
			if _, err := r.score(ctx, j, net, s, &a, made, recipes[i], set, before[k]); err != nil {
				return err
			}
		}
		if err := r.save(j, net, config.None, a, made); err != nil {
			return err
		}
	}
	return r.otherSeeds(ctx, j, undefended(net, subjects[0]), recipes, set, subjects, before)
}

// whitebox attacks every subject on its own.
func (r *runner) whitebox(ctx context.Context, j Job, net *control.Network, subjects []subject, recipes []attacks.Recipe, set []attacks.Image) error {
	clean := untouched(set)
	for _, s := range subjects {
		at := undefended(net, s)
		if s.controller != nil {
			var err error
			if at, err = defended(s, j.Suite.Mode); err != nil {
				return fmt.Errorf("suite %s: %w", j.Suite.Name, err)
			}
		}
		err := r.attackEach(ctx, j, net, at, clean, recipes, set)
		at.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// attackEach scores a target on clean images and under every attack on it.
func (r *runner) attackEach(ctx context.Context, j Job, net *control.Network, at *target, clean *crafted, recipes []attacks.Recipe, set []attacks.Image) error {
	before, err := r.score(ctx, j, net, at.subject, nil, clean, attacks.Recipe{}, set, nil)
	if err != nil || before == nil {
		return err // a loop that diverges on clean images is not attacked
	}
	for i, a := range j.Attacks {
		made, err := r.crafted(ctx, j, at, a, r.seed, recipes[i], set, before)
		if err != nil {
			return err
		}
		if _, err := r.score(ctx, j, net, at.subject, &a, made, recipes[i], set, before); err != nil {
			return err
		}
		if err := r.save(j, net, at.subject.defense, a, made); err != nil {
			return err
		}
	}
	return r.otherSeeds(ctx, j, at, recipes, set, []subject{at.subject}, [][]verdict{before})
}

// untouched are the clean images as if an attack had made them.
func untouched(set []attacks.Image) *crafted {
	n := len(set)
	c := &crafted{images: make([][]float32, n), norms: make([]float64, n), first: make([]int, n), queries: make([]int, n), nearest: make([]float64, n), steps: []result.Step{}}
	for i, im := range set {
		c.images[i], c.first[i], c.queries[i] = im.Pixels, -1, -1
	}
	return c
}

// crafted runs an attack on a target under a seed, unless the run has done so before.
func (r *runner) crafted(ctx context.Context, j Job, at *target, a PlannedAttack, seed uint64, recipe attacks.Recipe, set []attacks.Image, before []verdict) (*crafted, error) {
	key := j.key(a, at.subject.defense, seed)
	use := r.uses[key]
	made := use.made
	if made == nil {
		label := fmt.Sprintf("[%d/%d] %s, %s", r.cells+1, r.planned, j.Model.Name, a.Name)
		if len(a.Epsilons) > 1 {
			label += " " + fraction(a.Epsilon)
		}
		if at.subject.controller != nil {
			label += ", " + j.Suite.Mode + " " + at.subject.defense
		}
		if seed != r.seed {
			label += fmt.Sprintf(", seed %d", seed)
		}
		verdictOnly := !use.images && !recipe.Minimises
		var err error
		if made, err = r.craft(ctx, at, label, recipe, seed, verdictOnly, set, before); err != nil {
			return nil, fmt.Errorf("suite %s, %s, attack %s: %w", j.Suite.Name, at.subject.what, a.Name, err)
		}
		use.made = made
	}
	if use.left--; use.left == 0 {
		use.made = nil // the images of a whole run would fill the memory
	}
	return made, nil
}

// save writes the images of an attack where the suite asks for them.
func (r *runner) save(j Job, net *control.Network, defense string, a PlannedAttack, made *crafted) error {
	if !j.Suite.SaveAdversarial {
		return nil
	}
	return r.journal.adversarial(j, defense, a, net.Shape(), made.images)
}
