package config

import (
	"slices"
)

// Selected returns the part of the config that the named suites use (the
// default suites when none is named; a group stands for its suites): those suites in the
// order named, and the data sets, models, controls and attacks they refer to in the file's
// order.
func (c *Config) Selected(suites []string) (*Config, error) {
	if len(suites) == 0 {
		suites = c.DefaultSuites
	}
	part := *c
	part.DefaultSuites, part.Suites = nil, nil
	used := map[string]map[string]bool{"dataset": {}, "model": {}, "control": {}, "attack": {}}
	use := func(kind string, names ...string) {
		for _, name := range names {
			used[kind][name] = true
		}
	}
	members, theory, err := c.members(suites)
	if err != nil {
		return nil, err
	}
	part.Theory = theory
	for _, s := range members {
		part.DefaultSuites = append(part.DefaultSuites, s.Name)
		part.Suites = append(part.Suites, *s)
		use("dataset", s.Dataset)
		use("model", s.Models...)
		use("control", s.Controls...)
		use("attack", s.Attacks...)
		if s.Solver != nil {
			use("control", s.Solver.Controls...)
			use("attack", s.Solver.Attack)
		}
	}
	part.Models = keep(c.Models, used["model"], modelName)
	part.Controls = keep(c.Controls, used["control"], controlName)
	part.Attacks = keep(c.Attacks, used["attack"], attackName)
	use("dataset", part.FitDatasets()...)
	part.Datasets = keep(c.Datasets, used["dataset"], datasetName)
	return &part, nil
}

// FitDatasets returns the names of the data sets that the controls are fitted on, each once.
func (c *Config) FitDatasets() []string {
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

func keep[T any](list []T, used map[string]bool, nameOf func(*T) string) []T {
	var kept []T
	for i := range list {
		if used[nameOf(&list[i])] {
			kept = append(kept, list[i])
		}
	}
	return kept
}
