package bounds

import (
	"fmt"
	"slices"

	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// program carries rows of lower bounds backwards from a tensor. With what its segment adds, Σ rows·tensor is at least Σ
// coefficients·ends + Σ constants − Σ slack.
type program struct {
	tensor  string
	ends    []string // tensors whose coefficients are the first outputs
	session *ort.Session
	ports   []port   // the inputs after the rows
	stages  []*stage // stages whose sums are the outputs after the coefficients
	row     int      // number of values in a row
	perRow  int      // number of values in a row's largest tensor
	free    []*stage // stages whose steps each row has for itself
	cut     []*stage // stages whose lines each row has for itself, with multipliers of cuts
	climbs  bool     // it takes points and returns gradients there
}

// port is an input of a program that is the same for all rows of a region.
type port struct {
	kind  portKind
	stage *stage
	shape onnx.Shape
}

// portKind is the role of an input of a program. A stage with the coefficients A of its output, P = max(A, 0), has the
// linear bound
//
//	(A·slope + P·step)·input + Σ A·sums + Σ P·stepSums
//
// Here slope belongs to the upper line, and slope + step to the lower one. sums are matrices with as many columns as
// [blocks] returns for the constants, and as many again for the slack. A MaxPool's slope and step are masks of its
// windows. If step differs from row to row, so do its parts of the sums. With the input's coefficients B these parts
// are Σ B·zeros + Σ |B|·wrong instead.
type portKind int

const (
	slopePort portKind = iota
	stepPort
	otherSlopePort // slope of a product's second factor
	sumsPort
	stepSumsPort
	rowStepPort // [N, …]
	rowSumsPort
	rowStepSumsPort
	zerosPort
	wrongPort

	// Each row has its own lines for a stage that is cut. The coefficients of its input are
	//
	//	B = A·slope + P·step + β
	//
	// The program returns A, and the sums are computed from it outside.
	rowSlopePort
	betaPort
	upperPort // the lines' values at 0
	lowerPort
	zeroPort // the segment's value at 0, […]
	portKinds
)

func (p *program) close() {
	if p != nil && p.session != nil {
		p.session.Close()
	}
}

// perBlock is the least number of values that are added up in one block; there are at most mostBlocks blocks.
const perBlock, mostBlocks = 128, 16

// blocks returns the number of parts in which a stage's sums are added up.
func blocks(size int) int { return min(mostBlocks, (size+perBlock-1)/perBlock) }

// walk is a walk backwards under construction.
type walk struct {
	*onnx.Builder
	n     *Network
	p     *program
	free  freedom
	betas []string // multipliers of the stages that are cut
	gy    []string // coefficients of their outputs
	seeds map[string]string
}

// freedom says which inputs of a program each row has for itself.
type freedom int

const (
	nothingFree freedom = iota
	slopesFree          // the stages' steps
	cutsFree            // also the multipliers of cuts at their kinks
	cutsGiven           // as cutsFree, without gradients
)

func (f freedom) climbs() bool { return f == slopesFree || f == cutsFree }

// backward makes the program from a tensor to ends. If slopes are free, the program also takes, after the rows, a point
// of each end for each row. It then returns, after all else, the gradients of the bounds there by the stages' steps;
// with cuts also those by the multipliers and the rows, unless left is cutsGiven. The coefficients of the outputs of
// stages that are cut come last.
func (n *Network) backward(tensor string, ends []string, left freedom) (*program, error) {
	w := &walk{Builder: n.within("bound/"), n: n, free: left, seeds: map[string]string{},
		p: &program{tensor: tensor, ends: ends, row: n.size(tensor), climbs: left.climbs()}}
	w.p.perRow = w.p.row
	b := w.Builder
	rows := b.Input("rows", n.graph.Shapes[tensor])
	steps := map[*onnx.Node]step{}
	for _, s := range n.path { // the builder's graph is a copy
		steps[b.G.Nodes[slices.Index(n.graph.Nodes, s.Node)]] = s
	}
	var at, sums, slopes []string
	if left.climbs() {
		for i, end := range ends {
			at = append(at, b.Input(fmt.Sprint("at ", i), n.graph.Shapes[end]))
		}
	}
	rules := func(node *onnx.Node) (grad.Rule, bool) {
		s := steps[node]
		if s.stage == nil {
			w.p.perRow = max(w.p.perRow, n.size(node.Outputs[0]))
			return grad.Differentiation(node)
		}
		return func(_ *grad.Context, _ *onnx.Node, gy []string) []string {
			if gy[0] == "" {
				return []string{""}
			}
			if left >= cutsFree && s.stage.cuttable() {
				w.p.cut = append(w.p.cut, s.stage)
				return w.cut(s.stage, gy[0])
			}
			w.p.stages = append(w.p.stages, s.stage)
			gx, sum, step := w.relaxed(s.stage, gy[0])
			sums = append(sums, sum)
			if step != "" {
				w.p.free, slopes = append(w.p.free, s.stage), append(slopes, step)
			}
			return gx
		}, slices.Contains(ends, node.Outputs[0])
	}
	found, err := map[string]string{tensor: rows}, error(nil)
	if !slices.Contains(ends, tensor) {
		if found, err = grad.BackwardBy(b, rules, map[string]string{tensor: rows}, ends); err != nil {
			return nil, err
		}
	}
	for i, end := range ends {
		b.Output(fmt.Sprint("coefficients ", i), found[end])
	}
	for i, sum := range sums {
		b.Output(fmt.Sprint("sums ", i), sum)
	}
	by := append(slices.Clone(slopes), w.betas...)
	if left == cutsFree {
		by = append(by, rows)
	}
	if len(by) > 0 && left.climbs() {
		for i, end := range ends {
			w.seeds[found[end]] = at[i]
		}
		for _, sum := range sums {
			half := b.Shape(sum)[1] / 2
			// Ones for the constants, zeros for the slack.
			constants := append(slices.Repeat([]float32{1}, int(half)), make([]float32, half)...)
			ones := b.Op("Clip", sum, b.Float(1), b.Float(1))
			w.seeds[sum] = b.Op("Mul", ones, b.Const(onnx.FloatVector(constants)))
		}
		gradients, err := grad.Backward(b, w.seeds, by)
		if err != nil {
			return nil, err
		}
		for i, name := range by {
			b.Output(fmt.Sprint("gradient ", i), gradients[name])
		}
	}
	for i, name := range w.gy {
		b.Output(fmt.Sprint("of output ", i), name)
	}
	w.p.session, err = open("bounds of "+tensor, b)
	return w.p, err
}

func (w *walk) port(kind portKind, s *stage, shape onnx.Shape) string {
	w.p.ports = append(w.p.ports, port{kind, s, shape})
	return w.Input(fmt.Sprintf("stage %d, %d", s.index, kind), shape)
}

// relaxed replaces a stage with the output coefficients g by its linear bounds. It returns the coefficients of its
// node's inputs, its sums and, if each row has its own step, the step.
func (w *walk) relaxed(s *stage, g string) (inputs []string, sums, step string) {
	gx := ""
	inputs = make([]string, len(s.node.Inputs))
	size := int64(w.n.size(s.output()))
	positive, both := w.Op("Relu", g), w.both
	times := func(t string, kind portKind) string {
		return w.Op("MatMul", w.Reshape(t, onnx.Shape{onnx.Batch, size}),
			w.port(kind, s, onnx.Shape{size, int64(2 * blocks(int(size)))}))
	}
	shape := w.n.one(s.output())
	switch {
	case s.pool != nil:
		gx = w.pool(s, g, positive, both)
	case w.free != nothingFree && s.free != nil:
		slope := w.port(slopePort, s, shape)
		step = w.port(rowStepPort, s, w.n.graph.Shapes[s.output()])
		gx = both(slope, step, g, positive)
		sums = w.Op("Add", times(g, rowSumsPort), times(positive, rowStepSumsPort))
		sums = w.Op("Add", sums, w.Op("Add", times(gx, zerosPort), times(w.Op("Abs", gx), wrongPort)))
		inputs[s.place] = gx
		return inputs, sums, step
	default:
		gx = both(w.port(slopePort, s, shape), w.port(stepPort, s, shape), g, positive)
	}
	if inputs[s.place] = gx; s.product != nil {
		inputs[1] = w.Op("Mul", g, w.port(otherSlopePort, s, shape))
	}
	return inputs, w.Op("Add", times(g, sumsPort), times(positive, stepSumsPort)), ""
}

// both returns the coefficients of a stage's input.
func (w *walk) both(slope, step, g, positive string) string {
	return w.Op("Add", w.Op("Mul", g, slope), w.Op("Mul", positive, step))
}

// cut is [walk.relaxed] for a stage that is cut. The gradients of the sums come from Σ A·upper + P·(lower − upper) +
// B·zero.
func (w *walk) cut(s *stage, g string) []string {
	shape := w.n.graph.Shapes[s.output()]
	slope, step, beta := w.port(rowSlopePort, s, shape), w.port(rowStepPort, s, shape), w.port(betaPort, s, shape)
	positive := w.Op("Relu", g)
	gx := w.Op("Add", w.both(slope, step, g, positive), beta)
	w.gy = append(w.gy, g)
	inputs := make([]string, len(s.node.Inputs))
	inputs[s.place] = gx
	if !w.free.climbs() {
		return inputs
	}
	w.betas = append(w.betas, beta)
	upper, lower := w.port(upperPort, s, shape), w.port(lowerPort, s, shape)
	seed := w.Op("Add", upper, w.Op("Mul", w.Op("Sign", positive), w.Op("Sub", lower, upper)))
	if other := w.seeds[g]; other != "" { // the output of another stage is added to this one's
		seed = w.Op("Add", other, seed)
	}
	w.seeds[g] = seed
	none := w.Op("Mul", beta, w.Float(0))
	w.seeds[gx] = w.Op("Add", none, w.port(zeroPort, s, w.n.one(s.output())))
	return inputs
}
