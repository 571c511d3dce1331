package simplify

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// Graph brings a decoded graph into the form that the other packages work on: operators as of version [onnx.Opset], one
// float input with an open batch, constants folded (Identity, Constant, zero Pad, shape arithmetic), every shape known,
// nothing dead. A fixed batch is made symbolic; where the graph depends on it, the error says at which node. All
// unsupported operators are listed in one error.
func Graph(g *onnx.Graph) error { return graph(g, false, false) }

// graph is Graph; with whole the whole input is one item, as a vector always is, and with alone it is too, but the
// graph has neither in its input nor in its outputs the file's own batch of 1.
func graph(g *onnx.Graph, whole, alone bool) (err error) {
	var fixedBatch int64
	defer func() {
		if err != nil && fixedBatch > 0 {
			err = fmt.Errorf("%w; %s", err, openExport(fixedBatch))
		}
	}()
	defer onnx.Refused(&err)
	set := g.Opset
	onnx.Require(set >= oldestOpset, "operator set %d is older than %d; export the model again", set, oldestOpset)
	onnx.Require(set <= newestOpset, "operator set %d is newer than %d, the newest that is known; export the model "+
		"for set %d", set, newestOpset, onnx.Opset)
	g.Prune() // a node that no output needs stands in nobody's way
	onnx.Must(supported(onData(g)))
	onnx.Require(len(g.Nodes) > 0, "has no operators: its output is its input or a constant")
	if len(g.Inputs) == 1 && (whole || len(g.Inputs[0].Shape) == 1) {
		whole = true
		liftInput(g)
	}
	checkInterface(g)
	s := &simplifier{
		Inference: &onnx.Inference{Graph: g, Ints: map[string][]int64{}}, g: g, whole: whole || alone,
		alias: map[string]string{}, offsets: map[string][]int64{}, from: g.Opset, reads: g.Consumers(),
		means: map[string]reduced{}, totals: map[string]reduced{}, source: map[string]string{},
		rows: map[string]string{}, flat: map[string]string{}, places: map[string]places{},
		turned: map[string]*onnx.Node{},
		steps:  map[string]*quantization{}, sums: map[string]*sum{}, int32s: int32s(g), dynamic: map[string]bool{},
		pooled: map[string]onnx.Shape{}, shared: map[string]bool{},
	}
	in := &g.Inputs[0]
	if in.Shape[0] != onnx.Batch {
		fixedBatch, in.Shape[0] = in.Shape[0], onnx.Batch
		if s.fixedBatch = fixedBatch; alone {
			s.fixedBatch = 0
		}
	}
	g.Opened = g.Opened || s.whole || fixedBatch > 0
	g.Inexact = g.Inexact || regrouped(g)
	g.Opset = max(g.Opset, onnx.Opset)
	g.Shapes = map[string]onnx.Shape{in.Name: in.Shape}
	for name, t := range g.Consts {
		g.Shapes[name] = t.Shape
	}
	nodes := g.Nodes
	g.Nodes = nil
	reserve(g, nodes)
	if alone {
		s.item1(in)
	}
	for _, n := range nodes {
		s.visit(n)
	}
	for i, o := range g.Outputs {
		x := g.Shapes[o.Name]
		if alone && len(x) > 2 && x[0] == onnx.Batch && x[1] == 1 {
			b := &onnx.Builder{G: g}
			o.Name = b.Reshape(o.Name, slices.Delete(slices.Clone(x), 1, 2))
			x, g.Outputs[i].Name = g.Shapes[o.Name], o.Name
			onnx.Must(b.Err())
		}
		onnx.Require(x != nil, "output %q is not computed from the input", o.Name)
		onnx.Require(len(x) > 0 && x[0] == onnx.Batch, "output %q has shape %v, without the batch in front", o.Name, x)
		g.Outputs[i].Shape = x
	}
	fuse(g, s.means, s.totals)
	g.Prune()
	if n := len(g.Nodes); n > manyNodes {
		g.Notice(fmt.Sprintf("has %d operators%s", n, NoticeLong))
	}
	return g.Verify()
}

// reserve keeps new tensors from getting the names of those that nodes write.
func reserve(g *onnx.Graph, nodes []*onnx.Node) {
	for _, n := range nodes {
		for _, o := range n.Outputs {
			g.Shapes[o] = nil
		}
	}
}

// onData are the nodes that a constant's value cannot stand for: those that the input's values reach, and those that
// draw. An If that a constant decides becomes the nodes of its branch, which are not among them yet.
func onData(g *onnx.Graph) (nodes []*onnx.Node) {
	fed := map[string]bool{}
	for _, in := range g.Inputs {
		fed[in.Name] = true
	}
	for _, n := range g.Nodes {
		isFed := func(in string) bool { return fed[in] }
		if n.Computable() && (n.Op == "Shape" || n.Op == "Size" || !slices.ContainsFunc(n.Inputs, isFed)) {
			continue
		}
		for _, o := range n.Outputs {
			fed[o] = o != ""
		}
		if n.Op != "If" || isFed(n.Input(0)) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func supported(nodes []*onnx.Node) error {
	training := func(n *onnx.Node) bool { return n.Op == "BatchNormalization" && n.Int("training_mode", 0) == 1 }
	if i := slices.IndexFunc(nodes, training); i >= 0 {
		advice := "; export the model with eval()"
		if slices.ContainsFunc(nodes, func(n *onnx.Node) bool { return n.Op == "BatchNormalization" && !training(n) }) {
			advice = "" // it was: this layer has no other form
		}
		return fmt.Errorf("node %s: is in training mode: it computes an image's values from all images of the batch%s",
			nodes[i], advice)
	}
	return onnx.Supported(nodes, func(n *onnx.Node) bool { return expansionOf(n) != nil })
}

// openExport says how a network is exported whose fixed batch could not be made open.
func openExport(batch int64) string {
	return fmt.Sprintf("the batch was exported as %d and could not be made open: export from an example of two "+
		`images, torch.onnx.export(…, dynamic_shapes=({0: torch.export.Dim("batch")},))`, batch)
}

// NoticeLong ends the notice of a network of very many operators: what is said of time, not of numbers.
const NoticeLong = ": it takes long to prepare"

// manyNodes is how many operators the runtime prepares in seconds.
const manyNodes = 5000

func checkInterface(g *onnx.Graph) {
	if len(g.Inputs) != 1 {
		quoted := func(in onnx.Value) string { return fmt.Sprintf("%.80q", in.Name) }
		onnx.Refuse("has %d inputs, but a classifier has one: %s", len(g.Inputs), onnx.Few(onnx.Each(g.Inputs, quoted)))
	}
	in := g.Inputs[0]
	onnx.Require(in.DType == onnx.Float, "input %q is not float32", in.Name)
	onnx.Require(in.Shape != nil, "input %q has no shape, not even how many dimensions it has; export the network "+
		"with it", in.Name)
	onnx.Require(len(in.Shape) >= 2, "input %q has shape %v: a single number, not a batch", in.Name, in.Shape)
	for i, d := range in.Shape[1:] {
		onnx.Require(d >= 1, "input %q leaves dimension %d of %v open; export the model for one size, or give --size, "+
			"where no images say it", in.Name, i+1, in.Shape)
	}
	if err := in.Shape[1:].Check(); err != nil {
		onnx.Refuse("input %q: %w", in.Name, err)
	}
}

type simplifier struct {
	*onnx.Inference
	g          *onnx.Graph
	alias      map[string]string        // removed tensors and what stands for them
	offsets    map[string][]int64       // zero points that a QuantizeLinear's output is without
	steps      map[string]*quantization // of tensors that are quantised, and dequantised
	sums       map[string]*sum
	int32s     map[*onnx.Node]bool
	dynamic    map[string]bool    // floats that the file quantises by scales of their own
	kernels    bool               // what is visited stands for one operator on quantised values
	from       int64              // the operator set that the file was written for
	fixedBatch int64              // the batch the file was exported with, 0 when open
	means      map[string]reduced // ReduceMeans, for fuse
	totals     map[string]reduced // ReduceSums, likewise
	reads      map[string][]*onnx.Node
	folded     int                   // values that folding has made so far
	source     map[string]string     // integers that hold the batch size, and the tensor whose it is
	rows       map[string]string     // matrices kept apart, and what stands for them
	flat       map[string]string     // tensors made flat over the batch, and what they were
	places     map[string]places     // indices into those
	turned     map[string]*onnx.Node // Transposes, by what they write
	shared     map[string]bool       // constants that list once what they listed for each item of the exported batch
	pooled     map[string]onnx.Shape // indices that count in a whole batch of such tensors, see poolIndices
	whole      bool                  // the file's network has no batch: see lifted
}

func (s *simplifier) visit(n *onnx.Node) {
	for i, in := range n.Inputs {
		if a, ok := s.alias[in]; ok {
			n.Inputs[i] = a
		}
	}
	n.CheckInputs()
	s.carry(n)
	done, err := s.replaced(n)
	if unsupported := (*onnx.UnsupportedError)(nil); err != nil && !errors.As(err, &unsupported) {
		err = fmt.Errorf("node %s: %w", n, err)
	}
	onnx.Must(err)
	if done {
		return
	}
	onnx.Must(s.Node(n))
	s.SetTypes(n)
	s.g.Nodes = append(s.g.Nodes, n)
	if n.Op == "Transpose" {
		s.turned[n.Outputs[0]] = n
	}
}

// A step folds a node, leaves it out or writes it by others, and reports whether it has. Otherwise it may change the
// node in place.
type step func(s *simplifier, n *onnx.Node) (done bool)

// steps are tried in order, behind those on constants; init breaks the cycle steps → strided → lowerings → steps.
var steps []step

func init() {
	steps = []step{
		shapeOf, passThrough, turnedBack, onRows, strided, openBatch, poolIndices, shared,
		func(s *simplifier, n *onnx.Node) bool {
			written := s.write(n, rewrites[n.Op])
			if written && !onnx.TraitsOf(n.Op).Folded {
				s.SetTypes(n)
			}
			return written
		},
	}
}

// replaced folds a node or writes it by others, and reports whether it has. A node that
// stays has the form of operator set [onnx.Opset] then.
func (s *simplifier) replaced(n *onnx.Node) (done bool, err error) {
	defer onnx.Refused(&err)
	masked := n.Op == "Dropout" && len(n.Outputs) > 1 && len(s.reads[n.Outputs[1]]) > 0
	onnx.Require(!masked, "its mask is used")
	if s.branched(n) || s.expanded(n) {
		return true, nil
	}
	own, from := n.Clone(), s.from
	if n.Origin != nil { // a function may be written for another version
		from = n.Origin.Opset
	}
	upgrade(s.g, n, from)
	if s.lifted(n) || quantized(s, n) || summed(s, n) || fold(s, own) {
		return true, nil
	}
	done, why := s.computed(own)
	if done {
		return true, nil
	}
	if err = supported([]*onnx.Node{own}); err != nil && why != nil {
		err = fmt.Errorf("%w; %w", err, why)
	}
	onnx.Must(err)
	onnx.Require(why == nil || !onnx.TraitsOf(own.Op).Folded, "%w", why)
	if slices.ContainsFunc(steps, func(do step) bool { return do(s, n) }) {
		return true, nil
	}
	for _, in := range n.Inputs {
		if v, ok := s.Ints[in]; ok {
			onnx.Require(onnx.BatchIndex(v) < 0, "uses the batch size in a way that is not supported")
			s.g.Consts[in], s.g.Shapes[in] = onnx.IntTensor(v...), onnx.Shape{int64(len(v))}
		}
	}
	s.SameTypes(n)
	return s.lower(n), nil
}

// constant makes t the node's output, and reports true.
func (s *simplifier) constant(n *onnx.Node, t *onnx.Tensor) bool {
	s.g.Consts[n.Outputs[0]], s.g.Shapes[n.Outputs[0]] = t, t.Shape
	return true
}

// passThrough leaves out nodes that give their input unchanged.
func passThrough(s *simplifier, n *onnx.Node) bool {
	unchanged := n.Op == "Identity"
	switch n.Op {
	case "Pad":
		pads, err := s.IntsOf(n, 1)
		unchanged = err == nil && !slices.ContainsFunc(pads, func(p int64) bool { return p != 0 })
	case "Cast":
		unchanged = n.Int("to", 0) == int64(onnx.Float) && s.TypeOf(n.Inputs[0]) == onnx.Float &&
			s.g.Shapes[n.Inputs[0]] != nil
	}
	return unchanged && s.leaveOut(n, n.Inputs[0])
}

// leaveOut has t stand for the node's output; it reports false where that is the graph's.
func (s *simplifier) leaveOut(n *onnx.Node, t string) bool {
	if s.g.IsOutput(n.Outputs[0]) {
		return false
	}
	s.alias[n.Outputs[0]] = t
	return true
}

// turnedBack makes one Transpose of two, and none of two that undo each other.
func turnedBack(s *simplifier, n *onnx.Node) bool {
	before := s.turned[n.Inputs[0]]
	if n.Op != "Transpose" || before == nil {
		return false
	}
	first, perm := before.Ints("perm", nil), slices.Clone(n.Ints("perm", nil))
	if len(first) == 0 || len(perm) != len(first) {
		return false
	}
	for i, p := range perm {
		onnx.Require(p >= 0 && p < int64(len(first)), "has no axis %d", p)
		perm[i] = first[p]
	}
	if slices.Equal(perm, onnx.Range(0, len(perm))) && s.leaveOut(n, before.Inputs[0]) {
		return true
	}
	n.Inputs[0], n.Attrs = before.Inputs[0], onnx.Attrs{"perm": perm}
	return false
}

func shapeOf(s *simplifier, n *onnx.Node) bool {
	if n.Op != "Shape" {
		return false
	}
	in := s.g.Shapes[n.Inputs[0]]
	onnx.Require(in != nil, "its input's shape is not known")
	v := sizesOf(n, in)
	for i, d := range v {
		if d < 0 {
			v[i] = onnx.BatchSizes(-d)
		}
	}
	if s.folded += len(v); onnx.BatchIndex(v) < 0 {
		return s.constant(n, onnx.IntTensor(v...))
	}
	y := n.Outputs[0]
	s.source[y], s.Ints[y], s.g.Shapes[y] = n.Inputs[0], v, onnx.Shape{int64(len(v))}
	s.SetType(y, onnx.Int64)
	return true
}

func sizesOf(n *onnx.Node, x onnx.Shape) []int64 {
	d := int64(len(x))
	start, count := onnx.SliceRange(n.Int("start", 0), n.Int("end", d), 1, d)
	return slices.Clone(x[start : start+count])
}

// Load reads a model file, and prepares and preprocesses it as o says. It also returns the model in one piece, as
// [onnx.File] has it. Errors name the file.
func Load(path string, o Options) (_ *onnx.Graph, _ []byte, err error) {
	defer onnx.Refused(&err)
	f := onnx.Sure(onnx.Read(path))
	g, err := Open(f.Data, o)
	if err != nil {
		return nil, nil, fmt.Errorf("model %s: %w", path, err)
	}
	return g, f.Data, nil
}

// Open is Load for a model in memory, which must be in one piece.
func Open(data []byte, o Options) (_ *onnx.Graph, err error) {
	defer onnx.Refused(&err)
	g := onnx.Sure(onnx.Decode(data))
	onnx.Must(Prepare(g, o))
	onnx.Must(Preprocess(g, o))
	return g, nil
}
