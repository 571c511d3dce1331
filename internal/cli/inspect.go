package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"selfheal/internal/fault"
	"selfheal/internal/lists"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
	"selfheal/models/ort"
	"selfheal/models/split"
)

// modelInfo is the output of inspect for a model. If operators are unsupported, it has only the first part and these.
type modelInfo struct {
	Model      string         `json:"model"`
	Opset      int64          `json:"opset"`
	Notices    []string       `json:"notices,omitempty"`
	Inputs     []portInfo     `json:"inputs"`
	Outputs    []portInfo     `json:"outputs"`
	Operators  []operatorInfo `json:"operators"`
	Parameters int64          `json:"parameters"`

	// Unsupported operators and their nodes.
	Unsupported []onnx.OperatorGroup `json:"unsupported,omitempty"`
	NoGradient  []onnx.OperatorGroup `json:"no_gradient_rule,omitempty"`

	FLOPs    int64         `json:"flops"`
	Cuts     []cutInfo     `json:"cut_tensors"`
	Segments []segmentInfo `json:"segments"`
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
	Boundary int    `json:"boundary,omitempty"` // t of the default boundaries, 0 for other tensors
}

type segmentInfo struct {
	Index      int    `json:"index"`
	Input      string `json:"input"`
	Output     string `json:"output"`
	Ends       string `json:"output_name"` // name of the output tensor
	Parameters int64  `json:"parameters"`
	FLOPs      int64  `json:"flops"`
}

// obstacles lists the operators in an error about unsupported ones.
func obstacles(err error) []onnx.OperatorGroup {
	var unsupported *onnx.UnsupportedError
	if errors.As(err, &unsupported) {
		return unsupported.Groups()
	}
	return nil
}

// describeModel opens a model as every command does. With an error about unsupported operators it still returns what it
// knows of the model.
func describeModel(path string, p *preprocessFlags, runtime func() error) (info *modelInfo, err error) {
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	file, err := onnx.Read(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = fault.At("model "+path, err) }()
	g, err := onnx.Decode(file.Data)
	if err != nil {
		return nil, err
	}
	info = &modelInfo{Model: path, Opset: g.Opset}
	info.describe(g)
	if g, err = opened.Graph(file, o, runtime); err != nil {
		if info.Unsupported = obstacles(err); info.Unsupported == nil {
			return nil, err
		}
		return info, err
	}
	if err := ort.Fits(g); err != nil {
		g.Notice(err.Error())
	}
	parameters := g.Parameters() // without preprocessing
	if err := simplify.Preprocess(g, o); err != nil {
		return nil, err
	}
	info.describe(g)
	info.Parameters, info.FLOPs = parameters, g.FLOPs()
	boundaries := split.Boundaries(g)
	for _, t := range split.Cuts(g) {
		info.Cuts = append(info.Cuts, cutInfo{t, g.Shapes[t].String(), slices.Index(boundaries, t) + 1})
	}
	segments, err := split.At(g, boundaries)
	if err != nil {
		return nil, err
	}
	for i, s := range segments {
		out := s.Outputs[0]
		info.Segments = append(info.Segments,
			segmentInfo{i, s.Inputs[0].Shape.String(), out.Shape.String(), out.Name, s.Parameters(), s.FLOPs()})
	}
	err = grad.Check(g)
	info.NoGradient = obstacles(err)
	return info, err
}

// describe records the graph's ports and operators in their present form.
func (m *modelInfo) describe(g *onnx.Graph) {
	ports := func(values []onnx.Value) []portInfo {
		return lists.Map(values, func(v onnx.Value) portInfo { return portInfo{v.Name, v.Shape.String()} })
	}
	m.Notices, m.Parameters, m.Inputs, m.Outputs = g.Notices, g.Parameters(), ports(g.Inputs), ports(g.Outputs)
	counts := map[string]int{}
	for _, n := range g.Nodes {
		counts[n.Op]++
	}
	m.Operators = lists.Map(slices.Sorted(maps.Keys(counts)), func(op string) operatorInfo {
		return operatorInfo{op, counts[op], grad.HasRule(op)}
	})
}

// quantity writes a count with three digits and a unit: 1.11 G.
func quantity(n int64) string {
	v, units := float64(n), []string{"", " k", " M", " G", " T", " P", " E"}
	for v >= 999.5 {
		v, units = v/1000, units[1:]
	}
	digits := 0
	if units[0] != "" && v < 99.95 {
		digits = 1
		if v < 9.995 {
			digits = 2
		}
	}
	return fmt.Sprintf("%.*f%s", digits, v, units[0])
}

func (m *modelInfo) write(c *cobra.Command) error {
	w := columns(c.OutOrStdout())
	fmt.Fprintf(w, "model\t%s\nopset\t%d\n", m.Model, m.Opset)
	for _, notice := range m.Notices {
		fmt.Fprintf(w, "notice\t%s\n", notice)
	}
	for _, p := range m.Inputs {
		fmt.Fprintf(w, "input\t%s %s\n", p.Name, p.Shape)
	}
	for _, p := range m.Outputs {
		fmt.Fprintf(w, "output\t%s %s\n", p.Name, p.Shape)
	}
	fmt.Fprintf(w, "parameters\t%s\n", quantity(m.Parameters))
	if m.Unsupported != nil {
		fmt.Fprintf(w, "operators\t%s\n", m.counted(true, false))
		printObstacles(w, "not supported", m.Unsupported)
		return w.Flush()
	}
	fmt.Fprintf(w, "FLOPs\t%s\ngradient rules for\t%s\n", quantity(m.FLOPs), m.counted(true))
	if without := m.counted(false); without != "" {
		// Some need no rule: comparisons, and operators that no gradient passes.
		fmt.Fprintf(w, "none for\t%s\n", without)
	}
	printObstacles(w, "no gradient rule", m.NoGradient)
	fmt.Fprintf(w, "\nsegment\tinput → output\tparameters\tFLOPs\tends at\n")
	for _, s := range m.Segments {
		fmt.Fprintf(w, "F%d\t%s → %s\t%s\t%s\t%s\n", s.Index, s.Input, s.Output, quantity(s.Parameters),
			quantity(s.FLOPs), s.Ends)
	}
	fmt.Fprintf(w, "\ncut tensor\tshape\tdefault boundary\n")
	for _, t := range m.Cuts {
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.Name, t.Shape, strings.TrimPrefix(fmt.Sprint(t.Boundary), "0"))
	}
	return w.Flush()
}

// counted lists operators, with or without a gradient rule or both, with their counts: "Conv ×5, Relu ×4".
func (m *modelInfo) counted(rule ...bool) string {
	of := lists.Only(m.Operators, func(o operatorInfo) bool { return slices.Contains(rule, o.Gradient) })
	list := lists.Map(of, func(o operatorInfo) string { return fmt.Sprintf("%s ×%d", o.Op, o.Count) })
	return strings.Join(list, ", ")
}

// printObstacles prints a line for each node, so that long lists stay readable.
func printObstacles(w *tabwriter.Writer, what string, list []onnx.OperatorGroup) {
	if len(list) > 0 {
		fmt.Fprintf(w, "\n%s\tnode, from 0\n", what)
	}
	for _, o := range list {
		for _, node := range o.Places {
			fmt.Fprintf(w, "%s\t%s\n", o.Operator, node)
		}
	}
}

func inspectCommand(g *globals) *cobra.Command {
	p, asJSON := &preprocessFlags{}, false
	c := &cobra.Command{
		Use:   "inspect MODEL...",
		Short: "Print a model's operators, gradient rules, FLOPs, cut tensors and block boundaries",
		Long: `Prints each model's inputs and outputs, operators and which of them have a
gradient rule, the chain of segments between the default block boundaries, and
every tensor at which it can be cut. Operators that can't be opened or
differentiated are named node by node; the exit code is then 2.`,
		Example: "  selfheal inspect model.onnx\n" +
			"  selfheal inspect --json a.onnx b.onnx       # exact numbers",
		Args:              atLeastOne("one model or more"),
		ValidArgsFunction: filesWith("onnx"),
		RunE: func(c *cobra.Command, args []string) error {
			all := []*modelInfo{}
			var broken error // of the first model
			for _, path := range args {
				m, err := describeModel(path, p, func() error { return g.ownRuntime(c) })
				if m == nil {
					return err
				}
				broken, all = cmp.Or(broken, err), append(all, m)
			}
			if asJSON {
				return cmp.Or(printJSON(c, all), broken)
			}
			for i, m := range all {
				if i > 0 {
					fmt.Fprintln(c.OutOrStdout())
				}
				if err := m.write(c); err != nil {
					return err
				}
			}
			return broken
		},
	}
	p.add(flags{c})
	p.addSize(flags{c})
	flags{c}.on(&asJSON, "json", "print JSON")
	return c
}
