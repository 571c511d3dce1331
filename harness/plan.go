// Package harness runs a config: it plans the cells, opens data, networks and
// controllers, attacks, judges what the attacks return, and writes the results.
package harness

import (
	"fmt"
	"math"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// Plan is what a run will do, in order.
type Plan struct {
	Config *config.Config // the selected part
	Jobs   []Job
}

// Job is one model of one suite: its cells share the network, the controllers
// and, as the suite is oblivious, the adversarial images.
type Job struct {
	Suite       *config.Suite
	Model       *config.Model
	Attacks     []PlannedAttack
	StudyAttack *PlannedAttack // of the suite's solver study; nil for none
}

// PlannedAttack is one attack at one epsilon, or one corruption.
type PlannedAttack struct {
	*config.Attack
	Epsilon float64 // 0 of a corruption
}

// corruption is what makes the images instead of an attack, or nil.
func (a PlannedAttack) corruption() *attacks.Corruption {
	if a.Kind != attacks.CorruptionKind {
		return nil
	}
	return &a.Corruptions[0]
}

// proves reports whether it is a certificate, which is proven of every classifier.
func (a PlannedAttack) proves() bool { return attacks.Proves(a.Kind) }

// bounds reports whether it is a certificate by bounds, in which nothing is random.
func (a PlannedAttack) bounds() bool { return a.proves() && !attacks.Smooths(a.Kind) }

// smooths reports whether it is a certificate of the smoothed classifier at the first of its epsilons: each once, as
// all of them follow from the same passes.
func (a PlannedAttack) smooths() bool { return attacks.Smooths(a.Kind) && a.Epsilon == a.Epsilons[0] }

// searches reports whether it looks for an image that deceives: it is neither a corruption nor a certificate.
func (a PlannedAttack) searches() bool { return a.corruption() == nil && !a.proves() }

// strength is the norm and the epsilon as cells have them: nil of a corruption.
func (a PlannedAttack) strength() (norm *string, epsilon *float64) {
	if a.corruption() != nil {
		return nil, nil
	}
	return new(a.Norm.String()), new(a.Epsilon)
}

// limit is where the attack's images must lie. Those of a corruption may lie anywhere among images.
func (a PlannedAttack) limit() ball {
	if a.corruption() != nil {
		return ball{attacks.Linf, math.Inf(1)}
	}
	return ball{a.Norm, a.Epsilon}
}

// Cells is how many cells the run has.
func (p *Plan) Cells() int {
	n := 0
	for _, j := range p.Jobs {
		n += (1 + len(j.Suite.Controls)) * (1 + len(j.Attacks))
	}
	return n
}

// NewPlan lists the jobs of a config's selected part. What this version can't do
// is an error.
func NewPlan(cfg *config.Config) (*Plan, error) {
	p := &Plan{Config: cfg}
	for i := range cfg.Suites {
		s := &cfg.Suites[i]
		var planned []PlannedAttack
		for _, name := range s.Attacks {
			each, err := planAttack(cfg.Attack(name))
			if err != nil {
				return nil, err
			}
			planned = append(planned, each...)
		}
		var study *PlannedAttack
		if s.Solver != nil && s.Solver.Attack != "" {
			one, err := planAttack(cfg.Attack(s.Solver.Attack))
			if err != nil {
				return nil, err
			}
			study = &one[0]
		}
		for _, m := range s.Models {
			p.Jobs = append(p.Jobs, Job{s, cfg.Model(m), planned, study})
		}
	}
	return p, nil
}

// planAttack lists an attack at each of its epsilons and checks its parameters and
// recipe, before anything is opened. Each corruption is an attack of its own, called NAME:fog:3.
func planAttack(a *config.Attack) ([]PlannedAttack, error) {
	var planned []PlannedAttack
	for _, c := range a.Corruptions {
		one := *a
		one.Name, one.Corruptions = a.Name+":"+c.String(), []attacks.Corruption{c}
		planned = append(planned, PlannedAttack{Attack: &one})
	}
	for _, eps := range a.Epsilons {
		pa := PlannedAttack{Attack: a, Epsilon: eps}
		if _, err := pa.Recipe(math.MaxInt16, attacks.AnyShape); err != nil {
			return nil, err
		}
		planned = append(planned, pa)
	}
	return planned, nil
}

// Recipe makes the attack for a classifier.
func (a PlannedAttack) Recipe(classes int, shape attacks.Shape) (attacks.Recipe, error) {
	if c := a.corruption(); c != nil {
		if err := c.Check(shape); err != nil {
			return attacks.Recipe{}, fmt.Errorf("attack %s: %w", a.Name, err)
		}
		return attacks.Recipe{Name: attacks.CorruptionRecipe, Corruption: c}, nil
	}
	r, err := a.Make(a.Epsilon, classes)
	if err != nil {
		return r, fmt.Errorf("attack %s: %w", a.Name, err)
	}
	for _, c := range r.Methods() {
		if err := c.Check(classes, shape); err != nil {
			return r, fmt.Errorf("attack %s: %w", a.Name, err)
		}
	}
	return r, nil
}

// describe is what results say of the attack.
func (a PlannedAttack) describe() (result.Attack, error) {
	if a.Kind == attacks.CorruptionKind {
		return described(a.Corruptions), nil
	}
	d, err := a.Describe()
	if err != nil {
		return result.Attack{}, fmt.Errorf("attack %s: %w", a.Name, err)
	}
	known := result.Attack{Kind: d.Kind, Title: d.Title, Version: d.Version, Recipe: d.Recipe,
		Norm:     new(a.Norm.String()),
		Epsilons: a.Epsilons, Parameters: d.Parameters}
	for _, c := range d.Components {
		known.Components = append(known.Components, result.Component{Kind: c.Kind, Parameters: c.Parameters})
	}
	return known, nil
}
