package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/suggest"
)

// WithModels returns the part of the config that scores some of its models, each taken from another file (an absolute
// path) in the way that the config takes the model. Suites of the mode transfer keep all their models, as each network
// gets the images made on the others; studies and published numbers are left out.
func (c *Config) WithModels(files map[string]string) (*Config, error) {
	part := *c
	part.Models, part.Suites, part.DefaultSuites = slices.Clone(c.Models), nil, nil
	for _, name := range slices.Sorted(maps.Keys(files)) {
		m := part.Model(name)
		if m == nil {
			names := lists.Map(c.Models, func(m Model) string { return m.Name })
			return nil, fmt.Errorf("the run has no model %s%s", quote(name), suggest.Or(name, "it has", names))
		}
		if len(m.Members) > 0 {
			return nil, fmt.Errorf("%s is an ensemble, which has no file of its own; give a file for a member: %s",
				name, strings.Join(m.Task.Of, ", "))
		}
		m.Path, m.SHA256 = filepath.ToSlash(files[name]), ""
	}
	replaced := func(name string) bool {
		m := part.Model(name)
		return files[name] != "" || m != nil &&
			slices.ContainsFunc(m.Task.Of, func(one string) bool { return files[one] != "" })
	}
	for i := range part.Models {
		if m := &part.Models[i]; len(m.Members) > 0 {
			m.Members = lists.Map(m.Task.Of, func(one string) Model { return *part.Model(one) })
			m.Path = m.Members[0].Path
		}
	}
	for _, s := range c.Suites {
		one := s
		if one.Solver, one.Published, one.Pairs = nil, nil, nil; !s.Transfers() {
			one.Models = slices.DeleteFunc(slices.Clone(s.Models), func(name string) bool { return !replaced(name) })
		}
		if slices.ContainsFunc(one.Models, replaced) {
			part.Suites, part.DefaultSuites = append(part.Suites, one), append(part.DefaultSuites, s.Name)
		}
	}
	if part.Suites == nil {
		return nil, fmt.Errorf("no suite of the run scores %s", strings.Join(slices.Sorted(maps.Keys(files)), ", "))
	}
	return part.Selected(nil)
}
