package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/gate"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/atomicfile"
)

// Exit codes of check in addition to exitOK.
const (
	exitGateFailed   = 1
	exitInconclusive = 2
	exitRefused      = 3 // cannot compare, or wrong usage
)

// refuse wraps an error with the exit code for wrong usage, or for a comparison that can't be made.
func refuse(err error) error {
	if err == nil {
		return nil
	}
	return exitError{err, exitRefused}
}

// junitFile is the file that check writes in a run's folder.
const junitFile = "junit.xml"

type checkFlags struct {
	outputFlags
	baseline, config, junit, markdown string
	sets, models                      []string
	update, newModel, json            bool
	files                             map[string]string // of --model
}

func checkCommand(g *globals) *cobra.Command {
	f := &checkFlags{}
	c := &cobra.Command{
		Use:   "check --baseline FILE DIR",
		Short: "Compare a run's results with a baseline: pass, fail or inconclusive",
		Long: `Compares DIR/results.json with a baseline, cell by cell, on the verdicts of the same
images, prints a table and writes JUnit XML. A cell fails when its accuracy has dropped
by more than the rules allow, significantly; passes when such a drop is excluded; and
is inconclusive when the images are too few to tell. docs/gate.md says how it decides.

With --model, another file of a network of the run is attacked first, on the run's own
images and with its own attacks, as DIR's command names them; its results, in --out, are
compared instead of DIR's. The same command continues it.

Exit code: 0 pass, 1 fail, 2 inconclusive, 3 cannot compare or wrong usage. Rules come
from the gate section of --config, else from the baseline file, else they are
max_drop 0.02 and alpha 0.05. With --update the baseline is written from DIR.`,
		Example: `  selfheal check --update --baseline baseline.json results   # take a run as the baseline
  selfheal check --baseline baseline.json results
  selfheal check --baseline baseline.json --model mine=new.onnx results   # did the new file get worse?
  selfheal check --baseline baseline.json --config my.yaml --markdown "$GITHUB_STEP_SUMMARY" results`,
		Args: func(c *cobra.Command, args []string) error {
			return refuse(exactly(1, "the folder of one run")(c, args))
		},
		ValidArgsFunction: once(folders),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, g, args[0]) },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return refuse(unknown(c, err))
	})
	to := flags{c}
	to.output(&f.baseline, "baseline", "", "the baseline file", filesWith("json"))
	to.on(&f.update, "update", "write the baseline file from DIR; one that says the same stays as it is, byte for byte")
	to.text(&f.config, "config", "", "config file whose gate section has the rules (default: the baseline's rules)",
		filesWith("yaml", "yml"))
	to.sets(&f.sets, g, "gate.max_drop=0.01")
	to.on(&f.newModel, "new-model", "compare although the models are other files, as new_model: true in gate does")
	to.output(&f.junit, "junit", "", "JUnit XML file (default: junit.xml in DIR)", filesWith("xml"))
	to.output(&f.markdown, "markdown", "", "append the table as Markdown to this file, such as a CI job's page",
		filesWith("md"))
	to.on(&f.json, "json", "print JSON instead of the table")
	to.texts(&f.models, "model", "NAME=FILE: attack this file in place of the run's network NAME, and compare; may be "+
		"repeated", filesWith("onnx"))
	f.outputFlags.add(to, g)
	f.out = "" // DIR-NAME
	c.Flag("force").Usage = "replace files that selfheal did not write; with --model start anew"
	c.Flag("out").Usage, c.Flag("out").DefValue = "output folder of --model (default: DIR-NAME)", ""
	to.only(beside("model"), "out", "resume", "quiet", "log-format", "log-every", "onnxruntime", "offline")
	return c
}

func (f *checkFlags) run(c *cobra.Command, g *globals, dir string) error {
	if err := cmp.Or(needed(c, "baseline", f.baseline, ", for example --baseline baseline.json"),
		f.usage(), f.parse(dir)); err != nil {
		return refuse(err)
	}
	g.reads(filepath.Join(dir, "results.json"))
	if f.update {
		return refuse(f.write(c.OutOrStdout(), g.rule, dir))
	}
	g.reads(f.baseline)
	asked := f.junit != ""
	junit := g.rule.At(cmp.Or(f.junit, filepath.Join(dir, junitFile)), "JUnit file")
	if junit.Name == junitFile {
		junit.Beside = "results.json"
	}
	if err := junit.May(); err != nil {
		return refuse(fmt.Errorf("--junit: %w", err))
	}
	if f.markdown != "" {
		if err := g.rule.At(f.markdown, "").MayAppend(); err != nil {
			return refuse(fmt.Errorf("--markdown: %w", err))
		}
	}
	report, err := f.compare(c, g, dir)
	if err != nil {
		// The report replaces an earlier comparison's. If it can't be written, err matters more. A folder that is not a
		// run's is left as it is.
		replaces := asked || exists(junit.Path()) || exists(filepath.Join(dir, "results.json"))
		if replaces && !errors.Is(err, errPlanned) {
			_ = junit.Fill(func(w io.Writer) error { return gate.WriteJUnitError(w, err) })
		}
		return refuse(err)
	}
	if err := f.say(c, g, report, junit); err != nil {
		return refuse(err)
	}
	switch report.Outcome {
	case gate.Fail:
		return exitError{nil, exitGateFailed}
	case gate.Inconclusive:
		return exitError{nil, exitInconclusive}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (f *checkFlags) usage() error {
	if f.update && (f.newModel || f.json || f.junit != "" || f.markdown != "" || f.models != nil) {
		return errors.New("--update compares nothing: --new-model, --model, --json, --junit and --markdown don't go " +
			"with it")
	}
	return nil
}

// rules returns the rules of --config, if it has any, otherwise others; --set changes them.
func (f *checkFlags) rules(others config.Gate) (config.Gate, error) {
	alone := config.DefaultGate()
	if f.config == "" {
		alone = others
	}
	if err := alone.Set(f.sets...); err != nil || f.config == "" {
		return alone, err
	}
	cfg, err := config.Load(f.config, f.sets...)
	if err != nil || cfg.Gate == nil {
		return others, err
	}
	return *cfg.Gate, nil
}

func (f *checkFlags) compare(c *cobra.Command, g *globals, dir string) (*gate.Report, error) {
	base, err := gate.Read(f.baseline)
	if err != nil {
		return nil, err
	}
	rules, err := f.rules(base.Gate)
	if err != nil {
		return nil, err
	}
	file, err := resultsOf(dir)
	if err != nil {
		return nil, err
	}
	rules.NewModel = rules.NewModel || f.newModel || f.models != nil
	if f.models != nil {
		if base, rules, err = base.Part(file, rules, slices.Sorted(maps.Keys(f.files))...); err != nil {
			return nil, err
		}
		alone := rules // DIR's own results must be comparable before hours go into others
		alone.Min = nil
		if _, err = gate.Compare(c.Context(), base, file, alone); err != nil {
			return nil, err
		}
		if file, err = f.attacked(c, g, dir, file); err != nil {
			return nil, err
		}
	}
	return gate.Compare(c.Context(), base, file, rules)
}

// parse reads --model.
func (f *checkFlags) parse(dir string) error {
	f.files = map[string]string{}
	for _, arg := range f.models {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || name == "" || file == "" {
			return fmt.Errorf("--model %s: it must be NAME=FILE, such as mine=new.onnx", arg)
		}
		if f.files[name] != "" {
			return fmt.Errorf("--model: %s is given twice", name)
		}
		at, err := filepath.Abs(file)
		if err != nil {
			return fmt.Errorf("--model %s: %w", arg, err)
		}
		f.files[name] = at
	}
	if f.models != nil && f.out == "" {
		f.out = strings.Join(append([]string{filepath.Clean(dir)}, slices.Sorted(maps.Keys(f.files))...), "-")
	}
	return nil
}

// attacked attacks the files of --model as the run in dir, with the given results, attacked the networks in whose
// place they stand, and returns the new results.
func (f *checkFlags) attacked(c *cobra.Command, g *globals, dir string, file *result.File) (*result.File, error) {
	p, err := g.planOf(c.Context(), file)
	if err != nil {
		return nil, fmt.Errorf("%s: its command can't be read again, from the folder it was given in: %w", dir, err)
	}
	cfg, err := p.Config.WithModels(f.files)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	for i := range cfg.Datasets {
		d := &cfg.Datasets[i]
		d.SHA256 = cmp.Or(file.Datasets[d.Name].SHA256, d.SHA256) // of the images that the run scored
	}
	if p, err = plan.New(cfg); err != nil {
		return nil, err
	}
	if g.planned != nil {
		return nil, g.planned(p)
	}
	o := run.Options{Command: commandLine(c)}
	if err := g.prepare(c, p, f.outputFlags, &o); err != nil {
		return nil, err
	}
	return run.Run(c.Context(), p, o)
}

// say prints the report and writes its files.
func (f *checkFlags) say(c *cobra.Command, g *globals, r *gate.Report, junit atomicfile.File) error {
	var err error
	if f.json {
		err = printJSON(c, r)
	} else {
		var answers []string
		if f.models != nil {
			answers = r.Answers(slices.Sorted(maps.Keys(f.files))...)
		}
		err = r.WriteText(c.OutOrStdout(), answers...)
	}
	if err != nil {
		return err
	}
	if err := junit.Fill(r.WriteJUnit); err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	if f.markdown != "" {
		if err := g.rule.At(f.markdown, "").Append(r.WriteMarkdown); err != nil {
			return fmt.Errorf("--markdown: %w", err)
		}
	}
	return nil
}

// write makes the baseline of a run. Its rules come from the config, otherwise from the file that it replaces,
// otherwise from the defaults.
func (f *checkFlags) write(w io.Writer, rule atomicfile.Rule, dir string) error {
	old, err := gate.Read(f.baseline)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, gate.ErrOlder) && !rule.Force {
		return fmt.Errorf("%w; remove the file to begin anew, or add --force", err)
	}
	rules := config.DefaultGate()
	if old != nil {
		rules = old.Gate
	}
	if rules, err = f.rules(rules); err != nil {
		return err
	}
	file, err := resultsOf(dir)
	if err != nil {
		return err
	}
	base, err := gate.NewBaseline(file, rules)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "results.json"), err)
	}
	what := fmt.Sprintf("cells %d, models %d", len(base.Cells), len(base.Models))
	if old != nil {
		if base.Same(old) {
			_, err := fmt.Fprintf(w, "%s: unchanged, %s\n", f.baseline, what)
			return err
		}
		added, removed, changed := base.Changes(old)
		what += fmt.Sprintf("; cells new %d, gone %d, changed %d", added, removed, changed)
	}
	if err := base.Write(f.baseline, rule, old != nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: %s\n%s\n", f.baseline, what, base.Images())
	return err
}
