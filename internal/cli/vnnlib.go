package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/vnnlib"
	"selfheal/internal/atomicfile"
	"selfheal/internal/tree"
)

func vnnlibCommand(g *globals) *cobra.Command {
	v := &vnnlibFlags{globals: g}
	c := &cobra.Command{
		Use:   "vnnlib MODEL SPEC",
		Short: "Answer a verifier's question: sat with a counterexample, unsat or unknown",
		Long: `Reads a property in VNN-LIB, as the neural-network verification competition asks them: a
box of inputs, in the file's own input space and order, and what its outputs must not
be. An attack and bounds (alpha-CROWN) work on it side by side; what they leave
open is cut in two, again and again, and bounded, until --timeout. The answer is the competition's:
sat and a counterexample; unsat, which is proven with slack for float32's rounding;
unknown; or timeout. Before it is printed, the file as it lies is run by ONNX
Runtime in a session of its own: on the counterexample, or on up to 1,017 points of
the boxes, where it must not violate what was proven.

With --category all questions of a folder's instances.csv are asked, with the times
that stand there. --out is a CSV file then, a line a question, and counterexamples go
to the folder beside it whose name ends in .sat. The same command goes on where an
earlier one was stopped.`,
		Example: `  selfheal vnnlib resnet_2b.onnx prop_0.vnnlib --timeout 60s
  selfheal vnnlib resnet_2b.onnx prop_0.vnnlib.gz --out answer.txt
  selfheal vnnlib --category benchmarks/cifar10_resnet --out cifar10_resnet.csv`,
		Args: func(c *cobra.Command, args []string) error {
			if v.category != "" {
				return exactly(0, "no model and no property with --category")(c, args)
			}
			return exactly(2, "a model and a property")(c, args)
		},
		ValidArgsFunction: filesWith("onnx", "vnnlib", "gz"),
		RunE: func(c *cobra.Command, args []string) error {
			if v.timeout < 0 {
				return usage("--timeout must be 0 or more, not %s", v.timeout)
			}
			err := v.run(c, args)
			if errors.As(err, new(vnnlib.ErrProperty)) {
				return usage("%w", err)
			}
			return err
		},
	}
	c.Flags().DurationVar(&v.timeout, "timeout", 0,
		"end with the answer timeout after so long, such as 60s or 5m (0: never, or the category's times)")
	flags{c}.completed("timeout", noFiles)
	flags{c}.text(&v.category, "category", "", "folder with an instances.csv: answer all its questions", anyFile)
	flags{c}.output(&v.out, "out", "", "file for the answer (default: print it)", anyFile)
	c.Flags().BoolVar(&v.progress, "progress", false, "tell every second how many parts were bounded and wait")
	flags{c}.seed(&v.seed, "seed of the attack's starts")
	flags{c}.force()
	return c
}

type vnnlibFlags struct {
	*globals
	timeout       time.Duration
	category, out string
	progress      bool
	seed          uint64
}

func (v *vnnlibFlags) run(c *cobra.Command, args []string) error {
	ctx, log := c.Context(), c.ErrOrStderr()
	var to atomicfile.File
	if v.category == "" && v.out != "" {
		var err error
		if to, err = v.file(v.out, "answer"); err != nil {
			return err
		}
	}
	q := vnnlib.Query{Seed: v.seed, Count: new(tree.Count),
		Runtime: func(context.Context) error { return v.runtime(c, config.Runtime{}) },
		Note:    func(line string) { fmt.Fprintf(log, "selfheal: %s\n", line) }}
	if v.progress {
		defer tell(log, time.Second, grown(q.Count))()
	}
	if v.category != "" {
		return v.answerCategory(c, q)
	}
	q.Model, q.Spec = args[0], args[1]
	if v.timeout > 0 {
		limited, stop := context.WithTimeout(ctx, v.timeout)
		defer stop()
		ctx = limited
	}
	answer, err := vnnlib.Ask(ctx, q)
	if err != nil {
		return err
	}
	if v.out != "" {
		return to.Write([]byte(answer.String()))
	}
	_, err = fmt.Fprint(c.OutOrStdout(), answer)
	return err
}

func (v *vnnlibFlags) answerCategory(c *cobra.Command, q vnnlib.Query) error {
	if v.out == "" {
		return usage("--category needs --out, a file for the answers")
	}
	counts := map[string]int{}
	category := &vnnlib.Category{Folder: v.category, Out: v.out, Rule: v.rule, Timeout: v.timeout, Query: q,
		Told: func(done, of int, a vnnlib.Answered) {
			counts[a.Answer]++
			fmt.Fprintf(c.OutOrStdout(), "[%d/%d] %s %s: %s, %.1f s\n", done, of, a.Model, a.Spec, a.Answer, a.Seconds)
		}}
	if err := category.Ask(c.Context()); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s: unsat %d, sat %d, timeout %d, unknown %d, error %d\n", v.out, counts["unsat"],
		counts["sat"], counts["timeout"], counts["unknown"], counts["error"])
	return nil
}

// grown describes how far trees have grown.
func grown(count *tree.Count) func(begun time.Time) string {
	return func(begun time.Time) string {
		n := count.Examined.Load()
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f s: %d parts cut, %d wait", time.Since(begun).Seconds(), n, count.Waiting.Load())
	}
}

// tell writes a line at each interval, unless it is "" or the last one again, until stop is called.
func tell(log io.Writer, every time.Duration, line func(begun time.Time) string) (stop func()) {
	begun, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		told := ""
		for tick := time.Tick(every); ; {
			select {
			case <-done:
				return
			case <-tick:
			}
			if text := line(begun); text != "" && text != told {
				fmt.Fprintf(log, "selfheal: %s\n", text)
				told = text
			}
		}
	}()
	return func() { close(done); <-ended }
}
