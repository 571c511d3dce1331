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

// PlannedAttack is one attack at one epsilon.
type PlannedAttack struct {
	*config.Attack
	Epsilon float64
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
// recipe, before anything is opened.
func planAttack(a *config.Attack) ([]PlannedAttack, error) {
	var planned []PlannedAttack
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
	r, err := a.Make(a.Epsilon, classes)
	if err != nil {
		return r, fmt.Errorf("attack %s: %w", a.Name, err)
	}
	for _, c := range r.Components {
		if err := c.Check(classes, shape); err != nil {
			return r, fmt.Errorf("attack %s: %w", a.Name, err)
		}
	}
	return r, nil
}

// describe is what results say of the attack.
func (a PlannedAttack) describe() (result.Attack, error) {
	d, err := a.Describe()
	if err != nil {
		return result.Attack{}, fmt.Errorf("attack %s: %w", a.Name, err)
	}
	known := result.Attack{Kind: d.Kind, Title: d.Title, Version: d.Version, Recipe: d.Recipe, Norm: a.Norm.String(),
		Epsilons: a.Epsilons, Parameters: d.Parameters}
	for _, c := range d.Components {
		known.Components = append(known.Components, result.Component{Kind: c.Kind, Parameters: c.Parameters})
	}
	return known, nil
}
