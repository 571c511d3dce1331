package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/internal/atomicfile"
	"selfheal/internal/lists"
	"selfheal/models/onnx"
	"selfheal/models/opened"
	"selfheal/models/ort"
	"selfheal/models/split"
)

func splitCommand(g *globals) *cobra.Command {
	p := &preprocessFlags{}
	var out string
	var at []string
	c := &cobra.Command{
		Use:   "split MODEL --out DIR",
		Short: "Write the segments F_0 … F_{T-1}, ONNX files that compose to the model",
		Example: `  selfheal split model.onnx --out segments
  selfheal split model.onnx --out segments --at /layer1/Add_output_0`,
		Args:              exactly(1, "one model"),
		ValidArgsFunction: once(filesWith("onnx")),
		RunE: func(c *cobra.Command, args []string) error {
			if err := needed(c, "out", out, ""); err != nil {
				return err
			}
			net, err := p.load(c, g, args[0])
			if err != nil {
				return err
			}
			if len(at) == 0 {
				at = split.Boundaries(net)
			}
			segments, err := split.At(net, at)
			if err != nil {
				return fmt.Errorf("model %s: %w", args[0], err)
			}
			to := g.rule.In(out, "segment")
			names := lists.Map(lists.To(len(segments)), func(i int) string { return fmt.Sprintf("F%02d.onnx", i) })
			if err := to.May(names...); err != nil {
				return err
			}
			if err := atomicfile.In(out).Make("."); err != nil {
				return fmt.Errorf("%s: %w", out, err)
			}
			for i, s := range segments {
				path := filepath.Join(out, names[i])
				data, err := s.Encode()
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if err := to.Write(names[i], data); err != nil {
					return err
				}
				in, out := s.Inputs[0], s.Outputs[0]
				fmt.Fprintf(c.OutOrStdout(), "%s: %s %s → %s %s\n", path, in.Name, in.Shape, out.Name, out.Shape)
			}
			return nil
		},
	}
	p.add(flags{c})
	p.addSize(flags{c})
	flags{c}.output(&out, "out", "", "folder for the segments", folders)
	flags{c}.force()
	flags{c}.texts(&at, "at", "cut tensor to cut at; may be repeated (default: the block boundaries)", noFiles)
	return c
}

// load opens a model to write parts of it as files, and reports its conversions on stderr.
func (p *preprocessFlags) load(c *cobra.Command, g *globals, path string) (*onnx.Graph, error) {
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	net, _, err := opened.Load(path, o, func() error { return g.runtime(c, config.Runtime{}) })
	if err != nil {
		return nil, err
	}
	if err := ort.Fits(net); err != nil {
		net.Notice(err.Error())
	}
	for _, notice := range net.Notices {
		fmt.Fprintf(c.ErrOrStderr(), "selfheal: model %s: %s\n", path, notice)
	}
	return net, nil
}
