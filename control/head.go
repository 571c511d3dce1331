package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// mostClasses bounds the number of classes: an attack keeps values for each class of each image.
const mostClasses = 1 << 20

// LeastProbability replaces smaller probabilities, so that each has a logarithm.
const LeastProbability = 1e-38

// head brings the output to [N, classes] logits: a single logit z to (0, z), a single probability p to the logarithms
// of (1 − p, p), a label to 1 for its class and 0 for others.
func (n *Network) head(o NetworkOptions) error {
	g := n.Graph
	out, probabilities, classes := g.Outputs[0], o.Probabilities, 0
	n.classes = classesOf(out.Shape)
	switch arg := lastArgMax(g); {
	case !o.Task.Classifies():
		return give(n, o.Task)
	case n.classes < 1:
		return noClassifier(g)
	case arg == nil && o.Label:
		return fmt.Errorf("output %.80q is the label of no ArgMax, which would say how many classes there are; give "+
			"output: label (--label) for a network that ends in one", out.Name)
	case arg != nil && !o.Label:
		remedy := "export the network without it"
		if others := otherOutputs(g); others != "" {
			remedy = "take another output by output_name (--output-name), " + others + ","
		}
		return fmt.Errorf("output %.80q is a label, of %s: output: label (--label) has it attacked by %s, which see "+
			"nothing else; %s for attacks that see logits", out.Name, arg, strings.Join(attacks.ByLabels(), ", "),
			remedy)
	case arg != nil:
		classes = int(g.Shapes[arg.Inputs[0]][1])
	}
	if len(g.Outputs) > 1 {
		g.Notices = append(g.Notices, simplify.NoticeTaken(g, out.Name))
		g.Outputs = g.Outputs[:1]
		g.Prune()
	}
	if n.classes > mostClasses {
		return fmt.Errorf("output %q has %d values; a classifier has at most %d classes", out.Name, n.classes,
			mostClasses)
	}
	b := &onnx.Builder{G: g, Prefix: "head/"}
	z := out.Name
	if o.Label {
		class := b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, b.Reshape(z, onnx.Shape{onnx.Batch}))
		values := b.Const(&onnx.Tensor{DType: onnx.Float, Shape: onnx.Shape{2}, Floats: []float32{0, 1}})
		z = b.Op("OneHot", class, b.Ints(int64(classes)), values)
		n.classes = classes
	} else if len(out.Shape) != 2 {
		z = b.Op("Flatten", z)
	}
	if n.classes == 1 { // two classes: the output is the probability of the second
		first := b.Op("Mul", z, b.Float(0))
		if probabilities {
			first = b.Op("Sub", b.Float(1), z)
		}
		z = b.OpWith("Concat", onnx.Attrs{"axis": int64(1)}, first, z)
		n.classes = 2
	}
	if probabilities {
		// log p differs from the logits by one number an image, which no loss and no margin depends on.
		z = b.Op("Log", b.Op("Clip", z, b.Float(LeastProbability), ""))
	}
	if z != out.Name {
		g.Outputs[0] = onnx.Value{Name: z, DType: onnx.Float, Shape: b.Shape(z)}
	}
	return errors.Join(b.Err(), g.Verify())
}

// lastArgMax returns the ArgMax over classes whose answer the output is, or nil.
func lastArgMax(g *onnx.Graph) *onnx.Node {
	made := g.Producers()
	for n := made[g.Outputs[0].Name]; n != nil; n = made[n.Inputs[0]] {
		switch n.Op {
		case "ArgMax":
			if x := g.Shapes[n.Inputs[0]]; len(wide(x)) == 1 && len(x) > 1 && x[1] > 1 && n.Int("axis", 0) != 0 {
				return n
			}
			return nil
		case "Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze":
		default:
			return nil
		}
	}
	return nil
}

// TwoClasses returns a file's answer with one value for each class. It extends a single logit or probability to two
// classes, as [NewNetwork] does, and returns other answers unchanged.
func TwoClasses[T float32 | float64](answer []T, probabilities bool) []T {
	switch {
	case len(answer) != 1:
		return answer
	case probabilities:
		return []T{1 - answer[0], answer[0]}
	}
	return []T{0, answer[0]}
}

// wide returns the dimensions after the batch that are not 1.
func wide(s onnx.Shape) onnx.Shape {
	return slices.DeleteFunc(slices.Clone(s[1:]), func(d int64) bool { return d == 1 })
}

// classesOf returns how many values an output of this shape gives for an image, or 0 if it is not a list of classes.
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
	if others := otherOutputs(g); others != "" {
		remedy = "where another of its outputs does, output_name (--output-name) takes it: " + others
	}
	return fmt.Errorf("output %.80q has shape %v: %s; a classifier gives [N classes] or, of two classes, [N]; %s",
		out.Name, out.Shape, looks, remedy)
}

// otherOutputs lists the outputs besides the first that may give classes, with their shapes; "" if there is none.
func otherOutputs(g *onnx.Graph) string {
	var others []string
	for _, o := range g.Outputs[1:] {
		if classesOf(o.Shape) > 1 {
			others = append(others, fmt.Sprintf("%.80s %v", o.Name, o.Shape))
		}
	}
	return strings.Join(others[:min(len(others), 5)], ", ")
}

// looksLike says which kind of network gives an output of this shape.
func looksLike(out, in onnx.Shape) string {
	d := wide(out)
	switch {
	case slices.Equal(d, wide(in)):
		return "it looks like an image, as an auto-encoder gives, or perhaps like a segmentation (task, --task)"
	case len(out) == 4 && len(in) == 4 && slices.Equal(out[2:], in[2:]) && out[1] == 1:
		return "it looks like a segmentation, a value for each pixel, which has a task (--task)"
	case len(out) == 4 && len(in) == 4 && slices.Equal(out[2:], in[2:]):
		return fmt.Sprintf("it looks like a segmentation, %d values for each pixel, which has a task (--task)", out[1])
	case len(d) == 2 && len(out) == 3:
		return fmt.Sprintf("it looks like a detection, %d values for each of %d boxes, which a head of yours may "+
			"judge (--task head=FILE), or like features of tokens", slices.Min(d), slices.Max(d))
	case len(out) == 4:
		return fmt.Sprintf("it looks like a segmentation or like maps of features, %d of %d×%d", out[1], out[2], out[3])
	}
	return "it is no list of classes"
}
