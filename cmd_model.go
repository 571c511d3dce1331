package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/split"
)

// preprocessFlags are --mean and --std.
type preprocessFlags struct{ mean, std string }

func (p *preprocessFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&p.mean, "mean", "", "mean of the inputs, one value or one a channel: 0.49,0.48,0.45")
	c.Flags().StringVar(&p.std, "std", "", "standard deviation of the inputs, likewise")
}

func (p *preprocessFlags) load(path string) (*onnx.Graph, error) {
	mean, err := parseFloats("--mean", p.mean)
	if err != nil {
		return nil, err
	}
	std, err := parseFloats("--std", p.std)
	if err != nil {
		return nil, err
	}
	g, _, err := onnx.Load(path, mean, std)
	return g, err
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

// modelInfo is what inspect prints of a model.
type modelInfo struct {
	Model      string         `json:"model"`
	Opset      int64          `json:"opset"`
	Inputs     []portInfo     `json:"inputs"`
	Outputs    []portInfo     `json:"outputs"`
	Operators  []operatorInfo `json:"operators"`
	Parameters int64          `json:"parameters"`
	FLOPs      int64          `json:"flops"`
	Cuts       []cutInfo      `json:"cut_tensors"`
	Segments   []segmentInfo  `json:"segments"`
}

type portInfo struct {
	Name  string `json:"name"`
	Shape string `json:"shape"`
}

type operatorInfo struct {
	Op       string `json:"op"`
	Count    int    `json:"count"`
	Gradient bool   `json:"gradient"`
}

type cutInfo struct {
	Name     string `json:"name"`
	Shape    string `json:"shape"`
	Boundary int    `json:"boundary,omitempty"` // t of the default boundaries, 0 when it is none
}

type segmentInfo struct {
	Index      int    `json:"index"`
	Input      string `json:"input"`
	Output     string `json:"output"`
	Parameters int64  `json:"parameters"`
	FLOPs      int64  `json:"flops"`
}

func describeModel(path string, p *preprocessFlags) (*modelInfo, error) {
	raw, data, err := onnx.Load(path, nil, nil)
	if err != nil {
		return nil, err
	}
	asWritten, err := onnx.Decode(data)
	if err != nil {
		return nil, err
	}
	g, err := p.load(path)
	if err != nil {
		return nil, err
	}
	info := &modelInfo{Model: path, Opset: asWritten.Opset, Parameters: raw.Parameters(), FLOPs: g.FLOPs()}
	for _, v := range g.Inputs {
		info.Inputs = append(info.Inputs, portInfo{v.Name, v.Shape.String()})
	}
	for _, v := range g.Outputs {
		info.Outputs = append(info.Outputs, portInfo{v.Name, v.Shape.String()})
	}
	counts := map[string]int{}
	for _, n := range g.Nodes {
		counts[n.Op]++
	}
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		info.Operators = append(info.Operators, operatorInfo{op, counts[op], grad.HasRule(op)})
	}
	boundaries := split.Boundaries(g)
	for _, t := range split.Cuts(g) {
		info.Cuts = append(info.Cuts, cutInfo{t, g.Shapes[t].String(), slices.Index(boundaries, t) + 1})
	}
	segments, err := split.At(g, boundaries)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", path, err)
	}
	for i, s := range segments {
		info.Segments = append(info.Segments, segmentInfo{i, s.Inputs[0].Shape.String(), s.Outputs[0].Shape.String(), s.Parameters(), s.FLOPs()})
	}
	return info, nil
}

func (m *modelInfo) print(c *cobra.Command) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s\nopset\t%d\n", m.Model, m.Opset)
	for _, p := range m.Inputs {
		fmt.Fprintf(w, "input\t%s %s\n", p.Name, p.Shape)
	}
	for _, p := range m.Outputs {
		fmt.Fprintf(w, "output\t%s %s\n", p.Name, p.Shape)
	}
	fmt.Fprintf(w, "parameters\t%d\nFLOPs\t%d\n", m.Parameters, m.FLOPs)
	var with, without []string
	for _, o := range m.Operators {
		s := fmt.Sprintf("%s ×%d", o.Op, o.Count)
		if o.Gradient {
			with = append(with, s)
		} else {
			without = append(without, s)
		}
	}
	fmt.Fprintf(w, "gradient rules for\t%s\n", strings.Join(with, ", "))
	if len(without) > 0 {
		fmt.Fprintf(w, "no gradient rule for\t%s\n", strings.Join(without, ", "))
	}
	fmt.Fprintf(w, "\nsegment\tinput → output\tparameters\tFLOPs\n")
	for _, s := range m.Segments {
		fmt.Fprintf(w, "F%d\t%s → %s\t%d\t%d\n", s.Index, s.Input, s.Output, s.Parameters, s.FLOPs)
	}
	fmt.Fprintf(w, "\ncut tensor\tshape\tdefault boundary\n")
	for _, t := range m.Cuts {
		b := ""
		if t.Boundary > 0 {
			b = fmt.Sprint(t.Boundary)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.Name, t.Shape, b)
	}
	return w.Flush()
}

func inspectCommand() *cobra.Command {
	p, asJSON := &preprocessFlags{}, false
	c := &cobra.Command{
		Use:     "inspect MODEL...",
		Short:   "Print a model's operators, gradient rules, FLOPs, cut tensors and block boundaries",
		Example: "  selfheal inspect model.onnx\n  selfheal inspect --json a.onnx b.onnx",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("inspect takes one model or more; see %s --help", c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var all []*modelInfo
			for _, path := range args {
				m, err := describeModel(path, p)
				if err != nil {
					return err
				}
				all = append(all, m)
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(all)
			}
			for i, m := range all {
				if i > 0 {
					fmt.Fprintln(c.OutOrStdout())
				}
				if err := m.print(c); err != nil {
					return err
				}
			}
			return nil
		},
	}
	p.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
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
			g, err := p.load(args[0])
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
			g, err := p.load(args[0])
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
