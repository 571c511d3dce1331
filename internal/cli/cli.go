// Package cli is the command line of selfheal, with one file per verb. [Main] parses the arguments, runs the verb and
// returns its exit code. A verb writes results to stdout and everything else to stderr. An error is one line that says
// what is wrong and what to do; a signal ends the work so that finished parts are kept.
package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/atomicfile"
	"selfheal/internal/input"
	"selfheal/internal/lists"
	"selfheal/internal/suggest"
	"selfheal/internal/terminal"
	"selfheal/models/onnx"
	"selfheal/models/ort"
	"selfheal/reports"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the work failed
	exitUsage  = 2 // wrong usage or config, or a model with unsupported operators (doctor: 1)
	exitSignal = 128
)

// Main runs the program on the arguments of its process and returns the exit code. files are built into the program:
// config.yaml, the bundled models and images, docs/schema.
func Main(files fs.FS) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(run.GCPercent)
	}
	return whole(stoppable(context.Background()), files, os.Args[1:], os.Stdout, os.Stderr)
}

// exitError ends the program with its own exit code. Without a message, stdout already says everything.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

// usage makes an error about usage or config.
func usage(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), exitUsage}
}

// whole runs the program and returns the exit code.
func whole(ctx context.Context, files fs.FS, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = terminal.Escape(stdout), terminal.Escape(stderr)
	g := &globals{files: files}
	root := g.rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	c, err := root.ExecuteContextC(context.WithValue(ctx, argsKey{}, args))
	err = cmp.Or(err, terminal.Lost(stdout))
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		by := stoppedBy(ctx)
		g.progress(c).Stopped(by.Signal.String(), by.code(), continuing(c, err))
		return by.code()
	case errors.Is(err, syscall.EPIPE): // the reader of stdout has closed it
		return exitSignal + int(syscall.SIGPIPE)
	}
	exit := exitError{err, exitFailed}
	if errors.As(err, new(open.ConfigError)) || errors.As(err, new(*onnx.UnsupportedError)) ||
		errors.As(err, new(atomicfile.Refused)) || errors.Is(err, folder.ErrOtherRun) {
		exit.code = exitUsage
	}
	if errors.As(err, &exit); exit.error != nil {
		g.progress(c).Failed(err, exit.code, continuing(c, err))
	}
	return exit.code
}

// argsKey is the key of the program's arguments in a command's context.
type argsKey struct{}

// commandLine returns the program's name and arguments.
func commandLine(c *cobra.Command) []string {
	args, _ := c.Context().Value(argsKey{}).([]string)
	return append([]string{c.Root().Name()}, args...)
}

// globals holds what all commands share: the files built into the program, and flags.
type globals struct {
	files   fs.FS
	library string
	offline bool
	log     string        // progress.TextLog or progress.JSONLog
	every   time.Duration // --log-every; 0 for commands without it
	quiet   bool
	union   bool                   // --union
	metrics bool                   // --metrics
	picture bool                   // --save-pictures
	rule    atomicfile.Rule        // for the files that the command writes
	planned func(*plan.Plan) error // receives the plan of a run instead of running it; nil: the plan is run
}

// progress makes a reporter by the flags of a command.
func (g *globals) progress(c *cobra.Command) *progress.Progress {
	p := progress.New(c.ErrOrStderr(), g.log, g.quiet)
	if g.every > 0 {
		p.SetEvery(g.every)
	}
	return p
}

// results returns the writer for a command's results.
func (g *globals) results(c *cobra.Command) io.Writer {
	if g.quiet {
		return io.Discard
	}
	return c.OutOrStdout()
}

// printTables prints the tables of a run's results in dir (aligned on a terminal, otherwise Markdown), the place of the
// report, and last the numbers that most people want.
func (g *globals) printTables(c *cobra.Command, dir string) {
	name := "tables.md"
	if terminal.Is(c.OutOrStdout()) {
		name = "tables.txt"
	}
	tables, err := input.Read(filepath.Join(dir, name), 64<<20)
	if err != nil {
		return
	}
	fmt.Fprintf(g.results(c), "%s\nreport: %s/report.html\n", tables, dir)
	if f, err := result.Read(filepath.Join(dir, "results.json")); err == nil {
		answers := reports.Answers(f)
		if g.union {
			answers = append(answers, reports.Unions(f)...)
		}
		if g.metrics {
			records, _ := recordsOf(dir)
			answers = append(answers, reports.Metrics(f, records)...)
		}
		g.progress(c).Report(progress.Answered{Lines: answers})
		for _, line := range answers {
			fmt.Fprintln(g.results(c), line)
		}
	}
}

// helpList is the annotation of a command whose help ends with a list.
const helpList = "list"

func (g *globals) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "selfheal",
		Short: "Measure how robust an ONNX image classifier is, and heal it while it runs",
		Long: `selfheal attacks ONNX image classifiers with AutoAttack (APGD-CE, APGD-T, FAB-T,
Square) in l-inf, l2 and l1, and runs them healed by closed-loop control.`,
		Example: `  selfheal run                    # the bundled suite: attack, heal, report
  selfheal attack model.onnx --data test.npz --norm linf --epsilon 8/255
  selfheal inspect model.onnx     # can this model be attacked, and where can it be cut?`,
		Version:       harness.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			verbs := lists.Map(c.Commands(), (*cobra.Command).Name)
			return usage("unknown command %q%s", args[0],
				cmp.Or(suggest.Word(args[0], verbs), "; see selfheal --help"))
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			// Verbs that run no network may still open one whose constants need the runtime.
			ort.Later = ort.Options{Library: g.library, Offline: g.offline,
				Log: func(f ort.Fetch) { g.progress(c).Fetched(f) }}
			return g.outputs(c, args)
		},
	}
	root.PersistentFlags().StringVar(&g.library, "onnxruntime", "",
		"ONNX Runtime's shared library (default: $ONNXRUNTIME_SHARED_LIBRARY, the cache, "+
			"or a pinned copy through npm or pip)")
	flags{root}.completed("onnxruntime", anyFile)
	root.PersistentFlags().BoolVar(&g.offline, "offline", false, "never download anything")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		g.findLogFormat(commandLine(c))
		return usage("%w", unknown(c, err))
	})
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) { // the caller sees whether stdout took it
		stdout, text := c.OutOrStdout(), &bytes.Buffer{}
		c.SetOut(text)
		help(c, args)
		c.SetOut(stdout)
		stdout.Write(text.Bytes())
	})
	root.SetHelpTemplate(root.HelpTemplate() + `{{with index .Annotations "` + helpList + `"}}
{{.}}{{end}}`)
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(runCommand(g), submitCommand(g), attackCommand(g), initCommand(g), verifyCommand(g),
		predictCommand(g), exportCommand(g), fitCommand(g), inspectCommand(g), splitCommand(g), gradCommand(g),
		doctorCommand(g), vnnlibCommand(g), checkCommand(g), versionCommand(g))
	for _, c := range []*cobra.Command{reportCommand(g), compareCommand(g), theoryCommand(g),
		schemaCommand(g), completionCommand(), manCommand(g)} {
		flags{c}.only(never, "onnxruntime", "offline")
		root.AddCommand(c)
	}
	return root
}

// runtime loads the requested ONNX Runtime and reports downloads to the user. Without a provider it loads the CPU's.
func (g *globals) runtime(c *cobra.Command, asked config.Runtime) error {
	if err := asked.Target().Ready(); err != nil { // before fetching gigabytes
		return usage("runtime.provider %s: %w", asked.Provider, err)
	}
	return ort.Init(c.Context(), ort.Options{Library: g.library, Offline: g.offline, Log: g.progress(c).Fetched,
		Provider: asked.Provider})
}

// ownRuntime loads an ONNX Runtime from this machine, without a download: for work that is possible without one.
func (g *globals) ownRuntime(c *cobra.Command) error {
	return ort.Init(c.Context(), ort.Options{Library: g.library, Offline: true})
}

// exactly requires n arguments; what names them as in the usage line.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s, got %d arguments; see %s --help", c.Name(), what, len(args), c.CommandPath())
		}
		return nil
	}
}

// atLeastOne requires an argument; what names the arguments.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("%s takes %s; see %s --help", c.Name(), what, c.CommandPath())
		}
		return nil
	}
}

// columns aligns the columns of a command's table, which tabs separate.
func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// printJSON prints v as JSON for other programs.
func printJSON(c *cobra.Command, v any) error {
	enc := json.NewEncoder(c.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
