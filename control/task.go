package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/internal/lists"
	"selfheal/models/heads"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// Task is the head of a network whose task is not classification: see package heads. Classification has a nil one.
type Task struct {
	task   heads.Task
	head   *heads.Head
	answer onnx.Value // the network's, which the head reads in the graph
	// sigmoid says that the graph passes the last Sigmoid over, see [heads.Task.BeforeSigmoid].
	sigmoid bool
	alone   *ort.Session // the head by itself, for the answers of a file
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

// Judges checks a truth. It returns an error if no answer can be judged against it.
func (t *Task) Judges(truth []float32) error {
	if t == nil || t.head.Judges == nil {
		return nil
	}
	return t.head.Judges(truth)
}

// Placed reports whether the truth has places in the image, which no longer fit one that is turned or shifted.
func (t *Task) Placed() bool { return t != nil && t.head.Placed }

// Twin reports whether the truth begins with another image, which the network is asked about, too.
func (t *Task) Twin() bool { return t != nil && t.size > 0 }

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
	if out.DType != onnx.Float {
		return fmt.Errorf("task %s: output %.80q does not hold float32, which a task takes", task.Kind, out.Name)
	}
	h, err := task.Head(out.Shape)
	if err != nil {
		return fmt.Errorf("task %s: output %.80q: %w", task.Kind, out.Name, err)
	}
	if len(g.Outputs) > 1 {
		g.Notices = append(g.Notices, simplify.NoticeTaken(g, out.Name))
	}
	n.Task = &Task{task: task, head: h, answer: out}
	followed := h
	if last := lastSigmoid(g); last != nil {
		logits, ok, err := task.BeforeSigmoid(out.Shape)
		if ok {
			followed, err = logits.Head(out.Shape)
			last.Op, n.Task.sigmoid = "Identity", true
			g.Notices = append(g.Notices, noticeSigmoid)
		}
		if err != nil {
			return fmt.Errorf("task %s: output %.80q: %w", task.Kind, out.Name, err)
		}
	}
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
	z := b.Call(followed.Graph, b.Reshape(answer, h.Graph.Inputs[0].Shape))
	if h.Truth > 0 { // right's score as 0: its own gradient would be lost in rounding where wrong's is far below
		z = b.Op("Sub", z, b.Op("Slice", z, b.Ints(heads.Right), b.Ints(heads.Right+1), b.Ints(1)))
	}
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
	answer := t.answer
	if t.sigmoid {
		answer.Name = (&onnx.Builder{G: g, Prefix: "answer/"}).Op("Sigmoid", answer.Name)
	}
	g.Inputs, g.Outputs = g.Inputs[:1], []onnx.Value{answer}
	g.Prune()
	return g
}

// lastSigmoid returns the Sigmoid whose values are the graph's answer, nil if there is none.
func lastSigmoid(g *onnx.Graph) *onnx.Node {
	made := g.Producers()
	n := made[g.Outputs[0].Name]
	for n != nil && slices.Contains([]string{"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}, n.Op) {
		n = made[n.Inputs[0]]
	}
	if n == nil || n.Op != "Sigmoid" {
		return nil
	}
	users := 0
	for _, other := range g.Nodes {
		users += lists.Count(other.Inputs, func(name string) bool { return name == n.Outputs[0] })
	}
	if users > 1 {
		return nil
	}
	return n
}

// noticeSigmoid is the notice about a network whose task follows the logits before its probabilities.
const noticeSigmoid = "attacks follow the values before its last Sigmoid"

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

// Answered is an answer of a network, before its head, and the truth that the head compares it with.
type Answered struct {
	Answer []float64
	Truth  []float32
	task   *Task
}

// Parts returns the answer's parts of the task's measures, nil if it has none.
func (a *Answered) Parts() []heads.Part {
	if a.task == nil || a.task.head.Measure == nil {
		return nil
	}
	return a.task.head.Measure(a.Answer, a.Truth)
}

// Masks returns the truth and the answer of a segmentation, a class for each pixel, and their size; nil for others.
func (a *Answered) Masks() (truth, answer []float32, height, width int) {
	if a.task == nil || a.task.task.Kind != heads.Segmentation {
		return nil, nil, 0, 0
	}
	s := a.task.answer.Shape
	return a.Truth, a.task.task.Mask(a.Answer, s), int(s[len(s)-2]), int(s[len(s)-1])
}

// answering is the key of a context's [Answered].
type answering struct{}

// Answering returns a context for a question whose answer is noted, if a file gives it.
func Answering(ctx context.Context, to *Answered) context.Context {
	return context.WithValue(ctx, answering{}, to)
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
	if to, _ := ctx.Value(answering{}).(*Answered); to != nil {
		*to = Answered{answer, slices.Concat(truth...), t}
	}
	y, err := t.alone.Run([]ort.Tensor{{Shape: shape, Data: in}})
	if err == nil {
		copy(out, y[0].Data)
	}
	return err
}
