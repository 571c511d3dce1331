// Package cli is the command line of selfheal: a file for each verb.
package cli

import (
	"context"
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
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the work failed
	exitUsage  = 2 // wrong usage or config, or a model with operators that are not supported
)

// Main runs the program on the arguments of its process and returns the exit code. Files are
// those built into the program: config.yaml, the bundled models and images, docs/schema.
func Main(files fs.FS) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program whatever it is doing
	return run(ctx, files, os.Args[1:], os.Stdout, os.Stderr)
}

// usageError marks errors of usage or config.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is the whole program: it returns the exit code.
func run(ctx context.Context, files fs.FS, args []string, stdout, stderr io.Writer) int {
	root := rootCommand(files)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.WithValue(ctx, argsKey{}, args))
	if err == nil {
		return exitOK
	}
	line := strings.Join(strings.Fields(err.Error()), " ")
	var usage usageError
	var exit exitError
	var unsupported *onnx.UnsupportedError
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "selfheal: stopped; what was finished is kept")
		return exitFailed
	case errors.As(err, &exit):
		if line != "" {
			fmt.Fprintln(stderr, "selfheal:", line)
		}
		return exit.code
	case errors.As(err, &usage), errors.As(err, &unsupported):
		fmt.Fprintln(stderr, "selfheal:", line)
		return exitUsage
	}
	fmt.Fprintln(stderr, "selfheal:", line)
	return exitFailed
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
		Example:       "  selfheal run                    # the bundled suite: attack, heal, report\n  selfheal attack model.onnx --data test.npz --norm linf --epsilon 8/255\n  selfheal inspect model.onnx     # can this model be attacked, and where can it be cut?",
		Version:       harness.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; see selfheal --help", args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().StringVar(&g.library, "onnxruntime", "", "ONNX Runtime's shared library (default: $ONNXRUNTIME_SHARED_LIBRARY, the cache, or a pinned copy through npm or pip)")
	root.PersistentFlags().BoolVar(&g.offline, "offline", false, "never download anything")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(runCommand(g), attackCommand(g), reportCommand(), checkCommand(), verifyCommand(g), predictCommand(g), exportCommand(g), fitCommand(g),
		inspectCommand(), splitCommand(), gradCommand(), theoryCommand(), doctorCommand(g),
		schemaCommand(g), completionCommand(), versionCommand(g))
	addCompletions(root, g)
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
			return usageError{fmt.Errorf("%s takes %s, got %d arguments; see %s --help", c.Name(), what, len(args), c.CommandPath())}
		}
		return nil
	}
}
