package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// trees are an ensemble's nodes in one list. A leaf leads to itself.
type trees struct {
	feature, yes, no []int64
	values           []float32
	roots            []int64
	depth            int // steps from a root to the lowest leaf
}

// Bounds on an ensemble: its tables, and its steps, each of which is a few operators.
const (
	mostTreeNodes = 1 << 24
	mostTreeSteps = 512
)

// branches are the comparisons of nodes by their mode.
var branches = map[string]string{"BRANCH_LEQ": "LessOrEqual", "BRANCH_LT": "Less", "BRANCH_GTE": "GreaterOrEqual",
	"BRANCH_GT": "Greater", "BRANCH_EQ": "Equal"}

// nodeID names a node as the file does.
type nodeID struct{ tree, node int64 }

// trees reads the nodes. It returns the comparison that all of them make, and where each node stands in the list.
func (e *expansion) trees() (t trees, compare string, at map[nodeID]int64) {
	ids := func(name string) []int64 { return e.n.Ints(name, nil) }
	tree, node := ids("nodes_treeids"), ids("nodes_nodeids")
	modes, _ := e.n.Attrs["nodes_modes"].([]string)
	yes, no := ids("nodes_truenodeids"), ids("nodes_falsenodeids")
	t.feature, t.values = slices.Clone(ids("nodes_featureids")), slices.Clone(e.floatsOf("nodes_values"))
	n, width := len(node), e.width()
	for _, length := range []int{len(tree), len(modes), len(yes), len(no), len(t.feature), len(t.values)} {
		onnx.Require(length == n && n > 0 && n <= mostTreeNodes, "has %d and %d values for its nodes", n, length)
	}
	at = map[nodeID]int64{}
	for i := range node {
		at[nodeID{tree[i], node[i]}] = int64(i)
	}
	onnx.Require(len(at) == n, "has two nodes with one number")
	t.yes, t.no = make([]int64, n), make([]int64, n)
	child, mode := make([]bool, n), ""
	for i := range node {
		if modes[i] == "LEAF" {
			t.yes[i], t.no[i], t.feature[i], t.values[i] = int64(i), int64(i), 0, 0
			continue
		}
		if mode == "" {
			mode = modes[i]
		}
		compare = branches[mode]
		onnx.Require(compare != "" && modes[i] == mode, "compares by %.20s and %.20s, which is not supported", mode,
			modes[i])
		onnx.Require(t.feature[i] >= 0 && t.feature[i] < width, "reads column %d of %d", t.feature[i], width)
		var left, right bool
		t.yes[i], left = at[nodeID{tree[i], yes[i]}]
		t.no[i], right = at[nodeID{tree[i], no[i]}]
		onnx.Require(left && right, "leads to a node that does not exist")
		onnx.Require(!child[t.yes[i]] && !child[t.no[i]] && t.yes[i] != t.no[i], "leads to one node twice")
		child[t.yes[i]], child[t.no[i]] = true, true
	}
	onnx.Require(compare != "", "has no branches: its answer is always the same")
	for i, has := range child {
		if !has {
			t.roots = append(t.roots, int64(i))
		}
	}
	seen := 0
	for level := t.roots; len(level) > 0; t.depth++ {
		seen += len(level)
		var next []int64
		for _, i := range level {
			if t.yes[i] != i {
				next = append(next, t.yes[i], t.no[i])
			}
		}
		level = next
	}
	t.depth--
	onnx.Require(seen == n, "has nodes that lead back to themselves")
	onnx.Require(t.depth <= mostTreeSteps, "has trees of %d steps, more than %d", t.depth, mostTreeSteps)
	return t, compare, at
}

// treeEnsemble walks all trees at once, a step from a root to a leaf after another, and adds up the leaves' weights.
// The answer rises in steps, so that there are no gradients.
func treeEnsemble(e *expansion) {
	t, compare, at := e.trees()
	classes := e.classes()
	ids, weights := e.n.Ints("class_ids", nil), e.floatsOf("class_weights")
	tree, node := e.n.Ints("class_treeids", nil), e.n.Ints("class_nodeids", nil)
	onnx.Require(len(ids) == len(weights) && len(tree) == len(ids) && len(node) == len(ids) && len(ids) > 0,
		"has %d class_ids for %d class_weights", len(ids), len(weights))
	single := classes == 2 && slices.Max(ids) == slices.Min(ids) // the score of the second class alone
	outputs := classes
	if single {
		outputs = 1
	}
	onnx.Require(outputs <= mostTreeNodes/int64(len(t.yes)), "has %d nodes for %d classes", len(t.yes), classes)
	leaves := make([]float32, int64(len(t.yes))*outputs)
	for k, id := range ids {
		i, ok := at[nodeID{tree[k], node[k]}]
		onnx.Require(ok && id >= 0 && id < classes, "gives a weight to class %d of a node that does not exist", id)
		leaves[i*outputs+id%outputs] += weights[k]
	}
	list := func(v []int64) string { return e.constant(onnx.IntTensor(v...)) }
	pick := func(of, i string) string { return e.op("Gather", onnx.Attrs{"axis": int64(0)}, of, i) }
	feature, yes, no, values := list(t.feature), list(t.yes), list(t.no), e.constant(onnx.FloatVector(t.values))
	take := func(v []int64) []int64 { return onnx.Each(t.roots, func(i int64) int64 { return v[i] }) }
	first := onnx.Each(t.roots, func(i int64) float32 { return t.values[i] })
	x := e.op("Gather", onnx.Attrs{"axis": int64(1)}, e.in(0), list(take(t.feature)))
	below := e.op(compare, nil, x, e.constant(onnx.FloatVector(first)))
	i := e.op("Where", nil, below, list(take(t.yes)), list(take(t.no)))
	for range t.depth - 1 {
		x = e.op("GatherElements", onnx.Attrs{"axis": int64(1)}, e.in(0), pick(feature, i))
		below = e.op(compare, nil, x, pick(values, i))
		i = e.op("Where", nil, below, pick(yes, i), pick(no, i))
	}
	leaf := pick(e.constant(onnx.FloatTensor(onnx.Shape{int64(len(t.yes)), outputs}, leaves)), i)
	z := e.op("ReduceSum", onnx.Attrs{"keepdims": int64(0)}, leaf, list([]int64{1}))
	if base := e.floatsOf("base_values"); len(base) > 0 {
		onnx.Require(int64(len(base)) == outputs, "has %d base_values for %d scores", len(base), outputs)
		z = e.op("Add", nil, z, e.constant(onnx.FloatTensor(onnx.Shape{1, outputs}, base)))
	}
	e.s.g.Steps = true
	e.s.g.Notice("its trees' answer rises in steps: it has no gradients")
	e.classified(z, single, !slices.ContainsFunc(weights, func(w float32) bool { return w <= 0 }))
}
