// Package cli is the command line of selfheal: a file for each verb.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"selfheal/harness"
	"selfheal/internal/terminal"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the work failed
	exitUsage  = 2 // wrong usage or config, or a model with operators that are not supported
	exitSignal = 128
)

// Main runs the program on the arguments of its process and returns the exit code. Files are
// those built into the program: config.yaml, the bundled models and images, docs/schema.
func Main(files fs.FS) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals) // a second Ctrl-C ends the program whatever it is doing
		cancel(stopped{s})
	}()
	return run(ctx, files, os.Args[1:], os.Stdout, os.Stderr)
}

// stopped is why a context ended: the signal.
type stopped struct{ os.Signal }

func (s stopped) Error() string { return "stopped by " + s.String() }

// code is the exit code that shells give a program which a signal ends: 130 for Ctrl-C, 143 for SIGTERM.
func (s stopped) code() int {
	if number, ok := s.Signal.(syscall.Signal); ok {
		return exitSignal + int(number)
	}
	return exitSignal + int(syscall.SIGINT)
}

// exitError ends the program with a code of its own. One without a message has said all on stdout.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

// usage is an error of usage or config.
func usage(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), exitUsage}
}

// run is the whole program: it returns the exit code.
func run(ctx context.Context, files fs.FS, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = terminal.Escape(stdout), terminal.Escape(stderr)
	root := rootCommand(files)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.WithValue(ctx, argsKey{}, args))
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "selfheal: stopped; what was finished is kept")
		by := stopped{syscall.SIGINT}
		errors.As(context.Cause(ctx), &by)
		return by.code()
	}
	exit := exitError{err, exitFailed}
	if errors.As(err, new(harness.ConfigError)) || errors.As(err, new(*onnx.UnsupportedError)) ||
		errors.Is(err, harness.ErrOtherConfig) {
		exit.code = exitUsage
	}
	if errors.As(err, &exit); exit.error != nil {
		fmt.Fprintln(stderr, "selfheal:", strings.Join(strings.Fields(err.Error()), " "))
	}
	return exit.code
}

// argsKey is the key of the program's arguments in a command's context.
type argsKey struct{}

// commandLine is what the program was called with, its name first.
func commandLine(c *cobra.Command) []string {
	args, _ := c.Context().Value(argsKey{}).([]string)
	return append([]string{c.Root().Name()}, args...)
}

// globals are what every command has: the files built into the program, and flags.
type globals struct {
	files   fs.FS
	library string
	offline bool
}

func rootCommand(files fs.FS) *cobra.Command {
	g := &globals{files: files}
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
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q; see selfheal --help", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().StringVar(&g.library, "onnxruntime", "",
		"ONNX Runtime's shared library (default: $ONNXRUNTIME_SHARED_LIBRARY, the cache, "+
			"or a pinned copy through npm or pip)")
	flags{root}.completed("onnxruntime", anyFile)
	root.PersistentFlags().BoolVar(&g.offline, "offline", false, "never download anything")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w; see %s --help", err, c.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(runCommand(g), attackCommand(g), reportCommand(), checkCommand(g), verifyCommand(g),
		predictCommand(g), exportCommand(g), fitCommand(g), inspectCommand(), splitCommand(), gradCommand(),
		theoryCommand(), doctorCommand(g), schemaCommand(g), completionCommand(), versionCommand(g))
	return root
}

// runtime loads ONNX Runtime, telling the user on stderr what it downloads.
func (g *globals) runtime(c *cobra.Command) error {
	return ort.Init(c.Context(), ort.Options{Library: g.library, Offline: g.offline, Log: c.ErrOrStderr()})
}

// exactly asks for n arguments, called as in usage.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s, got %d arguments; see %s --help", c.Name(), what, len(args), c.CommandPath())
		}
		return nil
	}
}

// printJSON prints for other programs.
func printJSON(c *cobra.Command, v any) error {
	enc := json.NewEncoder(c.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
