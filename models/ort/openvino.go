package ort

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	rt "github.com/yalue/onnxruntime_go"
	"golang.org/x/sys/cpu"

	"selfheal/models/onnx"
)

// ProviderOpenVINO is the name of Intel's provider for processors.
const ProviderOpenVINO = "openvino"

// adaptToOpenVINO makes a program open a session for each number of items. OpenVINO prepares a graph again when the
// number changes, takes up to twice as long even if it does not, and is no faster with more than 16.
func adaptToOpenVINO(prog *Program, model []byte, cfg compileConfig) error {
	g, err := forOpenVINO(model)
	if err != nil {
		return err
	}
	for i, p := range prog.inputs {
		prog.fed[i].unread = !slices.ContainsFunc(g.Inputs, func(v onnx.Value) bool { return v.Name == p.Name })
	}
	if cfg.on.Precision == BFloat16 && g.Inputs[0].Name == prog.inputs[0].Name && inHalves(g) {
		prog.halves = true
		prog.fed[0].Size *= 2
		prog.fed[0].Shape = slices.Clone(prog.fed[0].Shape)
		prog.fed[0].Shape[0] *= 2
	}
	prog.sessions.open = func(items int) (*rt.DynamicAdvancedSession, error) { return openFixed(g, items, cfg) }
	return nil
}

// openFixed makes a session for runs of exactly this many items. Inputs and outputs without a batch stay as they are.
func openFixed(g *onnx.Graph, items int, cfg compileConfig) (s *rt.DynamicAdvancedSession, err error) {
	g = g.Clone()
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		if v.Shape.HasBatch() {
			v.Shape[0] = int64(items)
		}
	}
	model, err := g.Encode()
	if err != nil {
		return nil, err
	}
	keepingSignalStack(func() { s, err = newSession(model, g.Inputs, g.Outputs, cfg) })
	return s, err
}

// useOpenVINO lets OpenVINO compute on the processor.
func useOpenVINO(o *rt.SessionOptions, cfg compileConfig) error {
	settings, err := json.Marshal(map[string]map[string]string{"CPU": {
		"INFERENCE_PRECISION_HINT": cfg.on.Precision,
		// Each of the runs that the pool's workers make side by side is a stream.
		"NUM_STREAMS":           strconv.Itoa(max(1, cfg.runs)),
		"INFERENCE_NUM_THREADS": strconv.Itoa(max(1, cfg.runs) * max(1, cfg.threads)),
		"ENABLE_CPU_PINNING":    "NO",
		// Fusing by generated kernels crashes the program on some graphs with several matrix products, such as a linear
		// embedding between layers with four images. The fusing of convolutions with the operators behind them is a
		// separate part.
		"SNIPPETS_MODE": "DISABLE",
	}})
	if err != nil {
		return err
	}
	return o.AppendExecutionProviderOpenVINO(map[string]string{"device_type": "CPU", "load_config": string(settings)})
}

// forOpenVINO writes a graph in a form that OpenVINO computes well. It removes inputs that nothing reads: the provider
// would take such an input for the next one. OpenVINO runs HardSigmoid only by its reference code, in float32 between
// changes of layout, and computes one as steep as masks wrong: numbers between 0 and 1, and wrong gradients. It fuses
// Clip, Mul and Add, which replace HardSigmoid, with the operators around them: the gradient of ResNet-18 in bf16 takes
// two thirds of the time.
func forOpenVINO(model []byte) (*onnx.Graph, error) {
	g, err := onnx.Decode(model)
	if err != nil {
		return nil, err
	}
	if err := pooledByHalves(g); err != nil {
		return nil, err
	}
	b := &onnx.Builder{G: g, Prefix: "openvino/"}
	var nodes []*onnx.Node
	for _, n := range g.Nodes {
		if n.Op == "HardSigmoid" {
			scaled, moved := n.Outputs[0]+"/scaled", n.Outputs[0]+"/moved"
			slope, shift := b.Float(n.Float("alpha", 0.2)), b.Float(n.Float("beta", 0.5))
			nodes = append(nodes,
				&onnx.Node{Op: "Mul", Inputs: []string{n.Inputs[0], slope}, Outputs: []string{scaled}},
				&onnx.Node{Op: "Add", Inputs: []string{scaled, shift}, Outputs: []string{moved}})
			n = &onnx.Node{Op: "Clip", Inputs: []string{moved, b.Float(0), b.Float(1)}, Outputs: n.Outputs}
		}
		nodes = append(nodes, n)
	}
	g.Nodes = nodes
	readers := g.Consumers()
	g.Inputs = slices.DeleteFunc(g.Inputs, func(v onnx.Value) bool {
		return readers[v.Name] == nil && !g.IsOutput(v.Name)
	})
	return g, b.Err()
}

// pooledByHalves replaces, in place, the gradient of a MaxPool of 2×2 windows side by side. It scatters the cotangent
// to the places that a second pool returns; OpenVINO has reference code for that, ten times as slow as comparisons. In
// both rows of a window the left value is compared with the right, then the larger above with the larger below. In
// ties the first gets the cotangent, as by the indices.
func pooledByHalves(g *onnx.Graph) error {
	if !slices.ContainsFunc(g.Nodes, func(n *onnx.Node) bool { return n.Op == "ScatterElements" }) {
		return nil
	}
	for _, v := range g.Inputs {
		g.Shapes[v.Name] = v.Shape
	}
	for name, c := range g.Consts {
		g.Shapes[name] = c.Shape
	}
	for _, n := range g.Nodes {
		if g.InferNode(n) != nil {
			return nil // without the shapes the gradient stays as it is, which is slower
		}
	}
	from, readers := g.Producers(), g.Consumers()
	err := g.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		scatter := from[n.Inputs[0]]
		if n.Op != "Reshape" || scatter == nil || scatter.Op != "ScatterElements" || len(readers[n.Inputs[0]]) != 1 {
			return false
		}
		pool, cotangent := from[scatter.Inputs[1]], from[scatter.Inputs[2]]
		for _, op := range []string{"Mod", "Reshape"} { // the places in the batch as places in an item
			if pool == nil || pool.Op != op {
				return false
			}
			pool = from[pool.Inputs[0]]
		}
		if !halving(g, pool) || cotangent == nil || cotangent.Op != "Reshape" {
			return false
		}
		x, gy := pool.Inputs[0], cotangent.Inputs[0]
		if !slices.Equal(g.Shapes[n.Outputs[0]], g.Shapes[x]) ||
			!slices.Equal(g.Shapes[gy], g.Shapes[pool.Outputs[0]]) {
			return false
		}
		b.Prefix = n.Outputs[0] + "/"
		zero, c := b.Float(0), g.Shapes[x][1]
		v := b.Multi("Split", onnx.Attrs{"axis": 1}, 4, b.OpWith("SpaceToDepth", onnx.Attrs{"blocksize": 2}, x),
			b.Ints(c, c, c, c))
		var parts []string
		above := b.Op("GreaterOrEqual", b.Op("Max", v[0], v[1]), b.Op("Max", v[2], v[3]))
		for row, of := range []string{b.Op("Where", above, gy, zero), b.Op("Where", above, zero, gy)} {
			left := b.Op("GreaterOrEqual", v[2*row], v[2*row+1])
			parts = append(parts, b.Op("Where", left, of, zero), b.Op("Where", left, zero, of))
		}
		whole := &onnx.Node{Op: "DepthToSpace", Inputs: []string{b.OpWith("Concat", onnx.Attrs{"axis": 1}, parts...)},
			Outputs: n.Outputs}
		whole.Set("blocksize", 2)
		b.Append(whole)
		return true
	})
	g.Prune()
	return err
}

// halving reports whether a node is a MaxPool of maps whose 2×2 windows lie side by side.
func halving(g *onnx.Graph, n *onnx.Node) bool {
	if n == nil || n.Op != "MaxPool" || n.Domain != "" || len(g.Shapes[n.Inputs[0]]) != 4 {
		return false
	}
	win, err := onnx.NodeWindow(n, nil)
	x, two := g.Shapes[n.Inputs[0]], []int64{2, 2}
	return err == nil && slices.Equal(win.Kernel, two) && slices.Equal(win.Strides, two) &&
		slices.Equal(win.Dilations, []int64{1, 1}) && slices.Max(win.Pads) == 0 && x[2]%2 == 0 && x[3]%2 == 0
}

// inHalves makes the first convolution take an image in two halves, [N 2C H W]: the pixels rounded to bf16, and the
// rest. If anything else reads the image, it leaves the graph unchanged and returns false. From ½ on, bf16 pixels are
// 1/256 apart, which loses much of a small perturbation: attacks on a ResNet-18 left 1 % more of the images unbroken.
func inHalves(g *onnx.Graph) bool {
	image := &g.Inputs[0]
	readers := g.Consumers()[image.Name]
	for _, n := range readers {
		w := g.Consts[n.Input(1)]
		if n.Op != "Conv" || n.Domain != "" || n.Inputs[0] != image.Name || n.Int("group", 1) != 1 || w == nil {
			return false
		}
	}
	b := &onnx.Builder{G: g, Prefix: "halves/"}
	for _, n := range readers {
		w := g.Consts[n.Inputs[1]]
		shape, of := slices.Clone(w.Shape), len(w.Floats)/int(w.Shape[0])
		shape[1] *= 2
		var twice []float32
		for filter := range slices.Chunk(w.Floats, of) {
			twice = append(append(twice, filter...), filter...)
		}
		n.Inputs[1] = b.Const(onnx.FloatTensor(shape, twice))
	}
	image.Shape = slices.Clone(image.Shape)
	image.Shape[1] *= 2
	g.Shapes[image.Name] = image.Shape
	return len(readers) > 0
}

func openVINOSupports(on Target) error {
	if on.Precision == BFloat16 && !cpu.X86.HasAVX512BF16 {
		return errors.New("this processor has no instructions for bf16 (AVX512_BF16); take precision f32")
	}
	return nil
}
