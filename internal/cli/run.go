package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/fit"
	"selfheal/harness/folder"
	"selfheal/harness/forecast"
	"selfheal/harness/picture"
	"selfheal/harness/plan"
	"selfheal/harness/run"
	"selfheal/harness/shard"
	"selfheal/internal/lists"
	"selfheal/internal/suggest"
)

// planFlags choose suites of a config, and how they are computed.
type planFlags struct {
	scaleFlags
	providerFlags
	config       string
	suites, sets []string
}

func (f *planFlags) add(to flags, g *globals) {
	to.config(&f.config)
	f.scaleFlags.addConfigs(to)
	f.providerFlags.add(to, "the config's")
	to.texts(&f.suites, "suite", "suite to run; may be repeated (default: the config's default_suites)",
		g.ofConfig(suiteNames, 0))
	to.sets(&f.sets, g, "attacks.NAME.key=value")
}

// load reads the config and plans its suites.
func (f *planFlags) load(c *cobra.Command, g *globals) (*config.Config, *plan.Plan, error) {
	f.sets = append(f.sets, f.providerFlags.sets()...)
	cfg, err := g.loadConfig(f.config, f.sets)
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	p, err := f.plan(c, cfg, f.suites)
	return cfg, p, err
}

// missing returns the error about files that a plan needs and that are not there, after listing them.
func (f *planFlags) missing(c *cobra.Command, p *plan.Plan) error {
	missing := p.Missing(f.fit())
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprint(c.OutOrStdout(), plan.DescribeMissing(missing))
	return missingFiles(p.Config, missing)
}

// fit returns the start of the command that fits a control; the control's name follows it.
func (f *planFlags) fit() string {
	if f.config != "" {
		return "selfheal fit --config " + f.config + " --control "
	}
	return "selfheal fit --control "
}

type runFlags struct {
	planFlags
	outputFlags
	rates               []string
	dryRun              bool
	shard               string
	attempt, keepInputs bool
	function            bool
}

func runCommand(g *globals) *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run",
		Short: "Plan the suites of a config, attack, control, score, write results and reports",
		Long: `Runs the suites of a config. An oblivious attacker attacks every model once,
undefended, and the same adversarial images are then given to every controller;
a white-box attacker attacks every model anew under each controller. A suite with
controls has both unless its config says otherwise. Results and reports go to --out.
Finished work stays there, whatever ends the run: the same command continues, and
leaves a finished run as it is.`,
		Example: `  selfheal run                                      # ./config.yaml, else the bundled one
  selfheal run --config my.yaml --out out --suite real
  selfheal run --limit 32 --set attacks.aa-linf.epsilon=4/255
  selfheal run --dry-run                            # the cells, their passes and the time they take
  selfheal run --dry-run --suite table7 --rate 150  # a table of the paper, and the time it takes`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, g) },
	}
	to := flags{c}
	f.planFlags.add(to, g)
	f.outputFlags.add(to, g)
	to.on(&f.dryRun, "dry-run", "print the cells, the most passes that the attacks need and, where the files are "+
		"there, the time by timed passes and gradient steps; attack no cell")
	to.text(&f.shard, "shard", "", "I/N: do the I-th of N parts of the work; selfheal report merges them", noFiles)
	to.on(&f.attempt, "attempt", "with --shard, work beside others on the same shard, in a folder of one's own")
	to.on(&g.union, "union", "end with the accuracy under all attacks of a suite together, too: an image stands if it "+
		"stands under each")
	to.metrics(g)
	to.on(&g.picture, "save-pictures", "write the adversarial images that the run saves as PNG files, too")
	to.texts(&f.rates, "rate",
		"with --dry-run, the time without measuring: [MODEL=]N, passes of one image a second; may be repeated",
		noFiles)
	to.on(&f.keepInputs, keepInputs, "put the files of the config's folder into "+folder.InputFolder+" in --out")
	to.on(&f.function, function, "models of *.function are asked over the standard output and input")
	for _, flag := range []string{keepInputs, function} {
		if err := c.Flags().MarkHidden(flag); err != nil {
			panic(err) // the flag exists
		}
	}
	to.only(without("dry-run"), "out", "resume", "force", "quiet", "union", "metrics", "save-pictures", "log-every",
		"attempt", keepInputs, function)
	to.only(without("shard"), keepInputs, function)
	to.only(beside("config"), keepInputs)
	to.only(beside("dry-run"), "rate")
	to.only(beside("shard"), "attempt")
	return c
}

// keepInputs is a flag for the Python package, which writes a call's arrays, network and config to a folder for that
// call. The run that has locked the output folder keeps them there and names them in the results' command.
const keepInputs = "keep-inputs"

// kept returns the inputs that a run keeps, and the command for its results.
func (f *runFlags) kept(c *cobra.Command) (inputs string, command []string) {
	command = commandLine(c)
	if !f.keepInputs {
		return "", command
	}
	for i, arg := range command {
		if flag, ok := strings.CutSuffix(arg, f.config); ok && (flag == "" || flag == "--config=") {
			command[i] = flag + filepath.Join(f.out, folder.InputFolder, filepath.Base(f.config))
		}
	}
	return filepath.Dir(f.config), slices.DeleteFunc(command, func(arg string) bool {
		return arg == "--"+keepInputs || arg == "--"+function
	})
}

// loadConfig reads the config at path, otherwise the working folder's, otherwise the bundled one.
func (g *globals) loadConfig(path string, sets []string) (*config.Config, error) {
	if path != "" {
		return config.Load(path, sets...)
	}
	cfg, err := config.Load("config.yaml", sets...)
	if !errors.Is(err, fs.ErrNotExist) {
		g.reads("config.yaml")
		return cfg, err
	}
	return g.bundled(sets)
}

// bundled parses the config that is built into the program.
func (g *globals) bundled(sets []string) (*config.Config, error) {
	data, err := fs.ReadFile(g.files, "config.yaml")
	if err != nil {
		return nil, err
	}
	return config.Parse("bundled config.yaml", data, bundledFirst{g.files}, sets...)
}

// bundledFirst opens files built into the program, and otherwise the working folder's: the bundled config also names
// networks and images that are too large to be built in.
type bundledFirst struct{ fs.FS }

func (b bundledFirst) Open(name string) (fs.File, error) {
	if f, err := b.FS.Open(name); err == nil {
		return f, nil
	}
	return config.Folder(".").Open(name)
}

func (f *runFlags) run(c *cobra.Command, g *globals) error {
	cfg, p, err := f.load(c, g)
	if err != nil {
		return err
	}
	part, err := plan.ParseShard(f.shard)
	switch {
	case err != nil:
		return usage("--shard: %w", err)
	case f.dryRun:
		return f.describe(c, g, cfg, p, part)
	}
	if f.function {
		g.asks(c, p.Config)
	}
	if err := f.missing(c, p); err != nil {
		return err
	}
	o := run.Options{}
	o.KeepInputs, o.Command = f.kept(c)
	return execute(c, g, p, f.outputFlags, part, f.attempt, o)
}

// describe prints what a plan would do and, if that can be measured or is given by --rate, how long the plan and a
// shard of it take.
func (f *runFlags) describe(c *cobra.Command, g *globals, cfg *config.Config, p *plan.Plan, part plan.Shard) error {
	rates, err := parseRates(f.rates, p.Config)
	if err != nil {
		return err
	}
	var times *forecast.Times
	why := ""
	unrated := func(m config.Model) bool { return rates[m.Name] == 0 && rates[""] == 0 }
	if slices.ContainsFunc(p.Config.Models, unrated) && forecast.Measurable(p) {
		if rerr := g.runtime(c, p.Config.Runtime); rerr != nil {
			why = fmt.Sprintf("passes could not be timed: %s\n", strings.Join(strings.Fields(rerr.Error()), " "))
		} else {
			times, err = measure(c, p)
		}
	}
	if err != nil {
		return err
	}
	text, err := forecast.Describe(p, rates, times)
	if err != nil {
		return usage("%w", err)
	}
	if part.N > 1 {
		why += fmt.Sprintf("shard %s: one of %d about equal parts of that\n", part, part.N)
	}
	fits, err := f.describeFits(c, g, cfg, p)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(c.OutOrStdout(), text, fits, why)
	return err
}

// patience is how long passes are timed before a line says which; a variable for tests.
var patience = 5 * time.Second

func measure(c *cobra.Command, p *plan.Plan) (*forecast.Times, error) {
	var begun atomic.Int64 // jobs
	defer tell(c.ErrOrStderr(), patience, func(time.Time) string {
		n := begun.Load()
		if n == 0 {
			return ""
		}
		j := p.Jobs[n-1]
		return fmt.Sprintf("passes of suite %s, model %s (%d of %d) are timed; --rate N gives the time without",
			j.Suite.Name, j.Model.Name, n, len(p.Jobs))
	})()
	return forecast.Measure(c.Context(), p, pca.UserCache(), &begun)
}

// describeFits describes how long the trainings take that a plan's controls still need, if nothing else is missing.
func (f *runFlags) describeFits(c *cobra.Command, g *globals, cfg *config.Config, p *plan.Plan) (string, error) {
	var b strings.Builder
	other := func(m plan.Missing) bool { return m.Kind != "embedding" }
	if slices.ContainsFunc(p.Missing(""), other) { // without networks nothing can be timed
		return "", nil
	}
	for _, control := range p.Config.Controls {
		needed := slices.ContainsFunc(control.Layers, func(l config.Layer) bool {
			return l.Embedding.Training != nil && plan.Absent(cfg.Files, l.Embedding.Path)
		})
		if !needed {
			continue
		}
		if err := g.runtime(c, cfg.Runtime); err != nil {
			fmt.Fprintf(&b, "fit: control %s can't be timed: %s\n", control.Name,
				strings.Join(strings.Fields(err.Error()), " "))
			continue
		}
		text, err := estimated(c, cfg, control.Name, ", by "+f.fit()+control.Name)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// estimated says how long a control's trainings take that are not finished.
func estimated(c *cobra.Command, cfg *config.Config, control, by string) (string, error) {
	fits, err := fit.Estimate(c.Context(), cfg, control)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range fits {
		how := fmt.Sprintf("%d steps, some %s", e.Steps, forecast.Duration(e.Seconds))
		if e.Why != "" {
			how = "can't be timed: " + e.Why
		}
		fmt.Fprintf(&b, "fit: %s%s: %s\n", e.Path, by, how)
	}
	return b.String(), nil
}

// plan plans suites of a config, by default the config's own choice, at the scale of the flags.
func (f *scaleFlags) plan(c *cobra.Command, cfg *config.Config, suites []string) (*plan.Plan, error) {
	if err := f.check(c); err != nil {
		return nil, err
	}
	if err := cfg.FittedOnScored(suites); err != nil {
		return nil, usage("%w", err)
	}
	cfg, err := cfg.Selected(suites)
	if err != nil {
		return nil, usage("%w", err)
	}
	f.apply(c, cfg)
	p, err := plan.New(cfg)
	if err != nil {
		return nil, usage("%w", err)
	}
	return p, nil
}

// execute runs a plan, or a shard of it, and writes results and reports. o adds what the flags lack.
func execute(c *cobra.Command, g *globals, p *plan.Plan, f outputFlags, part plan.Shard, attempt bool,
	o run.Options) error {
	if g.planned != nil {
		return g.planned(p)
	}
	if err := g.prepare(c, p, f, &o); err != nil {
		return err
	}
	if part.N > 0 {
		err := shard.Run(c.Context(), p, part, attempt, o)
		if err == nil {
			fmt.Fprintf(g.results(c), "shard %s is done; when all are, selfheal report %s --out %s merges them\n",
				part, f.out, f.out)
		}
		return err
	}
	_, err := run.Run(c.Context(), p, o)
	if err == nil && g.picture {
		err = g.pictures(c, f.out)
	}
	if err == nil {
		g.printTables(c, f.out)
	}
	return err
}

// pictures writes a run's adversarial images as pictures.
func (g *globals) pictures(c *cobra.Command, out string) error {
	n, exact, err := picture.Saved(out, g.reportTo(out))
	if err == nil {
		fmt.Fprintf(g.results(c), "pictures: %s/pictures, %d of %d exact", out, exact, n)
		if exact < n {
			fmt.Fprint(g.results(c), "; the others are rounded to 8 bits and may not break the network: pixels 8bit "+
				"attacks on its levels")
		}
		fmt.Fprintln(g.results(c))
	}
	return err
}

// prepare checks a run's output folder, loads the runtime and sets the options that flags give.
func (g *globals) prepare(c *cobra.Command, p *plan.Plan, f outputFlags, o *run.Options) error {
	if f.resume && g.rule.Force {
		return usage("--resume continues a run, --force starts anew: give one of them")
	}
	if err := g.readsData(p.Config, f.out); err != nil {
		return err
	}
	if err := g.runtime(c, p.Config.Runtime); err != nil {
		return err
	}
	o.Out, o.Resume, o.Rule, o.Progress, o.Cache = f.out, f.resume, g.rule, g.progress(c), pca.UserCache()
	o.Report = g.render(c, f.out, f.out)
	return nil
}

// parseRates reads [MODEL=]N. A rate without a model, under "", applies to all others.
func parseRates(args []string, cfg *config.Config) (map[string]float64, error) {
	rates, known := map[string]float64{}, lists.Map(cfg.Models, func(m config.Model) string { return m.Name })
	for _, arg := range args {
		model, text, named := strings.Cut(arg, "=")
		if !named {
			model, text = "", arg
		}
		rate, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || !(rate > 0) || rate > 1e12:
			return nil, usage("--rate %s: N in [MODEL=]N must be a number above 0, the passes of one image a second",
				arg)
		case named && cfg.Model(model) == nil:
			return nil, usage("--rate %s: no suite that was selected has a model %q%s", arg, model,
				suggest.Or(model, "they have", known))
		case rates[model] > 0:
			return nil, usage("--rate %s: this rate is given twice", arg)
		}
		rates[model] = rate
	}
	return rates, nil
}

// missingFiles makes an error about missing files that a run needs. Each of them was described before.
func missingFiles(cfg *config.Config, missing []plan.Missing) error {
	const most = 3
	names := lists.Map(missing[:min(most, len(missing))], func(m plan.Missing) string {
		return fmt.Sprintf("%s (%s %s)", m.Path, m.Kind, m.For[0])
	})
	if more := len(missing) - most; more > 0 {
		names[most-1] += fmt.Sprintf(" and %d more", more)
	}
	where, hint := "the working folder", ""
	if folder, ok := cfg.Files.(config.Folder); ok && folder != "." {
		where = string(folder)
	}
	if slices.ContainsFunc(cfg.Suites,
		func(s config.Suite) bool { return s.Published != nil && s.Published.Table != "" }) {
		hint = "; docs/paper.md tells how to reproduce the paper's tables"
	}
	return usage("missing: %s; the list above says what belongs there, paths being relative to %s%s",
		strings.Join(names, ", "), where, hint)
}
