package control

import (
	"context"
	"errors"
	"fmt"

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
}

// Truth returns how many numbers the truth of an image has; 0 if the head needs none.
func (t *Task) Truth() int {
	if t == nil {
		return 0
	}
	return t.head.Truth
}

// Steps reports whether the scores move in steps, so that the gradient can't be theirs.
func (t *Task) Steps() bool { return t != nil && t.head.Steps }

// errTruth is the error about a question without a truth.
var errTruth = errors.New("the network's task compares its answers with a truth, which is not given here")

// of returns the truth that a question is about as an input, or nothing if the network needs none.
func (t *Task) of(ctx context.Context) ([][]float32, error) {
	if t.Truth() == 0 {
		return nil, nil
	}
	truth := attacks.TruthOf(ctx)
	if len(truth) != t.head.Truth {
		return nil, errTruth
	}
	return [][]float32{truth}, nil
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
	y, err := t.alone.Run([]ort.Tensor{{Shape: shape, Data: in}})
	if err == nil {
		copy(out, y[0].Data)
	}
	return err
}
