package config

import (
	"fmt"

	"selfheal/internal/lists"
	"selfheal/internal/suggest"
)

// Group is a name for several suites that are run and reported together.
type Group struct {
	Name   string
	Suites []string
	Theory bool // the report also has the theory's checks and figures
}

func groupObject(name string, g *Group) object {
	g.Name = name
	return object{rows: []row{
		required("suites", names(&g.Suites, "a suite", "suites", 1), "in the report's order"),
		optional("theory", boolean(&g.Theory), "false",
			"the report has `selfheal theory`'s checks and figures too; if one fails the run ends with exit code 1"),
	}}
}

func groupName(g *Group) string { return g.Name }

// members lists the suites that names of suites and groups stand for, each once. theory reports whether a group asks
// for the theory.
func (c *Config) members(names []string) (suites []*Suite, theory bool, err error) {
	for _, name := range names {
		list := []string{name}
		if g := find(c.Groups, name, groupName); g != nil {
			list, theory = g.Suites, theory || g.Theory
		}
		for _, name := range list {
			s := c.Suite(name)
			if s == nil {
				known := append(namesOf(c.Suites, suiteName), namesOf(c.Groups, groupName)...)
				return nil, false, fmt.Errorf("there is no suite %s%s", quote(name), suggest.Or(name, "suites", known))
			}
			suites = lists.Once(suites, s)
		}
	}
	return suites, theory, nil
}
