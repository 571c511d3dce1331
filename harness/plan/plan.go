// Package plan lists the work of a config: its jobs, and in each job the trials of its classifiers. [New] makes a
// plan; [Plan.Walk] calls a [Visitor] for every part in the order of a run. A run, a forecast, a merge and a listing
// are visitors, so they agree on what is done and in which order. The package opens no network and reads no image.
package plan

import (
	"fmt"
	"slices"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// Plan lists what a run will do, in order.
type Plan struct {
	Config *config.Config // the selected part
	Jobs   []*Job
	Trials map[string][]Trial // of each attack of the config, by its name
}

// Job is one model of one suite. Its cells share the network, the controllers and, if oblivious, the images.
type Job struct {
	Suite  *config.Suite
	Model  *config.Model
	Trials []Trial
	// Studied is the attack of the solver study, or nil.
	Studied Trial
	// Sources are the suite's jobs in mode transfer: each model's images go to all of them. They are nil in other
	// modes.
	Sources []*Job
}

// mostWork bounds the cells of a plan, counted once for each seed.
const mostWork = 1_000_000

// New lists the jobs of a config's selected part. It returns an error for settings that this version can't carry out.
func New(cfg *config.Config) (*Plan, error) {
	p, work := &Plan{Config: cfg, Trials: map[string][]Trial{}}, int64(0)
	for i := range cfg.Attacks {
		a := &cfg.Attacks[i]
		var err error
		if p.Trials[a.Name], err = Trials(a); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Suites {
		s := &cfg.Suites[i]
		trials := slices.Concat(lists.Map(s.Attacks, func(name string) []Trial { return p.Trials[name] })...)
		var studied Trial
		if s.Solver != nil && s.Solver.Attack != "" {
			studied = p.Trials[s.Solver.Attack][0]
		}
		crafted := int64(lists.Count(trials, Trial.Crafted))
		sources := int64(1)
		if s.Transfers() {
			sources = int64(len(s.Models))
		}
		asked := number.Sum(int64(len(trials))-crafted, number.Product(crafted, sources))
		rows := int64(1 + len(s.Controls)*len(s.Attackers()))
		work = number.Sum(work, number.Product(int64(len(s.Models)), rows, number.Sum(1,
			number.Product(int64(len(p.Seeds())), asked))))
		if work > mostWork {
			return nil, fmt.Errorf("the suites up to %s have %d cells, each seed's counted; %d are the most: split "+
				"the config", s.Name, work, mostWork)
		}
		first := len(p.Jobs)
		for _, m := range s.Models {
			p.Jobs = append(p.Jobs, &Job{s, cfg.Model(m), trials, studied, nil})
		}
		if s.Transfers() {
			for _, j := range p.Jobs[first:] {
				j.Sources = p.Jobs[first:len(p.Jobs):len(p.Jobs)]
			}
		}
	}
	return p, nil
}

// Seeds returns the seeds of every attack, the seed of the cells first.
func (p *Plan) Seeds() []uint64 { return append([]uint64{p.Config.Seed}, p.Config.OtherSeeds...) }

// Defenses returns the defenses that a job scores: none first, then every control.
func (j *Job) Defenses() []string { return append([]string{cell.None}, j.Suite.Controls...) }

// Row returns the job's row under a defense.
func (j *Job) Row(defense string) cell.Row {
	return cell.Row{Dataset: j.Suite.Dataset, Model: j.Model.Name, Defense: defense}
}

// Cell identifies the cell of clean images under a defense.
func (j *Job) Cell(defense string) cell.ID {
	return cell.ID{Suite: j.Suite.Name, Row: j.Row(defense), Mode: j.Suite.Attackers()[0],
		Column: cell.Column{Attack: cell.None}}
}

// madeOf identifies what an attack makes of a row's classifier.
func madeOf(r cell.Row, attack string, epsilon float64, seed uint64) cell.Made {
	return cell.Made{Seed: seed, ID: cell.ID{Row: r,
		Column: cell.Column{Attack: attack, Epsilon: cell.Epsilon(epsilon)}}}
}

// Attackers returns the modes in which attackers ask the job's classifier under a defense.
func (j *Job) Attackers(defense string) (modes []string) {
	for _, g := range j.Groups() {
		if g.From == j && g.Attacked == defense {
			modes = append(modes, g.Knows)
		}
	}
	return modes
}

// Alone returns the job without controls.
func (j *Job) Alone() *Job {
	one, suite := *j, *j.Suite
	suite.Controls, one.Suite = nil, &suite
	return &one
}

// Studies reports whether the job's model has a solver study.
func (j *Job) Studies() bool {
	return j.Suite.Solver != nil && slices.Contains(j.Suite.Solver.Models, j.Model.Name)
}

// Group is an attacked classifier and the defenses that are scored on its images: all if the attacker is oblivious,
// else its own.
type Group struct {
	From     *Job // the job of the attacked model: the job itself, or another source
	Attacked string
	Scored   []string
	Knows    string // the attacker's mode, one of [result.Modes]
	// Again is set if a group of another mode has scored the classifiers on what does not depend on the attacker: clean
	// images, corruptions and certificates.
	Again bool
}

// Oblivious reports whether the images of the group's attacks were made without the controls that are scored on them.
func (g Group) Oblivious() bool { return g.Knows == result.Oblivious || g.Knows == result.Transfer }

// Groups returns the groups of a job. The undefended network is attacked once, for the suite's first mode.
func (j *Job) Groups() (all []Group) {
	for i, mode := range j.Suite.Attackers() {
		switch {
		case j.Sources != nil:
			for _, from := range j.Sources {
				all = append(all, Group{from, cell.None, j.Defenses(), mode, false})
			}
		case mode == result.Oblivious:
			all = append(all, Group{j, cell.None, j.Defenses(), mode, false})
		default:
			for _, d := range j.Defenses() {
				if i == 0 || d != cell.None {
					all = append(all, Group{j, d, []string{d}, mode, i > 0})
				}
			}
		}
	}
	return all
}

// steps returns the steps of a group. Trials that ask no network are listed for one source alone.
func (p *Plan) steps(j *Job, g Group) (all []Step) {
	for n, seed := range p.Seeds() {
		for _, t := range j.Trials {
			if (n == 0 || t.Random()) && (g.From == j && !g.Again || t.Crafted()) {
				all = append(all, Step{j, g, t, seed, n == 0})
			}
		}
	}
	return all
}

// Steps returns the steps of a job, in the order of a run.
func (p *Plan) Steps(j *Job) []Step {
	return slices.Concat(lists.Map(j.Groups(), func(g Group) []Step { return p.steps(j, g) })...)
}

// Step is one trial of a group of classifiers under one seed.
type Step struct {
	*Job
	Group
	Trial
	Seed  uint64
	First bool // the seed is the cells' own, not a further one
}

// Source returns the model that made a step's images, or "" if only the job's own can have made them.
func (s Step) Source() string {
	if s.Sources == nil || !s.Crafted() {
		return ""
	}
	return s.From.Model.Name
}

// Cell identifies the cell of a classifier that the step makes.
func (s Step) Cell(defense string) cell.ID {
	id := s.Job.Cell(defense)
	if s.Knows != "" { // else the images are clean
		id.Mode = s.Knows
	}
	id.Column = ColumnOf(s.Trial, s.Source())
	return id
}

// Keys identify what the trial makes for the group: images of the attacked classifier, or a certificate of each.
func (s Step) Keys() []cell.Made {
	return lists.Map(s.Trial.Of(s.Group), func(defense string) cell.Made {
		return s.Trial.Key(s.From.Row(defense), s.Knows, s.Seed)
	})
}

// Visitor is called for every part of a plan.
type Visitor interface {
	// Begin is called before the groups of a job, and End after them.
	Begin(j *Job) error
	End(j *Job) error
	// Clean is called before the trials of a group, unless its classifiers have already been asked about clean
	// images.
	Clean(j *Job, g Group) error
	Try(s Step) error
}

// Walk calls a visitor for every job and, in each, for every group, seed and trial. The first error ends it.
func (p *Plan) Walk(v Visitor) error {
	for _, j := range p.Jobs {
		if err := v.Begin(j); err != nil {
			return err
		}
		for i, g := range j.Groups() {
			if i == 0 || j.Sources == nil && !g.Again {
				if err := v.Clean(j, g); err != nil {
					return err
				}
			}
			for _, s := range p.steps(j, g) {
				if err := v.Try(s); err != nil {
					return err
				}
			}
		}
		if err := v.End(j); err != nil {
			return err
		}
	}
	return nil
}

// Each calls a function with every step of the plan.
func (p *Plan) Each(do func(s Step)) {
	for _, j := range p.Jobs {
		for _, s := range p.Steps(j) {
			do(s)
		}
	}
}

// EachMade calls a function once with every key that the plan makes, in the order in which it is made.
func (p *Plan) EachMade(do func(s Step, k cell.Made)) {
	seen := map[cell.Made]bool{}
	p.Each(func(s Step) {
		for _, k := range s.Keys() {
			if !seen[k] {
				seen[k] = true
				do(s, k)
			}
		}
	})
}

// Cells returns how many cells the run has.
func (p *Plan) Cells() int {
	n := 0
	for _, j := range p.Jobs {
		n += len(j.Defenses())
		for _, s := range p.Steps(j) {
			if s.First {
				n += len(s.Scored)
			}
		}
	}
	return n
}
