package cli

import (
	"cmp"
	"fmt"

	"selfheal/harness/cell"

	"github.com/spf13/cobra"
)

func exportCommand(g *globals) *cobra.Command {
	f, out := &useFlags{}, ""
	c := &cobra.Command{
		Use:   "export --model NAME --control NAME --out FILE",
		Short: "Write the controlled network as one ONNX file, for any runtime",
		Long: `Writes the closed loop as one ONNX network of standard operators: input image,
[N C H W] in [0,1], with mean and std inside, output logits, [N classes]. With the
greedy solver it is x_{t+1} = F_t(E_t(x_t)); msa and pmp are unrolled, every sweep and
ascent step as nodes that share their weights, up to 20,000 nodes. The file's
metadata name the control, the solver and the model's SHA-256.`,
		Example: `  selfheal export --model preact-robust --control greedy --out healed.onnx
  selfheal export --config my.yaml --model mine --control pca --out healed.onnx`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if f.control == cell.None {
				f.control = ""
			}
			err := cmp.Or(needed(c, "out", out, ""),
				needed(c, "control", f.control, ", the name of a control of the config"))
			if err != nil {
				return err
			}
			cfg, err := f.load(c, g, "")
			if err != nil {
				return err
			}
			g.reads(cfg.Inputs(true)...)
			to, err := g.file(out, "healed network")
			if err != nil {
				return err
			}
			u, err := f.open(c, g, cfg, &scaleFlags{})
			if err != nil {
				return err
			}
			defer u.Close()
			e, err := u.Export()
			if err != nil {
				return err
			}
			if err := to.Write(e.Data); err != nil {
				return err
			}
			for _, line := range e.Judged {
				fmt.Fprintln(c.ErrOrStderr(), line)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: image %s → %s, %v, %sB\n",
				out, e.Input, e.Output, e.Solver, quantity(int64(len(e.Data))))
			return err
		},
	}
	f.add(flags{c}, g, "a control of the config")
	flags{c}.output(&out, "out", "", "file for the network", filesWith("onnx"))
	flags{c}.force()
	return c
}
