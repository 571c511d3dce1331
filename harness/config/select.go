package config

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"selfheal/harness/dataset"
)

// Selected returns the part of the config that the named suites use, or the default suites if none is named; a group
// stands for its suites. The suites are in the order named; the data sets, models, controls and attacks that they
// refer to are in the file's order.
func (c *Config) Selected(suites []string) (*Config, error) {
	if len(suites) == 0 {
		suites = c.DefaultSuites
	}
	members, theory, err := c.members(suites)
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, errors.New("the config has no suites, which say what to score")
	}
	part := *c
	part.DefaultSuites, part.Suites, part.Theory = nil, nil, theory
	var datasets, models, controls, attacks []string
	for _, s := range members {
		part.DefaultSuites = append(part.DefaultSuites, s.Name)
		part.Suites = append(part.Suites, *s)
		datasets = append(datasets, s.Dataset)
		models = append(models, s.Models...)
		controls = append(controls, s.Controls...)
		attacks = append(attacks, s.Attacks...)
		if s.Solver != nil {
			controls, attacks = append(controls, s.Solver.Controls...), append(attacks, s.Solver.Attack)
		}
	}
	part.Models = keep(c.Models, models, modelName)
	part.Controls = keep(c.Controls, controls, controlName)
	part.Attacks = keep(c.Attacks, attacks, attackName)
	part.Datasets = keep(c.Datasets, append(datasets, part.fitDatasets()...), datasetName)
	return &part, nil
}

// fitDatasets returns the names of the data sets that the controls are fitted on, each once.
func (c *Config) fitDatasets() []string {
	var names []string
	for _, control := range c.Controls {
		for _, l := range control.Layers {
			if fit := l.Embedding.Fit; fit != "" && !slices.Contains(names, fit) {
				names = append(names, fit)
			}
		}
	}
	return names
}

// FittedOnScored returns the error about a control of the named suites, or the default ones, that is fitted on images
// that its suite scores: what it heals there says nothing about others.
func (c *Config) FittedOnScored(suites []string) error {
	if len(suites) == 0 {
		suites = c.DefaultSuites
	}
	members, _, err := c.members(suites)
	for _, s := range members {
		err = cmp.Or(err, c.fittedOnScored(s))
	}
	return err
}

func (c *Config) fittedOnScored(s *Suite) error {
	for _, name := range s.Controls {
		for _, l := range c.Control(name).Layers {
			fit := l.Embedding.Fit
			if l.Embedding.Training != nil {
				fit = l.Embedding.Training.Fit
			}
			if fit != "" && c.share(c.Dataset(fit).Spec, c.Dataset(s.Dataset).Spec) {
				return fmt.Errorf("suite %s scores the images that control %s is fitted on (data sets %s and %s): "+
					"fit it on others, such as another split or other indices", s.Name, name, s.Dataset, fit)
			}
		}
	}
	return nil
}

// share reports whether two data sets take some image of the same files, as far as their keys tell: random samples may
// share some by chance.
func (c *Config) share(a, b dataset.Spec) bool {
	usual := func(s dataset.Spec) string { return cmp.Or(s.Split, "test") }
	at := func(s dataset.Spec) string { return c.relative(path.Clean(s.Path)) }
	if a.Format != b.Format || at(a) != at(b) || usual(a) != usual(b) {
		return false
	}
	if a.Sample != nil || b.Sample != nil {
		return a.Sample != nil && b.Sample != nil && *a.Sample == *b.Sample
	}
	return a.Indices == nil || b.Indices == nil ||
		slices.ContainsFunc(a.Indices, func(i int) bool { return slices.Contains(b.Indices, i) })
}

// FittedOn reports whether an embedding of the control is fitted on a data set.
func (c *Control) FittedOn(name string) bool {
	return slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Embedding.Fit == name })
}

func keep[T any](list []T, used []string, nameOf func(*T) string) (kept []T) {
	for i := range list {
		if slices.Contains(used, nameOf(&list[i])) {
			kept = append(kept, list[i])
		}
	}
	return kept
}
