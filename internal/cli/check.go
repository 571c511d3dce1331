package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/gate"
	"selfheal/harness/result"
)

// Exit codes of check beside exitOK.
const (
	exitGateFailed   = 1
	exitInconclusive = 2
	exitRefused      = 3 // cannot compare, or wrong usage
)

// exitError ends the program with a code of its command's own. One without a message has
// said all on stdout.
type exitError struct {
	err  error
	code int
}

func (e exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// refuse is an error for which check can't compare, or its usage is wrong.
func refuse(err error) error {
	if err == nil {
		return nil
	}
	return exitError{err, exitRefused}
}

type checkFlags struct {
	baseline, config, junit, markdown string
	sets                              []string
	update, newModel, json            bool
}

func checkCommand() *cobra.Command {
	f := &checkFlags{}
	c := &cobra.Command{
		Use:   "check --baseline FILE DIR",
		Short: "Compare a run's results with a baseline: pass, fail or inconclusive",
		Long: `Compares DIR/results.json with a baseline, cell by cell, on the verdicts of the same
images, prints a table and writes JUnit XML. A cell fails when its accuracy has dropped
by more than the rules allow, significantly; passes when such a drop is excluded; and
is inconclusive when the images are too few to tell. docs/gate.md says how it decides.

Exit code: 0 pass, 1 fail, 2 inconclusive, 3 cannot compare or wrong usage. Rules come
from the gate section of --config, else from the baseline file, else they are
max_drop 0.02 and alpha 0.05. With --update the baseline is written from DIR.`,
		Example: `  selfheal check --update --baseline baseline.json results   # take a run as the baseline
  selfheal check --baseline baseline.json results
  selfheal check --baseline baseline.json --config my.yaml --markdown "$GITHUB_STEP_SUMMARY" results`,
		Args: func(c *cobra.Command, args []string) error {
			return refuse(exactly(1, "the folder of one run")(c, args))
		},
		RunE: func(c *cobra.Command, args []string) error {
			return recovered(func() error { return f.run(c, args[0]) })
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return refuse(fmt.Errorf("%w; see %s --help", err, c.CommandPath()))
	})
	c.Flags().StringVar(&f.baseline, "baseline", "", "the baseline file")
	c.Flags().BoolVar(&f.update, "update", false, "write the baseline file from DIR; one that says the same stays as it is, byte for byte")
	c.Flags().StringVar(&f.config, "config", "", "config file whose gate section has the rules (default: the baseline's rules)")
	c.Flags().StringArrayVar(&f.sets, "set", nil, "change the config: gate.max_drop=0.01; may be repeated")
	c.Flags().BoolVar(&f.newModel, "new-model", false, "compare although the models are other files, as new_model: true in gate does")
	c.Flags().StringVar(&f.junit, "junit", "", "JUnit XML file (default: junit.xml in DIR)")
	c.Flags().StringVar(&f.markdown, "markdown", "", "append the table as Markdown to this file, such as a CI job's page")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON instead of the table")
	return c
}

// recovered ends in a refusal where work panics: a program of Go's that does ends with exit
// code 2, which here means inconclusive.
func recovered(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = refuse(fmt.Errorf("check has a defect, nothing was decided: %v", p))
		}
	}()
	return work()
}

func (f *checkFlags) run(c *cobra.Command, dir string) error {
	if err := f.usage(); err != nil {
		return refuse(err)
	}
	if f.update {
		return refuse(f.write(c.OutOrStdout(), dir))
	}
	asked := f.junit != ""
	if !asked {
		f.junit = filepath.Join(dir, "junit.xml")
	}
	report, err := f.report(c.Context(), dir)
	if err != nil {
		// Instead of an earlier comparison's. Where it can't be written, err matters more. A
		// folder that is not a run's stays as it is.
		if asked || exists(f.junit) || exists(filepath.Join(dir, "results.json")) {
			_ = toFile(f.junit, os.O_TRUNC, func(w io.Writer) error { return gate.WriteJUnitError(w, err) })
		}
		return refuse(err)
	}
	if err := f.say(c.OutOrStdout(), report); err != nil {
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
	switch {
	case f.baseline == "":
		return errors.New("check needs --baseline, for example --baseline baseline.json")
	case len(f.sets) > 0 && f.config == "":
		return errors.New("--set goes with --config, whose rules it changes")
	case f.update && (f.newModel || f.json || f.junit != "" || f.markdown != ""):
		return errors.New("--update compares nothing: --new-model, --json, --junit and --markdown don't go with it")
	}
	return nil
}

// rules are those of --config, if it has any.
func (f *checkFlags) rules() (*config.Gate, error) {
	if f.config == "" {
		return nil, nil
	}
	cfg, err := config.Load(f.config, f.sets...)
	if err != nil {
		return nil, err
	}
	return cfg.Gate, nil
}

// results reads what a run has left, however it is broken.
func (f *checkFlags) results(dir string) (*result.File, error) {
	file, err := result.Read(filepath.Join(dir, "results.json"))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s holds no results.json; run `selfheal run --out %s` first", dir, dir)
	}
	return file, err
}

// report is [checkFlags.compare], left to itself when ctx ends: its sums know none.
func (f *checkFlags) report(ctx context.Context, dir string) (*gate.Report, error) {
	type compared struct {
		report *gate.Report
		err    error
	}
	done := make(chan compared, 1)
	go func() {
		var c compared
		c.err = recovered(func() (err error) {
			c.report, err = f.compare(dir)
			return err
		})
		done <- c
	}()
	select {
	case c := <-done:
		return c.report, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// compareResults is gate.Compare, replaced in tests to make it fail or last.
var compareResults = gate.Compare

func (f *checkFlags) compare(dir string) (*gate.Report, error) {
	rules, err := f.rules()
	if err != nil {
		return nil, err
	}
	base, err := gate.Read(f.baseline)
	if err != nil {
		return nil, err
	}
	file, err := f.results(dir)
	if err != nil {
		return nil, err
	}
	if rules == nil {
		rules = &base.Gate
	}
	rules.NewModel = rules.NewModel || f.newModel
	return compareResults(base, file, *rules)
}

// say prints the report and writes its files.
func (f *checkFlags) say(w io.Writer, r *gate.Report) error {
	print := r.WriteText
	if f.json {
		print = func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(r)
		}
	}
	if err := print(w); err != nil {
		return err
	}
	if err := toFile(f.junit, os.O_TRUNC, r.WriteJUnit); err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	if f.markdown == "" {
		return nil
	}
	if err := toFile(f.markdown, os.O_APPEND, r.WriteMarkdown); err != nil {
		return fmt.Errorf("--markdown: %w", err)
	}
	return nil
}

// toFile writes a file, by os.O_TRUNC anew and by os.O_APPEND behind what it holds.
func toFile(path string, how int, write func(io.Writer) error) error {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|how, 0o644)
	if err != nil {
		return err
	}
	err = write(w)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

// write makes the baseline of a run. Its rules are the config's, else those of the file
// that it replaces, else the default ones.
func (f *checkFlags) write(w io.Writer, dir string) error {
	rules, err := f.rules()
	if err != nil {
		return err
	}
	old, err := gate.Read(f.baseline)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; remove the file to begin anew", err)
	}
	if rules == nil {
		rules = new(config.Gate)
		if *rules = config.DefaultGate(); old != nil {
			*rules = old.Gate
		}
	}
	file, err := f.results(dir)
	if err != nil {
		return err
	}
	base, err := gate.NewBaseline(file, *rules)
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
	if err := base.Write(f.baseline); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: %s\n", f.baseline, what)
	return err
}
