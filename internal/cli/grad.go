package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"selfheal/models/grad"
)

func gradCommand(g *globals) *cobra.Command {
	p := &preprocessFlags{}
	var out string
	c := &cobra.Command{
		Use:               "grad MODEL --out FILE",
		Short:             "Write the vector-Jacobian graph: inputs x and cotangent, outputs y and dx",
		Example:           "  selfheal grad model.onnx --out model.vjp.onnx",
		Args:              exactly(1, "one model"),
		ValidArgsFunction: once(filesWith("onnx")),
		RunE: func(c *cobra.Command, args []string) error {
			if err := needed(c, "out", out, ""); err != nil {
				return err
			}
			to, err := g.file(out, "gradient graph")
			if err != nil {
				return err
			}
			net, err := p.load(c, g, args[0])
			if err != nil {
				return err
			}
			v, err := grad.VJP(net)
			if err != nil {
				return fmt.Errorf("model %s: %w", args[0], err)
			}
			data, err := v.Encode()
			if err == nil {
				err = to.Write(data)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: x %s, cotangent %s → y, dx\n", out, v.Inputs[0].Shape, v.Inputs[1].Shape)
			return nil
		},
	}
	p.add(flags{c})
	p.addSize(flags{c})
	flags{c}.output(&out, "out", "", "file for the gradient graph", filesWith("onnx"))
	flags{c}.force()
	return c
}
