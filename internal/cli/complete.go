package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
)

// completer completes a word of the command line: the words that it may be, and whether
// files are candidates too.
type completer = cobra.CompletionFunc

// flagWords completes the values of flags, by the flag's name, in every command that has it.
// They read the config that --config names and nothing else.
func flagWords(g *globals) map[string]completer {
	return map[string]completer{
		"config":      filesWith("yaml", "yml"),
		"onnxruntime": anyFile,
		"data":        anyFile,
		"junit":       filesWith("xml"),
		"markdown":    filesWith("md"),
		"adversarial": filesWith("npy", "npz"),
		"baseline":    filesWith("json"),
		"norm":        words(config.Norms...),
		"format":      words(dataset.Formats()...),
		"attack":      ofConfig(g, attackNames),
		"suite":       ofConfig(g, suiteNames),
		"control":     ofConfig(g, controlNames),
		"model":       ofConfig(g, modelNames),
		"dataset":     ofConfig(g, datasetNames),
		"set":         ofConfigNoSpace(g, settings),
		"param":       noFiles,
		"epsilon":     noFiles,
		"mean":        noFiles,
		"std":         noFiles,
		"at":          noFiles,
		"rate":        noFiles,
		"limit":       noFiles,
		"workers":     noFiles,
		"batch":       noFiles,
		"seed":        noFiles,
		"seeds":       noFiles,
	}
}

// commandFlagWords are those of one command, before flagWords.
var commandFlagWords = map[string]map[string]completer{
	"attack": {"attack": words(attackOptions()...), "param": attackParams, "out": foldersOnly},
	"report": {"out": foldersOnly},
	"run":    {"out": foldersOnly},
	"split":  {"out": foldersOnly},
	"theory": {"out": foldersOnly},
	"grad":   {"out": filesWith("onnx")},
	"export": {"out": filesWith("onnx")},
	"fit":    {"out": filesWith("onnx")},
}

// argumentWords completes the arguments of commands that take some.
var argumentWords = map[string]completer{
	"attack":  once(filesWith("onnx")),
	"inspect": filesWith("onnx"),
	"split":   once(filesWith("onnx")),
	"grad":    once(filesWith("onnx")),
	"doctor":  filesWith("onnx"),
	"report":  foldersOnly,
	"check":   once(foldersOnly),
	"predict": filesWith("png", "jpg", "jpeg"),
}

// addCompletions gives every command of root its completions.
func addCompletions(root *cobra.Command, g *globals) {
	for _, c := range root.Commands() {
		register := func(name string, f completer) {
			if c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
				return
			}
			if _, done := c.GetFlagCompletionFunc(name); done { // the command's own
				return
			}
			if err := c.RegisterFlagCompletionFunc(name, f); err != nil {
				panic("completion of --" + name + ": " + err.Error())
			}
		}
		for name, f := range commandFlagWords[c.Name()] {
			register(name, f)
		}
		for name, f := range flagWords(g) {
			register(name, f)
		}
		if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
			c.ValidArgsFunction = noFiles
			if f := argumentWords[c.Name()]; f != nil {
				c.ValidArgsFunction = f
			}
		}
	}
}

func noFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func anyFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func foldersOnly(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// filesWith completes paths of files with these extensions, and of foldersOnly on the way.
func filesWith(extensions ...string) completer {
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}

// words completes by a fixed list.
func words(list ...string) completer {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return beginning(list, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning are the words of a list that begin so.
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

// ofConfig completes by names that the config defines. A config that can't be read has
// none: the shell shows no errors, and the command itself will.
func ofConfig(g *globals, names func(*config.Config) []string) completer {
	return fromConfig(g, names, 0)
}

// ofConfigNoSpace is ofConfig for words that go on.
func ofConfigNoSpace(g *globals, names func(*config.Config) []string) completer {
	return fromConfig(g, names, cobra.ShellCompDirectiveNoSpace)
}

func fromConfig(g *globals, names func(*config.Config) []string, directive cobra.ShellCompDirective) completer {
	return func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		directive := directive | cobra.ShellCompDirectiveNoFileComp
		path := ""
		if f := c.Flags().Lookup("config"); f != nil {
			path = f.Value.String()
		}
		cfg, err := g.loadConfig(path, nil)
		if err != nil {
			return nil, directive
		}
		return beginning(names(cfg), word), directive
	}
}

// described adds what a shell shows beside a word.
func described(word, what string) string {
	if what = strings.Join(strings.Fields(what), " "); what == "" {
		return word
	}
	return word + "\t" + what
}

func suiteNames(cfg *config.Config) (names []string) {
	for _, s := range cfg.Suites {
		names = append(names, described(s.Name, s.Title))
	}
	for _, g := range cfg.Groups {
		names = append(names, described(g.Name, strings.Join(g.Suites, ", ")))
	}
	return names
}

func modelNames(cfg *config.Config) (names []string) {
	for _, m := range cfg.Models {
		names = append(names, described(m.Name, m.Path))
	}
	return names
}

func controlNames(cfg *config.Config) (names []string) {
	for _, c := range cfg.Controls {
		names = append(names, described(c.Name, c.Solver.Method))
	}
	return names
}

func attackNames(cfg *config.Config) (names []string) {
	for _, a := range cfg.Attacks {
		names = append(names, described(a.Name, strings.Join(strings.Fields(a.Kind+" "+a.Version+" "+a.Norm), " ")))
	}
	return names
}

func datasetNames(cfg *config.Config) (names []string) {
	for _, d := range cfg.Datasets {
		names = append(names, described(d.Name, d.Path))
	}
	return names
}

// settings are the beginnings of --set's values: the keys at the top, and the names in each
// section.
func settings(cfg *config.Config) []string {
	list := []string{"seed=", "seeds=", "save_adversarial=", "runtime.provider=", "runtime.workers=", "runtime.batch=", "runtime.threads=", "runtime.winograd="}
	for _, section := range []struct {
		name  string
		names []string
	}{{"datasets", datasetNames(cfg)}, {"models", modelNames(cfg)}, {"controls", controlNames(cfg)}, {"attacks", attackNames(cfg)}, {"suites", suiteNames(&config.Config{Suites: cfg.Suites})}} {
		for _, name := range section.names {
			name, _, _ = strings.Cut(name, "\t")
			list = append(list, section.name+"."+name+".")
		}
	}
	return list
}

// attackOptions are the values of --attack of `selfheal attack`.
func attackOptions() []string {
	list := []string{"aa"}
	for _, v := range config.AttackVersions {
		if v != "standard" && v != "custom" {
			list = append(list, "aa-"+v)
		}
	}
	return append(list, kinds()...)
}

// attackParams completes --param of `selfheal attack` by what the attack of --attack takes.
func attackParams(c *cobra.Command, _ []string, word string) (list []string, _ cobra.ShellCompDirective) {
	kind, _ := c.Flags().GetString("attack")
	if !slices.Contains(config.AttackKinds, kind) { // AutoAttack's versions take none
		return noFiles(c, nil, word)
	}
	for _, name := range config.AttackParams(kind) {
		list = append(list, name+"=")
	}
	return beginning(list, word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
