package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/control/theory"
	"selfheal/harness"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/reports"
)

// runTheory is replaced in tests, which share its results.
var runTheory = theory.Run

func theoryCommand(g *globals) *cobra.Command {
	var out string
	var o theory.Options
	c := &cobra.Command{
		Use:   "theory",
		Short: "Check the theory of margins and errors on systems small enough to compute",
		Long: `Runs the paper's theory: the linear reactive defence, the margins of a classifier
behind a manifold projection, Proposition 1, Theorems 1 and 2, and the curvature of
the manifolds. It prints a table of checks, writes it with figures to --out, and exits
with 1 when a check fails. No model, no data and no ONNX Runtime are needed.`,
		Example: `  selfheal theory                          # under a minute: the table, theory/theory.html
  selfheal theory --out out --seed 7 --quick`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			to := g.rule.In(out, "theory")
			to.Beside = "theory.json"
			if err := to.May("theory.html", "theory.json", "theory.md"); err != nil { // before work of a minute
				return err
			}
			o.Progress = g.progress(c).Experiment
			r, err := runTheory(c.Context(), o)
			if err != nil {
				return err
			}
			return concludeTheory(g.results(c), r, to)
		},
	}
	flags{c}.output(&out, "out", "theory", "output folder", folders)
	flags{c}.force()
	flags{c}.seed(&o.Seed, "seed of every draw")
	flags{c}.on(&o.Quick, "quick", "fewer draws and coarser grids: seconds")
	flags{c}.quiet(g)
	flags{c}.logFormat(g)
	return c
}

// concludeTheory writes the reports and prints the table; it returns an error if checks fail.
func concludeTheory(w io.Writer, r *theory.Result, to atomicfile.Output) error {
	report := reports.NewTheory(harness.Version, r)
	if err := reports.WriteTheory(to, report); err != nil {
		return err
	}
	if err := printChecks(w, r.Checks); err != nil {
		return err
	}
	page := to.Path("theory.html")
	if !r.Passed() {
		return fmt.Errorf("theory: %s; see %s", report.Verdict(), page)
	}
	_, err := fmt.Fprintf(w, "\n%s\nreport: %s\n", report.Verdict(), page)
	return err
}

func printChecks(w io.Writer, checks []theory.Check) error {
	var sb strings.Builder
	t := columns(&sb)
	part := ""
	for _, c := range checks {
		if c.Part != part {
			fmt.Fprintf(t, "%s\t\t\t\n", c.Part)
			part = c.Part
		}
		outcome := "pass"
		if !c.Pass {
			outcome = "FAIL"
		}
		tolerance := ""
		if c.Tolerance != 0 {
			tolerance = fmt.Sprintf(" ± %.2g", c.Tolerance)
		}
		if c.Factor != 0 {
			tolerance += ", " + c.Looseness()
		}
		fmt.Fprintf(t, "  %s\t%.6g\t%s %.6g%s\t%s\n", c.Name, c.Measured, c.Relation, c.Expected, tolerance, outcome)
	}
	t.Flush() // a strings.Builder never fails
	for line := range strings.Lines(sb.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// theoryOf runs the theory experiments if a result file needs them, otherwise it returns nil. A failed check is an
// error in addition to the report.
func theoryOf(ctx context.Context, f *result.File) (*reports.Theory, error) {
	if f.Theory == nil {
		return nil, nil
	}
	r, err := runTheory(ctx, theory.Options{Seed: f.Theory.Seed})
	if err != nil {
		return nil, err
	}
	report := reports.NewTheory(harness.Version, r)
	if !r.Passed() {
		err = fmt.Errorf("theory: %s; see the report", report.Verdict())
	}
	return report, err
}
