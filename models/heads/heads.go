// Package heads makes the graphs that decide tasks other than classification. A head reads what a network answers for
// an image and, for most tasks, the image's truth: the numbers that the answer ought to be. It gives two scores, of a
// right and a wrong answer, and the image counts as answered right while the first is the larger. To attacks, proofs
// and the judge the network with its head is a classifier of two classes whose labels are all [Right].
//
// [Kinds] is the table of tasks; [Task.Head] makes a head, or takes the user's own.
package heads

import (
	"fmt"
	"math"
	"slices"

	"selfheal/internal/lists"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
)

// The scores of a head with a truth, as classes.
const (
	Right = iota
	Wrong
)

// Names are the names of these classes.
var Names = []string{"right", "wrong"}

// The kinds of tasks beside classification. Own is a head of the user's.
const (
	Regression = "regression"
	MultiLabel = "multilabel"
	ZeroShot   = "zero-shot"
	Own        = "head"
)

// Task says what is asked of a network.
type Task struct {
	Kind string // one of [Kinds], or Own; "" is classification
	// Tolerance has how far each value of a regression may lie from the truth, one for all or one a value. Values with
	// a Period above 0, such as angles, count modulo it.
	Tolerance, Period []float64
	Threshold         float64 // above which a label of [MultiLabel] holds
	Labels            []int   // the labels that must be right; nil: all
	// Texts are the embeddings of the classes of [ZeroShot], one after the other, and Scale what the cosine is
	// multiplied by.
	Texts [][]float32
	Scale float64
	File  *onnx.File // the user's own head; nil for others
}

// Head is a head as a graph: its input is a network's answer and the truth, [N, Answer + Truth], its output the scores,
// [N, 2] or, without a truth, [N, classes].
type Head struct {
	Graph         *onnx.Graph
	Answer, Truth int // how many numbers of each; Truth is 0 for heads that need none
}

// Kind is a row of the table of tasks.
type Kind struct {
	Name, Doc string
	// truths returns how many numbers the truth of an image has, for an answer of so many.
	truths func(t Task, answer int) int
	// scores appends the scores. By b.Of it takes the parts of the head's input.
	scores func(b *builder, t Task) []string
	check  func(t Task, answer int) error
}

// Kinds is the table of tasks that have a head.
var Kinds = []Kind{
	{Name: Regression, Doc: "numbers; the answer is right if all lie within `tolerance` of the truth", truths: asMany,
		check: func(t Task, answer int) error {
			for key, values := range map[string][]float64{"tolerance": t.Tolerance, "period": t.Period} {
				if len(values) > 1 && len(values) != answer {
					return fmt.Errorf("%s has %d values, and the network gives %d numbers", key, len(values), answer)
				}
			}
			return nil
		},
		scores: func(b *builder, t Task) []string {
			d := b.Op("Sub", b.answer, b.truth)
			if period := float32s(t.Period, b.values); slices.Max(period) > 0 {
				turn := b.row(lists.Map(period, func(p float32) float32 { return max(p, 1) }))
				counts := b.row(lists.Map(period, func(p float32) float32 { return min(p, 1) }))
				turns := b.Op("Round", b.Op("Div", d, turn))
				d = b.Op("Sub", d, b.Op("Mul", b.Op("Mul", turns, turn), b.Op("Ceil", counts)))
			}
			off := b.Op("Div", b.Op("Abs", d), b.row(float32s(t.Tolerance, b.values)))
			return []string{b.zero(), b.Op("Sub", b.largest(off), b.Float(1))}
		}},
	{Name: MultiLabel, Doc: "labels, each of which holds above `threshold`; the answer is right if all of them, or " +
		"`labels`, are. A truth is 1, 0 or, for labels that nobody knows, −1",
		truths: asMany,
		check: func(t Task, answer int) error {
			if len(t.Labels) > 0 && slices.Max(t.Labels) >= answer {
				return fmt.Errorf("labels has %d, and the network gives labels 0 to %d", slices.Max(t.Labels), answer-1)
			}
			return nil
		},
		scores: func(b *builder, t Task) []string {
			// how far a label lies on the wrong side: (thr − y)·(2t − 1), and far on the right one where none counts
			side := b.Op("Sub", b.Op("Mul", b.truth, b.Float(2)), b.Float(1))
			off := b.Op("Mul", b.Op("Sub", b.Float(float32(t.Threshold)), b.answer), side)
			counts := b.Op("GreaterOrEqual", b.truth, b.Float(0))
			if len(t.Labels) > 0 {
				asked := make([]float32, b.values)
				for _, l := range t.Labels {
					asked[l] = 1
				}
				counts = b.Op("And", counts, b.Op("Greater", b.row(asked), b.Float(0.5)))
			}
			return []string{b.zero(), b.largest(b.Op("Where", counts, off, b.Float(-1e9)))}
		}},
	{Name: ZeroShot, Doc: "classes that `texts` describes; the answer is an image's embedding, and the class that of " +
		"the nearest text by the cosine",
		truths: func(Task, int) int { return 0 },
		check: func(t Task, answer int) error {
			if len(t.Texts[0]) != answer {
				return fmt.Errorf("the texts' embeddings have %d numbers, the network's %d", len(t.Texts[0]), answer)
			}
			return nil
		},
		scores: func(b *builder, t Task) []string {
			of := &onnx.Tensor{DType: onnx.Float, Shape: onnx.Shape{int64(b.values), int64(len(t.Texts))}}
			for i := range b.values {
				for _, text := range t.Texts {
					of.Floats = append(of.Floats, float32(t.Scale*float64(text[i])/length(text)))
				}
			}
			norm := b.Op("Sqrt", b.Op("Add", b.Sum(b.Op("Mul", b.answer, b.answer), []int64{1}), b.Float(1e-12)))
			return []string{b.Op("MatMul", b.Op("Div", b.answer, norm), b.Const(of))}
		}},
}

func asMany(_ Task, answer int) int { return answer }

// Head makes the head of a task for an answer of so many numbers.
func (t Task) Head(answer int) (*Head, error) {
	if t.File != nil {
		return own(t.File, answer)
	}
	k := Kinds[slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == t.Kind })]
	if err := k.check(t, answer); err != nil {
		return nil, err
	}
	h := &Head{Answer: answer, Truth: k.truths(t, answer)}
	b := &builder{Builder: onnx.Builder{G: onnx.NewGraph(t.Kind)}, values: answer}
	x := b.Input("answer", onnx.Shape{onnx.Batch, int64(answer + h.Truth)})
	b.answer = x
	if h.Truth > 0 {
		b.answer, b.truth = b.part(x, 0, answer), b.part(x, answer, answer+h.Truth)
	}
	z := k.scores(b, t)
	all := z[0]
	if len(z) > 1 {
		all = b.OpWith("Concat", onnx.Attrs{"axis": 1}, z...)
	}
	b.Output("scores", all)
	var err error
	h.Graph, err = b.Done()
	return h, err
}

// own opens a head of the user's: its last input is the truth, if it has several, and its outputs are the scores.
func own(file *onnx.File, answer int) (*Head, error) {
	in, out, err := onnx.Ports(file.Data)
	if err != nil {
		return nil, err
	}
	h := &Head{Answer: answer}
	sizes := onnx.Each(in, func(v onnx.Value) int { return int(max(v.Shape.Items(), 0)) })
	if len(in) == 0 || len(in) > 2 {
		return nil, fmt.Errorf("a head has one input, the network's answer, or two, that and the truth, not %d",
			len(in))
	}
	if sizes[0] != answer {
		return nil, fmt.Errorf("its input %q has %d numbers for an image, the network's answer has %d", in[0].Name,
			sizes[0], answer)
	}
	o := simplify.Options{Literal: true}
	if len(in) == 2 {
		h.Truth = sizes[1]
		o.Joined = onnx.Each(out, func(v onnx.Value) int { return int(v.Shape.Items()) })
	}
	if h.Graph, err = opened.Graph(file, o, nil); err != nil {
		return nil, err
	}
	if n := int(h.Graph.Outputs[0].Shape.Items()); h.Truth > 0 && n != 2 || n < 2 {
		return nil, fmt.Errorf("it gives %d numbers for an image; a head gives two, the scores of right and wrong, "+
			"or, without a truth, one for each class", n)
	}
	return h, nil
}

// builder builds a head of built-in kind.
type builder struct {
	onnx.Builder
	answer, truth string // [N, values]
	values        int
}

// part takes some of a row's values.
func (b *builder) part(x string, from, to int) string {
	return b.Op("Slice", x, b.Ints(int64(from)), b.Ints(int64(to)), b.Ints(1))
}

func (b *builder) row(values []float32) string {
	return b.Const(&onnx.Tensor{DType: onnx.Float, Shape: onnx.Shape{1, int64(len(values))}, Floats: values})
}

// largest returns the largest of a row's values, [N, 1].
func (b *builder) largest(x string) string {
	return b.OpWith("ReduceMax", onnx.Attrs{"keepdims": 1}, x, b.Ints(1))
}

// zero is the score of a right answer, 0, as [N, 1]: only the difference of the scores counts.
func (b *builder) zero() string { return b.Op("Mul", b.part(b.answer, 0, 1), b.Float(0)) }

// float32s returns n values: those given, or the only one n times; zeros if none is given.
func float32s(given []float64, n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		if len(given) > 0 {
			values[i] = float32(given[i%len(given)])
		}
	}
	return values
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}
