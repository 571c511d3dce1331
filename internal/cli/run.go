package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"selfheal/control/pca"
	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/reports"
)

type runFlags struct {
	scaleFlags
	outputFlags
	config              string
	suites, sets, rates []string
	dryRun              bool
}

// scaleFlags are --limit, --workers and --batch: how many images, and how they are
// computed.
type scaleFlags struct{ limit, workers, batch int }

// add takes the defaults as the help says them.
func (f *scaleFlags) add(c *cobra.Command, workers, batch string) {
	c.Flags().IntVar(&f.limit, "limit", 0, "score the first N images only")
	c.Flags().IntVar(&f.workers, "workers", 0, "cores to use, one model pass on each (default: "+workers+")")
	c.Flags().IntVar(&f.batch, "batch", 0, "images in one model pass (default: "+batch+")")
}

func (f *scaleFlags) check() error {
	if f.limit < 0 || f.workers < 0 || f.batch < 0 {
		return errors.New("--limit, --workers and --batch can't be negative")
	}
	return nil
}

// apply changes the runtime of a config where a flag was given.
func (f *scaleFlags) apply(cfg *config.Config, changed func(flag string) bool) {
	cfg.Limit = f.limit
	if changed("workers") {
		cfg.Runtime.Workers = f.workers
	}
	if f.batch > 0 {
		cfg.Runtime.Batch = f.batch
	}
}

// outputFlags are --out, --force and --quiet.
type outputFlags struct {
	out          string
	force, quiet bool
}

func (f *outputFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.out, "out", "results", "output folder")
	c.Flags().BoolVar(&f.force, "force", false, "overwrite the results of another config")
	c.Flags().BoolVar(&f.quiet, "quiet", false, "no progress")
}

func runCommand(g *globals) *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run",
		Short: "Plan the suites of a config, attack, control, score, write results and reports",
		Long: `Runs the suites of a config. In an oblivious suite every model is attacked once,
undefended, and the same adversarial images are then given to every controller;
in a white-box suite every model is attacked anew under each controller. Results
and reports go to --out; cells that are done are kept whatever ends the run.`,
		Example: `  selfheal run                                      # ./config.yaml, else the bundled one
  selfheal run --config my.yaml --out out --suite real
  selfheal run --limit 32 --set attacks.aa-linf.epsilon=4/255
  selfheal run --dry-run                            # the cells and an estimate of the passes
  selfheal run --dry-run --suite table7 --rate 150  # a table of the paper, and the hours it takes`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error { return doRun(c, g, f) },
	}
	c.Flags().StringVar(&f.config, "config", "", "config file (default: ./config.yaml, else the bundled one)")
	f.scaleFlags.add(c, "the config's, 0: all cores", "the config's")
	f.outputFlags.add(c)
	c.Flags().StringArrayVar(&f.suites, "suite", nil, "suite to run; may be repeated (default: the config's default_suites)")
	c.Flags().StringArrayVar(&f.sets, "set", nil, "change the config: attacks.NAME.key=value; may be repeated")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the cells and the passes that the attacks need at most; run nothing, need no file")
	c.Flags().StringArrayVar(&f.rates, "rate", nil, "with --dry-run, for hours: [MODEL=]N, passes of one image a second; may be repeated")
	return c
}

// loadConfig reads the config asked for, the working folder's, or the bundled one.
func (g *globals) loadConfig(path string, sets []string) (*config.Config, error) {
	if path != "" {
		return config.Load(path, sets...)
	}
	cfg, err := config.Load("config.yaml", sets...)
	if !errors.Is(err, fs.ErrNotExist) {
		return cfg, err
	}
	data, err := fs.ReadFile(g.files, "config.yaml")
	if err != nil {
		return nil, err
	}
	return config.Parse("bundled config.yaml", data, bundledFirst{g.files}, sets...)
}

func (f *runFlags) plan(g *globals, changed func(flag string) bool) (*harness.Plan, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	cfg, err := g.loadConfig(f.config, f.sets)
	if err != nil {
		return nil, err
	}
	if cfg, err = cfg.Selected(f.suites); err != nil {
		return nil, err
	}
	f.apply(cfg, changed)
	return harness.NewPlan(cfg)
}

func doRun(c *cobra.Command, g *globals, f *runFlags) error {
	plan, err := f.plan(g, c.Flags().Changed)
	if err != nil {
		return usageError{err}
	}
	if f.dryRun {
		return dryRun(c, plan, f.rates)
	}
	if len(f.rates) > 0 {
		return usageError{errors.New("--rate goes with --dry-run")}
	}
	if missing := plan.Missing(f.fitCommand()); len(missing) > 0 {
		fmt.Fprint(c.OutOrStdout(), harness.DescribeMissing(missing))
		return usageError{missingFiles(plan.Config, missing)}
	}
	return execute(c, g, plan, f.outputFlags)
}

// execute carries out a plan and writes results and reports.
func execute(c *cobra.Command, g *globals, plan *harness.Plan, f outputFlags) error {
	if err := g.runtime(c); err != nil {
		return err
	}
	file, records, err := harness.Run(c.Context(), plan, harness.Options{
		Out: f.out, Force: f.force, Progress: harness.NewProgress(c.ErrOrStderr(), f.quiet), Cache: pca.UserCache(),
		Command: commandLine(c),
	})
	if errors.Is(err, harness.ErrOtherConfig) || errors.As(err, new(harness.ConfigError)) {
		return usageError{err}
	}
	if file == nil || len(file.Cells) == 0 {
		return err
	}
	theory, terr := theoryOf(c.Context(), file)
	if rerr := reports.Write(f.out, file, slices.Values(records), theory); rerr != nil {
		return rerr // the more urgent of the two: something is not on disk
	}
	if err == nil {
		err = terr
	}
	if table, rerr := os.ReadFile(f.out + "/tables.md"); rerr == nil && err == nil {
		fmt.Fprintf(c.OutOrStdout(), "%s\nreport: %s/report.html\n", table, f.out)
	}
	return err
}
