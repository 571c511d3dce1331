package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/split"
)

// preprocessFlags are --mean and --std.
type preprocessFlags struct{ mean, std string }

func (p *preprocessFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&p.mean, "mean", "", "mean of the inputs, one value or one a channel: 0.49,0.48,0.45")
	c.Flags().StringVar(&p.std, "std", "", "standard deviation of the inputs, likewise")
}

// values parses both flags.
func (p *preprocessFlags) values() (mean, std []float32, err error) {
	if mean, err = parseFloats("--mean", p.mean); err != nil {
		return nil, nil, err
	}
	std, err = parseFloats("--std", p.std)
	return mean, std, err
}

// load opens a model, telling on stderr what was done to it.
func (p *preprocessFlags) load(c *cobra.Command, path string) (*onnx.Graph, error) {
	mean, std, err := p.values()
	if err != nil {
		return nil, err
	}
	g, _, err := simplify.Load(path, mean, std)
	if err != nil {
		return nil, err
	}
	for _, notice := range g.Notices {
		fmt.Fprintf(c.ErrOrStderr(), "selfheal: model %s: %s\n", path, notice)
	}
	return g, nil
}

func parseFloats(flag, s string) ([]float32, error) {
	var out []float32
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		v, err := strconv.ParseFloat(part, 32)
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %q is not a number", flag, part)}
		}
		out = append(out, float32(v))
	}
	return out, nil
}

func splitCommand() *cobra.Command {
	p := &preprocessFlags{}
	var out string
	var at []string
	c := &cobra.Command{
		Use:     "split MODEL --out DIR",
		Short:   "Write the segments F_0 … F_{T-1}, ONNX files that compose to the model",
		Example: "  selfheal split model.onnx --out segments\n  selfheal split model.onnx --out segments --at /layer1/Add_output_0",
		Args:    exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usageError{fmt.Errorf("split needs --out")}
			}
			g, err := p.load(c, args[0])
			if err != nil {
				return err
			}
			if len(at) == 0 {
				at = split.Boundaries(g)
			}
			segments, err := split.At(g, at)
			if err != nil {
				return fmt.Errorf("model %s: %w", args[0], err)
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			for i, s := range segments {
				path := filepath.Join(out, fmt.Sprintf("F%02d.onnx", i))
				if err := writeModel(path, s); err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: %s %s → %s %s\n", path, s.Inputs[0].Name, s.Inputs[0].Shape, s.Outputs[0].Name, s.Outputs[0].Shape)
			}
			return nil
		},
	}
	p.add(c)
	c.Flags().StringVar(&out, "out", "", "folder for the segments")
	c.Flags().StringArrayVar(&at, "at", nil, "cut tensor to cut at; may be repeated (default: the block boundaries)")
	return c
}

func gradCommand() *cobra.Command {
	p := &preprocessFlags{}
	var out string
	c := &cobra.Command{
		Use:     "grad MODEL --out FILE",
		Short:   "Write the vector-Jacobian graph: inputs x and cotangent, outputs y and dx",
		Example: "  selfheal grad model.onnx --out model.vjp.onnx",
		Args:    exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usageError{fmt.Errorf("grad needs --out")}
			}
			g, err := p.load(c, args[0])
			if err != nil {
				return err
			}
			v, err := grad.VJP(g)
			if err != nil {
				return fmt.Errorf("model %s: %w", args[0], err)
			}
			if err := writeModel(out, v); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: x %s, cotangent %s → y, dx\n", out, v.Inputs[0].Shape, v.Inputs[1].Shape)
			return nil
		},
	}
	p.add(c)
	c.Flags().StringVar(&out, "out", "", "file for the gradient graph")
	return c
}

func writeModel(path string, g *onnx.Graph) error {
	data, err := g.Encode()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, data, 0o644)
}
