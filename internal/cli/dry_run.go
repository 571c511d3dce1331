package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/harness"
	"selfheal/harness/config"
)

// bundledFirst opens what is built into the program, and for everything else the
// working folder's files: the bundled config also names networks and images that are
// too large to be built in.
type bundledFirst struct{ fs.FS }

func (b bundledFirst) Open(name string) (fs.File, error) {
	if f, err := b.FS.Open(name); err == nil {
		return f, nil
	}
	return config.Folder(".").Open(name)
}

// dryRun prints what a run would do.
func dryRun(c *cobra.Command, plan *harness.Plan, rates []string) error {
	byModel, err := parseRates(rates, plan.Config)
	if err != nil {
		return usageError{err}
	}
	text, err := plan.Describe(harness.DryRun{Rates: byModel})
	if err != nil {
		return usageError{err}
	}
	_, err = fmt.Fprint(c.OutOrStdout(), text)
	return err
}

// parseRates reads [MODEL=]N. A rate without a model, under "", is for all others.
func parseRates(args []string, cfg *config.Config) (map[string]float64, error) {
	rates := map[string]float64{}
	for _, arg := range args {
		model, number, named := strings.Cut(arg, "=")
		if !named {
			model, number = "", arg
		}
		rate, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil || !(rate > 0) || rate > 1e12:
			return nil, fmt.Errorf("--rate %s: N in [MODEL=]N must be a number above 0, the passes of one image a second", arg)
		case named && cfg.Model(model) == nil:
			return nil, fmt.Errorf("--rate %s: no suite that was selected has a model %q", arg, model)
		case rates[model] > 0:
			return nil, fmt.Errorf("--rate %s: this rate is given twice", arg)
		}
		rates[model] = rate
	}
	return rates, nil
}

// missingFiles is the error about files that a run needs and that are not there. Each
// of them was described before.
func missingFiles(cfg *config.Config, missing []harness.Missing) error {
	const most = 3
	var names []string
	for _, m := range missing[:min(most, len(missing))] {
		names = append(names, fmt.Sprintf("%s (%s %s)", m.Path, m.Kind, m.For[0]))
	}
	text := strings.Join(names, ", ")
	if more := len(missing) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	where := "the working folder"
	if folder, ok := cfg.Files.(config.Folder); ok && folder != "." {
		where = string(folder)
	}
	text = fmt.Sprintf("missing: %s; the list above says what belongs there, paths being relative to %s", text, where)
	if slices.ContainsFunc(cfg.Suites, func(s config.Suite) bool { return s.Published != nil && s.Published.Table != "" }) {
		text += "; docs/paper.md tells how to reproduce the paper's tables"
	}
	return errors.New(text)
}

// fitCommand is the command that fits the embeddings of the control whose name follows.
func (f *runFlags) fitCommand() string {
	if f.config == "" {
		return "selfheal fit --control "
	}
	return "selfheal fit --config " + f.config + " --control "
}
