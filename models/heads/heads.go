// Package heads makes the graphs that decide tasks other than classification. A head reads what a network answers for
// an image and, for most tasks, the image's truth: the numbers that the answer ought to be. It gives two scores, of a
// right and a wrong answer, and the image counts as answered right while the first is at least as large. To
// attacks and the judge the network with its head is a classifier of two classes whose labels are all [Right].
//
// [Kinds] is the table of tasks; [Task.Head] makes a head, or takes the user's own.
package heads

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"selfheal/internal/lists"
	"selfheal/internal/vector"
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
	// Segmentation is a class for each pixel.
	Segmentation = "segmentation"
	// Ensemble is the classification by several networks together.
	Ensemble = "ensemble"
	// Verification says whether two images show the same.
	Verification = "verification"
	Own          = "head"
)

// Settings are a task as a config and results have it, without its files.
type Settings struct {
	Kind string `json:"kind"` // one of [Kinds], or Own; "" is classification
	// Tolerance has how far each value of a regression may lie from the truth, one for all or one a value. Values with
	// a Period above 0, such as angles, count modulo it.
	Tolerance []float64 `json:"tolerance,omitempty"`
	Period    []float64 `json:"period,omitempty"`
	// Threshold is the value above which a label holds, or the second class of a segmentation's single channel. A
	// verification compares its metric with it.
	Threshold float64  `json:"threshold,omitempty"`
	Metric    string   `json:"metric,omitempty"`      // of [Verification]: [Cosine] or [Distance]
	FAR       float64  `json:"far,omitempty"`         // share of false accepts, from which the threshold follows
	Labels    []int    `json:"labels,omitempty"`      // the labels that must be right; nil: all
	Scale     float64  `json:"logit_scale,omitempty"` // what cosines of [ZeroShot] are multiplied by
	Bar       float64  `json:"bar,omitempty"`         // share of a segmentation's pixels that must have their class
	Ignored   float64  `json:"ignore,omitempty"`      // class of its pixels that do not count
	Of        []string `json:"of,omitempty"`          // names of an ensemble's members
	By        string   `json:"by,omitempty"`          // how they answer together, one of [Joined]
}

// Joined lists how an ensemble's members answer together: by the mean of their probabilities, by votes, of which the
// mean decides ties, or by the mean of their logits.
var Joined = []string{Mean, Vote, Logits}

const (
	Mean   = "mean"
	Vote   = "vote"
	Logits = "logits"
)

// The metrics of [Verification]: a pair is accepted as the same above the threshold of the embeddings' cosine, or below
// that of their distance.
const (
	Cosine   = "cosine"
	Distance = "l2"
)

// Classifies reports whether the task is classification, by one network or several, which has no head.
func (s Settings) Classifies() bool { return s.Kind == "" || s.Kind == Ensemble }

// Task says what is asked of a network.
type Task struct {
	Settings
	Texts [][]float32 // embeddings of the classes of [ZeroShot], one after the other
	File  *onnx.File  // the user's own head; nil for others
}

// Head is a head as a graph: its input is a network's answer and the truth, [N, Answer + Truth], its output the scores,
// [N, 2] or, without a truth, [N, classes].
type Head struct {
	Graph         *onnx.Graph
	Answer, Truth int  // how many numbers of each; Truth is 0 for heads that need none
	Steps         bool // the scores move in steps, and their gradient is another loss's
	Placed        bool // the truth has places in the image: it does not fit one that is turned or shifted
	// Twin says that the truth begins with the network's answer for another image, which stands in its place.
	Twin    bool
	Measure Measure // nil for tasks without measures
	// Judges checks a truth. It returns an error if no answer can be judged against it; nil accepts any numbers.
	Judges func(truth []float32) error
}

// Kind is a row of the table of tasks.
type Kind struct {
	Name, Doc string
	Keys      []string // of a config's task that the kind takes
	// truths returns how many numbers the truth of an image has, for an answer of this shape.
	truths func(answer onnx.Shape) int
	scores func(b *builder, t Task) []string // appends the scores
	check  func(t Task, answer onnx.Shape) error
	steps  bool // see [Head]
	twin   bool // see [Head]
	placed bool // the truth has places in the image
	// shape is how the kind reads an answer of a shape; nil: as it is.
	shape func(answer onnx.Shape) onnx.Shape
	// measures are nil for tasks whose answers are classes or are known to the user's head alone.
	measures func(t Task, answer onnx.Shape) Measure
	measured func(k int) string // names the k-th measure
	mean     string             // of all measures behind the first, its name; "" for none
	// judges is [Head.Judges] for an answer of this shape.
	judges func(t Task, answer onnx.Shape, truth []float32) error
}

// Kinds is the table of tasks that have a head.
var Kinds = []Kind{
	{Name: Regression, Doc: "numbers; the answer is right if all lie within `tolerance` of the truth",
		Keys: []string{"tolerance", "period"}, truths: asMany,
		measures: errorsOf, measured: numbered("mean error of"),
		check: func(t Task, answer onnx.Shape) error {
			for key, values := range map[string][]float64{"tolerance": t.Tolerance, "period": t.Period} {
				if len(values) > 1 && len(values) != asMany(answer) {
					return fmt.Errorf("%s has %d values, and the network gives %d numbers", key, len(values),
						asMany(answer))
				}
			}
			tolerance := float32s(t.Tolerance, asMany(answer))
			for i, period := range float32s(t.Period, asMany(answer)) {
				if period > 0 && tolerance[i] >= period/2 {
					return fmt.Errorf("a tolerance of %v takes any value for right, modulo %v", tolerance[i], period)
				}
			}
			return nil
		},
		scores: func(b *builder, t Task) []string {
			d := b.Op("Sub", b.answer, b.truth)
			if period := float32s(t.Period, b.values); slices.Max(period) > 0 {
				// without a period no difference is half a turn
				turn := b.row(lists.Map(period, func(p float32) float32 { return cmp.Or(p, math.MaxFloat32) }))
				d = b.Op("Sub", d, b.Op("Mul", b.Op("Round", b.Op("Div", d, turn)), turn))
			}
			off := b.Op("Div", b.Op("Abs", d), b.row(float32s(t.Tolerance, b.values)))
			return []string{b.zero(), b.Op("Sub", b.largest(off), b.Float(1))}
		}},
	{Name: MultiLabel, Doc: "labels, each of which holds above `threshold`; the answer is right if all of them, or " +
		"`labels`, are. A truth is 1, 0 or, for labels that nobody knows, −1",
		Keys: []string{"threshold", "labels"}, truths: asMany, measures: labelsOf, measured: numbered("right on label"),
		judges: func(t Task, _ onnx.Shape, truth []float32) error {
			known := false
			for i, v := range truth {
				if v != 0 && v != 1 && v != -1 {
					return fmt.Errorf("label %d is %v; a truth is 1, 0 or, for labels that nobody knows, -1", i, v)
				}
				known = known || v >= 0 && (len(t.Labels) == 0 || slices.Contains(t.Labels, i))
			}
			return judged(known, "label")
		},
		check: func(t Task, answer onnx.Shape) error {
			if n := asMany(answer); len(t.Labels) > 0 && slices.Max(t.Labels) >= n {
				return fmt.Errorf("labels has %d, and the network gives labels 0 to %d", slices.Max(t.Labels), n-1)
			}
			return nil
		},
		scores: func(b *builder, t Task) []string {
			// how far a label lies on the wrong side: (thr − y)·(2t − 1), and far on the right one where none counts
			side := b.Op("Sub", b.Op("Mul", b.truth, b.Float(2)), b.Float(1))
			off := b.Op("Mul", b.Op("Sub", b.bound(t.Threshold, 1, side), b.answer), side)
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
		Keys: []string{"texts", "logit_scale"}, truths: func(onnx.Shape) int { return 0 },
		check: func(t Task, answer onnx.Shape) error {
			if n := asMany(answer); len(t.Texts[0]) != n {
				return fmt.Errorf("the texts' embeddings have %d numbers, the network's %d", len(t.Texts[0]), n)
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
			return []string{b.Op("MatMul", b.Op("Div", b.answer, b.length(b.answer)), b.Const(of))}
		}},
	{Name: Segmentation, Doc: "a class for each pixel; the answer is right if a share `bar` of the pixels is. A " +
		"truth has each pixel's class",
		Keys:   []string{"bar", "ignore", "threshold"},
		truths: func(answer onnx.Shape) int { return asMany(answer) / int(answer[1]) },
		check: func(t Task, answer onnx.Shape) error {
			if len(answer) == 4 && answer[1] > 1 && t.Threshold != 0 {
				return fmt.Errorf("threshold is for one channel, and the network gives %d", answer[1])
			}
			if len(answer) != 4 {
				return fmt.Errorf("a segmentation gives scores of [N, classes, height, width], or of [N, height, "+
					"width] for one class beside the rest, not %v", answer)
			}
			if answer[2]*answer[3] > mostPixels {
				return fmt.Errorf("a segmentation has at most %d pixels, not %d", mostPixels, answer[2]*answer[3])
			}
			return nil
		},
		shape: planes, scores: segments, steps: true, placed: true, measures: overlaps, mean: "mean IoU",
		judges: func(t Task, answer onnx.Shape, truth []float32) error {
			last := float32(max(answer[1], 2) - 1)
			for i, v := range truth {
				if v != float32(t.Ignored) && (v != float32(math.Round(float64(v))) || v < 0 || v > last) {
					return fmt.Errorf("pixel %d is %v; a truth has each pixel's class, from 0 to %v, or the "+
						"ignored %v", i, v, last, t.Ignored)
				}
			}
			return judged(slices.ContainsFunc(truth, func(v float32) bool { return v != float32(t.Ignored) }), "pixel")
		},
		measured: func(k int) string {
			if k == 0 {
				return "right pixels"
			}
			return fmt.Sprint("IoU of ", k-1)
		}},
	{Name: Verification, Doc: "whether two images show the same; the answer is an embedding, and a pair is accepted " +
		"above `threshold` of the cosine or below that of the l2 distance. A truth has the other image's pixels and " +
		"1 or 0",
		Keys: []string{"threshold", "metric", "far"}, truths: func(answer onnx.Shape) int { return asMany(answer) + 1 },
		check: func(t Task, _ onnx.Shape) error {
			from, to := -1.0, 1.0
			if t.Metric == Distance {
				from, to = 0, math.Inf(1)
			}
			if t.FAR == 0 && (t.Threshold <= from || t.Threshold >= to) {
				return fmt.Errorf("all embeddings are on one side of the threshold %v; it lies between %v and %v",
					t.Threshold, from, to)
			}
			return nil
		},
		scores: func(b *builder, t Task) []string {
			side := b.Op("Sub", b.Op("Mul", b.part(b.truth, b.values, b.values+1), b.Float(2)), b.Float(1))
			return []string{b.zero(), b.Op("Mul", b.apart(b.part(b.truth, 0, b.values), t, side), side)}
		}, twin: true, measures: acceptsOf,
		judges: func(_ Task, _ onnx.Shape, truth []float32) error {
			if v := truth[len(truth)-1]; v != 0 && v != 1 {
				return fmt.Errorf("its last number is %v; it is 1 for two images of the same, or 0", v)
			}
			for i, v := range truth[:len(truth)-1] {
				if v < 0 || v > 1 {
					return fmt.Errorf("value %d of its other image is %v; pixels lie in [0,1]", i, v)
				}
			}
			return nil
		},
		measured: func(k int) string { return []string{"falsely accepted", "falsely rejected"}[k] }},
	landmarks,
	depth,
	count,
}

// apart returns by how much the answer and another are on the side of different images.
func (b *builder) apart(other string, t Task, side string) string {
	if t.Metric == Distance {
		return b.Op("Sub", b.length(b.Op("Sub", b.answer, other)), b.bound(t.Threshold, -1, side))
	}
	both := b.Sum(b.Op("Mul", b.answer, other), []int64{1})
	alike := b.Op("Div", both, b.Op("Mul", b.length(b.answer), b.length(other)))
	return b.Op("Sub", b.bound(t.Threshold, 1, side), alike)
}

// bound returns a threshold, which a value that equals it does not pass: where it must be passed, upwards or downwards,
// it is the next number.
func (b *builder) bound(threshold float64, upwards int, side string) string {
	at := float32(threshold)
	next := math.Nextafter32(at, float32(math.Inf(upwards)))
	return b.Op("Where", b.Op("Greater", side, b.Float(0)), b.Float(next), b.Float(at))
}

// Alike returns how alike two answers are: their cosine, or their distance below 0.
func Alike(metric string, a, b []float32) float64 {
	if metric == Distance {
		return -math.Sqrt(vector.Distance2(a, b))
	}
	return vector.Dot(a, b) / math.Sqrt((vector.Sum2(a)+least)*(vector.Sum2(b)+least))
}

// length returns the length of each row, with a slope at 0.
func (b *builder) length(x string) string {
	return b.Op("Sqrt", b.Op("Add", b.Sum(b.Op("Mul", x, x), []int64{1}), b.Float(least)))
}

// least is added to squares of lengths.
const least = 1e-12

// Taking lists the kinds that take a key.
func Taking(key string) []string {
	return lists.Map(lists.Only(Kinds, func(k Kind) bool { return slices.Contains(k.Keys, key) }),
		func(k Kind) string { return k.Name })
}

// mostPixels bounds segmentations: with more, rounding would reach from one share to the next.
const mostPixels = 1 << 19

// segments returns the scores of a segmentation. They differ by four times what the share of right pixels lacks of the
// bar, in steps. Attacks follow the slope of the pixels' mean cross-entropy instead, in which right pixels weigh more,
// as by SegPGD (Gu et al. 2022). Half a pixel keeps a share at the bar apart from rounding.
func segments(b *builder, t Task) []string {
	classes := b.shape[1]
	pixels := int64(b.values) / classes
	z := b.Reshape(b.answer, onnx.Shape{onnx.Batch, classes, pixels})
	if classes == 1 { // the second of two classes, above the threshold
		z = b.OpWith("Concat", onnx.Attrs{"axis": 1}, b.Op("Mul", z, b.Float(0)),
			b.Op("Sub", z, b.Float(float32(t.Threshold))))
		classes = 2
	}
	var each []float32
	for c := range classes {
		each = append(each, float32(c))
	}
	numbers := b.Const(&onnx.Tensor{DType: onnx.Float, Shape: onnx.Shape{1, classes, 1}, Floats: each})
	class := b.Reshape(b.truth, onnx.Shape{onnx.Batch, 1, pixels})
	own := b.Op("Less", b.Op("Abs", b.Op("Sub", class, numbers)), b.Float(0.5)) // [N, classes, pixels]
	one := func(of string) string { return b.Op("Where", of, b.Float(1), b.Float(0)) }
	among := func(x string) string { // the value of each pixel's class, [N, 1, pixels]
		return b.Sum(b.Op("Where", own, x, b.Float(0)), []int64{1})
	}
	rest := b.OpWith("ReduceMax", onnx.Attrs{"keepdims": 1}, b.Op("Where", own, b.Float(float32(math.Inf(-1))), z),
		b.Ints(1))
	counts := one(b.Op("Greater", b.Op("Abs", b.Op("Sub", class, b.Float(float32(t.Ignored)))), b.Float(0.5)))
	// the answer is the first of the largest scores; no score is as large as one that is no number
	first := b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Float)}, b.OpWith("ArgMax", onnx.Attrs{"axis": 1}, z))
	chosen := b.Op("Less", b.Op("Abs", b.Op("Sub", class, first)), b.Float(0.5))
	right := b.Op("Mul", one(b.Op("And", chosen, b.Op("GreaterOrEqual", among(z), rest))), counts)
	all := func(x string) string { return b.Reshape(b.Sum(x, []int64{2}), onnx.Shape{onnx.Batch, 1}) }
	n := b.Op("Max", all(counts), b.Float(1))
	loss := b.Op("Neg", among(b.OpWith("LogSoftmax", onnx.Attrs{"axis": 1}, z)))
	weights := b.Op("Mul", b.Op("Add", counts, right), b.Float(0.125)) // a quarter, half of that where it is wrong
	soft := b.Op("Div", all(b.Op("Mul", loss, weights)), n)
	return []string{b.zero(), Steps(&b.Builder, b.lacks(all(right), n, t.Bar), soft)}
}

// lacks returns four times what the share of right ones, of n, lacks of a bar.
func (b *builder) lacks(right, n string, bar float64) string {
	least := b.Op("Ceil", b.Op("Sub", b.Op("Mul", n, b.Float(float32(bar))), b.Float(1e-3)))
	lacks := b.Op("Sub", b.Op("Sub", least, right), b.Float(0.5))
	return b.Op("Mul", b.Op("Div", lacks, n), b.Float(4))
}

// Steps returns the values of one tensor with the slopes of another: what Floor takes away of their difference is too
// little to count, and it has no slope.
func Steps(b *onnx.Builder, values, slopes string) string {
	const parts = 1 << 20
	whole := b.Op("Floor", b.Op("Mul", b.Op("Sub", values, slopes), b.Float(parts)))
	return b.Op("Add", slopes, b.Op("Mul", whole, b.Float(1.0/parts)))
}

// BeforeSigmoid returns the task for the logits of a network that ends in a Sigmoid, where the gradient of a
// probability next to 0 or 1 is lost in rounding. The answers are right for the same images; ok is false for tasks that
// compare probabilities with no threshold.
func (t Task) BeforeSigmoid(answer onnx.Shape) (logits Task, ok bool, err error) {
	if t.Kind != MultiLabel && (t.Kind != Segmentation || planes(answer)[1] != 1) {
		return t, false, nil
	}
	if t.Threshold <= 0 || t.Threshold >= 1 {
		return t, false, fmt.Errorf("the network ends in a Sigmoid, so that all its values lie on one side of the "+
			"threshold %v; give it one between 0 and 1, such as threshold: 0.5", t.Threshold)
	}
	t.Threshold = math.Log(t.Threshold / (1 - t.Threshold))
	return t, true, nil
}

// single returns an error for several tolerances.
func (t Task) single() error {
	if len(t.Tolerance) != 1 {
		return fmt.Errorf("%s takes one tolerance, not %d", t.Kind, len(t.Tolerance))
	}
	return nil
}

// judged returns an error if nothing counts by which an answer could be judged.
func judged(any bool, what string) error {
	if any {
		return nil
	}
	return fmt.Errorf("no %s counts; leave the image out by indices", what)
}

// planes is the shape of a segmentation's answer with its axis of classes, of which [N, height, width] has one.
func planes(answer onnx.Shape) onnx.Shape {
	if len(answer) != 3 {
		return answer
	}
	return slices.Insert(slices.Clone(answer), 1, 1)
}

func asMany(answer onnx.Shape) int { return int(answer[1:].Items()) }

// Head makes the head of a task for an answer of this shape, with the batch in front.
func (t Task) Head(shape onnx.Shape) (*Head, error) {
	answer := int(shape[1:].Items())
	if t.File != nil {
		return own(t.File, answer)
	}
	k := Kinds[slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == t.Kind })]
	if k.shape != nil {
		shape = k.shape(shape)
	}
	if err := k.check(t, shape); err != nil {
		return nil, err
	}
	h := &Head{Answer: answer, Truth: k.truths(shape), Steps: k.steps, Twin: k.twin, Placed: k.placed}
	if k.measures != nil {
		h.Measure = k.measures(t, shape)
	}
	if k.judges != nil {
		h.Judges = func(truth []float32) error { return k.judges(t, shape, truth) }
	}
	b := &builder{Builder: onnx.Builder{G: onnx.NewGraph(t.Kind)}, values: answer, shape: shape}
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
	shape         onnx.Shape // of the network's answer
}

// part takes some of a row's values.
func (b *builder) part(x string, from, to int) string {
	return b.Op("Slice", x, b.Ints(int64(from)), b.Ints(int64(to)), b.Ints(1))
}

func (b *builder) row(values []float32) string {
	return b.Const(&onnx.Tensor{DType: onnx.Float, Shape: onnx.Shape{1, int64(len(values))}, Floats: values})
}

// largest returns the largest of a row's values, [N, 1]. It is NaN if one is, which ReduceMax alone drops.
func (b *builder) largest(x string) string {
	nothing := b.Sum(b.Op("Mul", x, b.Float(0)), []int64{1})
	return b.Op("Add", b.OpWith("ReduceMax", onnx.Attrs{"keepdims": 1}, x, b.Ints(1)), nothing)
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

func length(v []float32) float64 { return math.Sqrt(vector.Sum2(v)) }
