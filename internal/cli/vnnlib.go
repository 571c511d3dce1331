package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/vnnlib"
	"selfheal/models/onnx/simplify"
)

func vnnlibCommand(g *globals) *cobra.Command {
	var timeout time.Duration
	var out string
	var seed uint64
	c := &cobra.Command{
		Use:   "vnnlib MODEL SPEC",
		Short: "Answer a verifier's question: sat with a counterexample, unsat or unknown",
		Long: `Reads a property in VNN-LIB, as the neural-network verification competition asks them: a
box of inputs, in the network's own input space, and what its outputs must not be. An
attack and bounds (alpha-CROWN) work on it side by side. The answer is the
competition's: sat and a counterexample, checked in float32; unsat, which is proven with
slack for float32's rounding; unknown; or timeout.`,
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
			net, err := loadNetwork(c, args[0], simplify.Options{})
			if err != nil {
				return err
			}
			property, err := vnnlib.Read(args[1])
			if err != nil {
				return usage("%w", err)
			}
			if err := g.runtime(c, config.Runtime{}); err != nil {
				return err
			}
			q, err := vnnlib.Ask(net, property)
			if err != nil {
				return fmt.Errorf("model %s: %w", args[0], err)
			}
			defer q.Close()
			if err := q.Unbounded(); err != nil {
				fmt.Fprintf(c.ErrOrStderr(), "selfheal: model %s: %v: nothing can be proven of it\n", args[0], err)
			}
			answer, err := q.Decide(ctx, seed)
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
