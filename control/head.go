package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"selfheal/models/onnx"
)

// mostClasses bounds what an attack keeps for each class of each image.
const mostClasses = 1 << 20

// logits brings the output to [N, classes] logits: a single logit z to (0, z), a single probability p to the logarithms
// of (1 − p, p).
func (n *Network) logits(probabilities bool) error {
	g := n.Graph
	out := g.Outputs[0]
	if n.classes = classesOf(out.Shape); n.classes < 1 {
		return noClassifier(g)
	}
	if len(g.Outputs) > 1 {
		g.Notices = append(g.Notices, fmt.Sprintf(
			"has %d outputs, of which %.80s is taken; output_name chooses another", len(g.Outputs), out.Name))
		g.Outputs = g.Outputs[:1]
		g.Prune()
	}
	if n.classes > mostClasses {
		return fmt.Errorf("output %q has %d values; a classifier has at most %d classes", out.Name, n.classes,
			mostClasses)
	}
	b := &onnx.Builder{G: g, Prefix: "head/"}
	z := out.Name
	if len(out.Shape) != 2 {
		z = b.Op("Flatten", z)
	}
	if n.classes == 1 { // two classes, of which the output says how likely the second is
		first := b.Op("Mul", z, b.Float(0))
		if probabilities {
			first = b.Op("Sub", b.Float(1), z)
		}
		z = b.OpWith("Concat", onnx.Attrs{"axis": int64(1)}, first, z)
		n.classes = 2
	}
	if probabilities {
		// log p differs from the logits by one number an image, which no loss and no margin sees.
		z = b.Op("Log", b.Op("Clip", z, b.Float(1e-38), ""))
	}
	if z != out.Name {
		g.Outputs[0] = onnx.Value{Name: z, DType: onnx.Float, Shape: b.Shape(z)}
	}
	return errors.Join(b.Err(), g.Verify())
}

// TwoClasses is a file's answer to an image as one for each class: of a single logit or probability, which [NewNetwork]
// takes for two classes, it makes both, and leaves other answers as they are.
func TwoClasses[T float32 | float64](answer []T, probabilities bool) []T {
	switch {
	case len(answer) != 1:
		return answer
	case probabilities:
		return []T{1 - answer[0], answer[0]}
	}
	return []T{0, answer[0]}
}

// wide are the dimensions behind the batch that are not 1.
func wide(s onnx.Shape) onnx.Shape {
	return slices.DeleteFunc(slices.Clone(s[1:]), func(d int64) bool { return d == 1 })
}

// classesOf is how many values an output of this shape gives an image; 0 where they are no list of classes.
func classesOf(s onnx.Shape) int {
	d := wide(s)
	if len(d) > 1 {
		return 0
	}
	return int(d.Items())
}

// noClassifier says what the first output looks like, and what can be done.
func noClassifier(g *onnx.Graph) error {
	out := g.Outputs[0]
	looks, remedy := looksLike(out.Shape, g.Inputs[0].Shape), "export the network with the layers that give these"
	var others []string
	for _, o := range g.Outputs[1:] {
		if classesOf(o.Shape) > 1 {
			others = append(others, fmt.Sprintf("%.80s %v", o.Name, o.Shape))
		}
	}
	if len(others) > 0 {
		remedy = "where another of its outputs does, output_name (--output-name) takes it: " +
			strings.Join(others[:min(len(others), 5)], ", ")
	}
	return fmt.Errorf("output %.80q has shape %v: %s; a classifier gives [N classes] or, of two classes, [N]; %s",
		out.Name, out.Shape, looks, remedy)
}

// looksLike says which kind of network gives an output of this shape.
func looksLike(out, in onnx.Shape) string {
	d := wide(out)
	switch {
	case slices.Equal(d, wide(in)):
		return "it looks like an image, as an auto-encoder gives"
	case len(out) == 4 && len(in) == 4 && slices.Equal(out[2:], in[2:]) && out[1] == 1:
		return "it looks like a segmentation, a value for each pixel"
	case len(out) == 4 && len(in) == 4 && slices.Equal(out[2:], in[2:]):
		return fmt.Sprintf("it looks like a segmentation, %d values for each pixel", out[1])
	case len(d) == 2 && len(out) == 3:
		return fmt.Sprintf("it looks like a detection, %d values for each of %d boxes, or like features of tokens",
			slices.Min(d), slices.Max(d))
	case len(out) == 4:
		return fmt.Sprintf("it looks like a segmentation or like maps of features, %d of %d×%d", out[1], out[2], out[3])
	}
	return "it is no list of classes"
}
