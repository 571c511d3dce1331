package cli

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
)

// completer returns the possible completions of a word on the command line, and whether files are candidates too.
type completer = cobra.CompletionFunc

var (
	noFiles = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
	anyFile = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	folders = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
)

// filesWith completes paths of files with these extensions, and of folders on the way.
func filesWith(extensions ...string) completer {
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}

// words completes by a fixed list.
func words(list ...string) completer {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return beginning(list, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning returns the words of a list with this prefix.
func beginning(list []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !strings.HasPrefix(s, word) })
}

// once completes the first argument only.
func once(f completer) completer {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return noFiles(c, args, word)
		}
		return f(c, args, word)
	}
}

// ofConfig completes by names that the config of --config defines. For a config that can't be read it completes
// nothing: the shell shows no errors, and the command itself will.
func (g *globals) ofConfig(names func(*config.Config) []string, directive cobra.ShellCompDirective) completer {
	return func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		directive := directive | cobra.ShellCompDirectiveNoFileComp
		cfg, err := g.loadConfig(c.Flag("config").Value.String(), nil)
		if err != nil {
			return nil, directive
		}
		return beginning(names(cfg), word), directive
	}
}

// described returns the items' names, each with the description that a shell shows.
func described[T any](items []T, name func(T) (name, what string)) (list []string) {
	for _, item := range items {
		word, what := name(item)
		if what = strings.Join(strings.Fields(what), " "); what != "" {
			word += "\t" + what
		}
		list = append(list, word)
	}
	return list
}

func suiteNames(cfg *config.Config) []string {
	return append(described(cfg.Suites, func(s config.Suite) (string, string) { return s.Name, s.Title }),
		described(cfg.Groups, func(g config.Group) (string, string) { return g.Name, strings.Join(g.Suites, ", ") })...)
}

func modelNames(cfg *config.Config) []string {
	return described(cfg.Models, func(m config.Model) (string, string) { return m.Name, m.Path })
}

func controlNames(cfg *config.Config) []string {
	return described(cfg.Controls, func(c config.Control) (string, string) { return c.Name, c.Solver.Method.String() })
}

func attackNames(cfg *config.Config) []string {
	return described(cfg.Attacks, func(a config.Attack) (string, string) {
		return a.Name, a.Kind + " " + a.Version + " " + a.Norm.String()
	})
}

func datasetNames(cfg *config.Config) []string {
	return described(cfg.Datasets, func(d config.Dataset) (string, string) { return d.Name, d.Path })
}

// settings returns the beginnings of --set's values: the keys at the top and in the sections that have fixed keys, and
// the names in the others. They follow from the config's schema.
func settings(cfg *config.Config) (list []string) {
	type node struct {
		Properties map[string]node
		Names      any `json:"propertyNames"`
	}
	var root node
	if json.Unmarshal(config.Schema(), &root) != nil {
		return nil
	}
	sections := map[string][]string{
		"datasets": datasetNames(cfg), "models": modelNames(cfg), "controls": controlNames(cfg),
		"attacks": attackNames(cfg), "suites": suiteNames(&config.Config{Suites: cfg.Suites}),
		"groups": suiteNames(&config.Config{Groups: cfg.Groups})}
	for key, is := range root.Properties {
		switch {
		case is.Names != nil:
			for _, name := range sections[key] {
				name, _, _ = strings.Cut(name, "\t")
				list = append(list, key+"."+name+".")
			}
		case is.Properties != nil:
			for name := range is.Properties {
				list = append(list, key+"."+name+"=")
			}
		case key != "version":
			list = append(list, key+"=")
		}
	}
	slices.Sort(list)
	return list
}
