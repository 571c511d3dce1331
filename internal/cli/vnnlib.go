package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/vnnlib"
)

func vnnlibCommand(g *globals) *cobra.Command {
	var timeout time.Duration
	var out string
	var seed uint64
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
the boxes, where it must not violate what was proven.`,
		Example: `  selfheal vnnlib resnet_2b.onnx prop_0.vnnlib --timeout 60s
  selfheal vnnlib resnet_2b.onnx prop_0.vnnlib.gz --out answer.txt`,
		Args:              exactly(2, "a model and a property"),
		ValidArgsFunction: filesWith("onnx", "vnnlib", "gz"),
		RunE: func(c *cobra.Command, args []string) error {
			if timeout < 0 {
				return usage("--timeout must be 0 or more, not %s", timeout)
			}
			ctx := c.Context()
			if timeout > 0 {
				limited, stop := context.WithTimeout(ctx, timeout)
				defer stop()
				ctx = limited
			}
			answer, err := vnnlib.Ask(ctx, vnnlib.Query{Model: args[0], Spec: args[1], Seed: seed,
				Runtime: func(context.Context) error { return g.runtime(c, config.Runtime{}) },
				Note:    func(line string) { fmt.Fprintf(c.ErrOrStderr(), "selfheal: %s\n", line) }})
			if errors.As(err, new(vnnlib.ErrProperty)) {
				return usage("%w", err)
			}
			if err != nil {
				return err
			}
			if out != "" {
				return writeFile(out, []byte(answer.String()))
			}
			_, err = fmt.Fprint(c.OutOrStdout(), answer)
			return err
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0,
		"end with the answer timeout after so long, such as 60s or 5m (0: never)")
	flags{c}.completed("timeout", noFiles)
	flags{c}.text(&out, "out", "", "file for the answer (default: print it)", anyFile)
	flags{c}.seed(&seed, "seed of the attack's starts")
	return c
}
