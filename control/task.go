package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/models/heads"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// Task is the head of a network whose task is not classification: see package heads. Classification has a nil one.
type Task struct {
	head   *heads.Head
	answer onnx.Value   // the network's, which the head reads
	alone  *ort.Session // the head by itself, for the answers of a file
	twins
}

// twins are the answers for the images that truths begin with, see [heads.Head].
type twins struct {
	size    int          // of such an image; 0 if the head has none
	network *ort.Session // the opened one, without its head
	asks    func(image []float32) ([]float64, error)
	mutex   sync.Mutex
	truths  map[*float32][]float32 // by the truth as given
}

// mostTwins bounds the answers that are kept.
const mostTwins = 1 << 14

// truth returns the truth with the answer for its image in the image's place.
func (t *twins) truth(given []float32) (truth []float32, err error) {
	t.mutex.Lock()
	truth = t.truths[&given[0]]
	t.mutex.Unlock()
	if truth != nil {
		return truth, nil
	}
	y, err := t.asks(given[:t.size])
	if err != nil {
		return nil, err
	}
	truth = append(onnx.Each(y, func(v float64) float32 { return float32(v) }), given[t.size:]...)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if len(t.truths) == mostTwins {
		clear(t.truths)
	}
	t.truths[&given[0]] = truth
	return truth, nil
}

// Truth returns how many numbers the truth of an image has; 0 if the head needs none.
func (t *Task) Truth() int {
	switch {
	case t == nil:
		return 0
	case t.size > 0:
		return t.size + t.head.Truth - t.head.Answer
	}
	return t.head.Truth
}

// errTruth is the error about a question without a truth.
var errTruth = errors.New("the network's task compares its answers with a truth, which is not given here")

// of returns the truth that a question is about as an input, or nothing if the network needs none.
func (t *Task) of(ctx context.Context) ([][]float32, error) {
	if t.Truth() == 0 {
		return nil, nil
	}
	truth := attacks.TruthOf(ctx)
	if len(truth) != t.Truth() {
		return nil, errTruth
	}
	if t.size == 0 {
		return [][]float32{truth}, nil
	}
	truth, err := t.twins.truth(truth)
	return [][]float32{truth}, err
}

// give puts a task's head behind a network's output.
func give(n *Network, task heads.Task) error {
	g := n.Graph
	out := g.Outputs[0]
	h, err := task.Head(out.Shape)
	if err != nil {
		return fmt.Errorf("task %s: output %.80q: %w", task.Kind, out.Name, err)
	}
	if len(g.Outputs) > 1 {
		g.Notices = append(g.Notices, simplify.NoticeTaken(g, out.Name))
	}
	n.Task = &Task{head: h, answer: out}
	if h.Twin {
		n.Task.twins = twins{size: int(g.Inputs[0].Shape.Items()), truths: map[*float32][]float32{}}
	}
	n.Stepped = h.Steps
	n.classes = int(h.Graph.Outputs[0].Shape.Items())
	b := &onnx.Builder{G: g, Prefix: "head/"}
	answer := b.Reshape(out.Name, onnx.Shape{onnx.Batch, int64(h.Answer)})
	if h.Truth > 0 {
		truth := b.Input("truth", onnx.Shape{onnx.Batch, int64(h.Truth)})
		answer = b.OpWith("Concat", onnx.Attrs{"axis": int64(1)}, answer, truth)
	}
	z := b.Call(h.Graph, b.Reshape(answer, h.Graph.Inputs[0].Shape))
	g.Outputs = []onnx.Value{{Name: z, DType: onnx.Float, Shape: b.Shape(z)}}
	g.Prune()
	return errors.Join(b.Err(), g.Verify())
}

// before returns a graph that ends in the head without it, and others as they are.
func (t *Task) before(g *onnx.Graph) *onnx.Graph {
	if t == nil {
		return g
	}
	g = g.Clone()
	g.Inputs, g.Outputs = g.Inputs[:1], []onnx.Value{t.answer}
	g.Prune()
	return g
}

// open opens the head for the answers of a file, and the network before it for those of [twins].
func (t *Task) open(g *onnx.Graph) (err error) {
	if t.alone, err = ort.OpenGraph(t.head.Graph); err != nil || t.size == 0 {
		return err
	}
	if t.network, err = ort.OpenGraph(t.before(g)); err != nil {
		return err
	}
	t.asks = func(image []float32) ([]float64, error) {
		shape := append(onnx.Shape{1}, g.Inputs[0].Shape[1:]...)
		y, err := t.network.Run([]ort.Tensor{{Shape: shape, Data: image}})
		if err != nil {
			return nil, err
		}
		return onnx.Each(y[0].Data, func(v float32) float64 { return float64(v) }), nil
	}
	return nil
}

// answeredBy lets a file give the answers of [twins], if it does.
func (t *Task) answeredBy(f File) {
	if file, ok := f.(interface {
		Answer(image []float32) ([]float64, error)
	}); ok && t != nil {
		t.asks = file.Answer
	}
}

func (t *Task) close() {
	for _, s := range []*ort.Session{t.alone, t.network} {
		if s != nil {
			s.Close()
		}
	}
}

// measuring is the key of a context's measures.
type measuring struct{}

// Measuring returns a context for a question whose answer is measured: where a file gives it, the parts are written.
func Measuring(ctx context.Context, parts *[]heads.Part) context.Context {
	return context.WithValue(ctx, measuring{}, parts)
}

// Scores writes the scores that the head gives for a file's answer.
func (t *Task) Scores(ctx context.Context, answer []float64, out []float32) error {
	truth, err := t.of(ctx)
	if err != nil {
		return err
	}
	if len(answer) != t.head.Answer {
		return fmt.Errorf("%d values, not %d", len(answer), t.head.Answer)
	}
	in := onnx.Each(answer, func(v float64) float32 { return float32(v) })
	for _, values := range truth {
		in = append(in, values...)
	}
	shape := append(onnx.Shape{1}, t.head.Graph.Inputs[0].Shape[1:]...)
	if to, _ := ctx.Value(measuring{}).(*[]heads.Part); to != nil && t.head.Measure != nil {
		*to = t.head.Measure(answer, slices.Concat(truth...))
	}
	y, err := t.alone.Run([]ort.Tensor{{Shape: shape, Data: in}})
	if err == nil {
		copy(out, y[0].Data)
	}
	return err
}
