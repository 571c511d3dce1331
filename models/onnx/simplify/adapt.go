package simplify

import (
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// Layouts of a model's input.
const (
	ChannelsFirst = "nchw" // [N, C, H, W]
	ChannelsLast  = "nhwc" // [N, H, W, C], as Keras and TensorFlow have it
)

// Layouts are all of them.
func Layouts() []string { return []string{ChannelsFirst, ChannelsLast} }

// Options say how a model's input and output are taken, so that every network takes [N, C, H, W] images in [0,1]. The
// zero value takes them as they are.
type Options struct {
	// The model gets (x·Scale − Mean)/Std, channel by channel; a Scale of 0 is 1. Mean and Std, which is above 0, have
	// one value or one a channel, or none. One whose input is uint8 gets 255·x.
	Scale     float32
	Mean, Std []float32
	Layout    string // of the model's input; "" where the model tells
	// Box is where an input of vectors lies: values in [0,1] become Box[0] + x·(Box[1] − Box[0]) first, value by value.
	// Nil leaves them.
	Box    [2][]float32
	Output string // the output that is taken; "" leaves all, but labels beside scores
	Label  bool   // the label is taken, not the scores
	// Size says which channels, height and width images have; it is asked about a network that leaves them open, or
	// takes vectors. Nil: a network that leaves them open is refused.
	Size func() ([3]int, error)
	// Literal takes the input as the file has it, in the file's order: nothing is put in front of it, but one flat
	// input with the values of all, in order, where the file has several.
	Literal bool
	// Joined makes the first outputs one, flat and in order: those of so many values each. Nil leaves the outputs.
	Joined []int
	// Alone takes a file of a batch of 1 for a network of one image: what it computes along the batch stays within the
	// image. It is tried by itself if the batch can't be made open otherwise.
	Alone bool
	// Whole takes the whole input for one item, also its first dimension, as that of a network without a batch.
	Whole bool
}

// Prepare brings a decoded graph into the form that the other packages work on, as [Graph] does, with one output and
// an input with channels first.
func Prepare(g *onnx.Graph, o Options) (err error) {
	defer onnx.Refused(&err)
	if o.Output != "" {
		takeOutput(g, o.Output)
	} else if name := Scores(g.Outputs, o.Label); name != "" {
		g.Notice(NoticeTaken(g, name))
		takeOutput(g, name)
	}
	var image [3]int
	if o.Literal {
		o.join(g)
	} else {
		levels(g)
		image = onnx.Sure(o.fill(g))
	}
	if o.Layout == ChannelsLast || o.Layout == "" && !o.Literal && hasChannelsLast(g) {
		channelsFirst(g)
	}
	file := g.Clone()
	alone := !o.Literal && isBatchOfOne(file)
	if err = graph(g, o.Whole, o.Alone && alone); err != nil && alone && !o.Alone && graph(file, false, true) == nil {
		*g, err = *file, nil
	}
	if err != nil && image != [3]int{} {
		err = fmt.Errorf("%w; the file leaves the images' size open, and %d×%d pixels were taken", err, image[2],
			image[1])
	}
	return err
}

// isBatchOfOne reports whether the file was exported with a batch of 1.
func isBatchOfOne(g *onnx.Graph) bool {
	return len(g.Inputs) == 1 && len(g.Inputs[0].Shape) > 1 && g.Inputs[0].Shape[0] == 1
}

// fill gives an image input's open dimensions the images' sizes; 0 where none is open.
func (o Options) fill(g *onnx.Graph) (image [3]int, err error) {
	if o.Size == nil || !isImage(g) && !IsFlat(g) || !slices.Contains(g.Inputs[0].Shape[1:], onnx.Batch) {
		return image, nil
	}
	if image, err = o.Size(); err == nil {
		g.Inputs[0].Shape = Sized(g.Inputs[0].Shape, o.Layout, image)
	}
	return image, err
}

// Sized is the shape of an image input with the sizes of images, channels, height and width, where it leaves them open.
func Sized(s onnx.Shape, layout string, image [3]int) onnx.Shape {
	if len(s) == 2 {
		return onnx.Shape{s[0], int64(image[0] * image[1] * image[2])}
	}
	axes := []int{1, 2, 3}
	if layout == ChannelsLast || layout == "" && s[1] < 0 && s[3] > 0 && s[3] <= 4 {
		axes = []int{3, 1, 2}
	}
	s = slices.Clone(s)
	for i, a := range axes {
		if s[a] < 0 {
			s[a] = int64(image[i])
		}
	}
	return s
}

// NoticeTaken tells the user which of the model's outputs is taken.
func NoticeTaken(g *onnx.Graph, name string) string {
	return fmt.Sprintf("has %d outputs, of which %.80s is taken; output_name chooses another", len(g.Outputs), name)
}

// Scores names the output to take of several where the first is a label and one gives scores, as scikit-learn's
// classifiers have it: the label or, without label, the first of the scores; else it returns "".
func Scores(outputs []onnx.Value, label bool) string {
	isLabel := func(v onnx.Value) bool { return v.DType == onnx.Int64 || v.DType == onnx.Int32 }
	i := slices.IndexFunc(outputs, func(v onnx.Value) bool { return !isLabel(v) })
	switch {
	case len(outputs) == 0 || !isLabel(outputs[0]) || i < 0:
		return ""
	case label:
		return outputs[0].Name
	}
	return outputs[i].Name
}

// takeOutput leaves an output of a graph, or has it end at a tensor that one of its nodes gives.
func takeOutput(g *onnx.Graph, name string) {
	var names []string
	for i, out := range g.Outputs {
		if out.Name == name {
			g.Outputs = g.Outputs[i : i+1]
			return
		}
		names = append(names, fmt.Sprintf("%.80s", out.Name))
	}
	if g.Producers()[name] == nil {
		onnx.Refuse("has no output %q; its outputs are %s", name, onnx.Few(names))
	}
	g.Notice(fmt.Sprintf("ends at its inner tensor %.80q", name))
	g.Outputs = []onnx.Value{{Name: name, DType: onnx.Float, Shape: g.Shapes[name]}}
}

// IsFlat reports whether a decoded model takes vectors, [N, d].
func IsFlat(g *onnx.Graph) bool { return len(g.Inputs) == 1 && len(g.Inputs[0].Shape) == 2 }

// Unflattened has a network of vectors take images of a shape, channels, height and width, whose values in order are
// the vector; of another number of values, d values are a row: [N, 1, 1, d].
func Unflattened(g *onnx.Graph, image [3]int) error {
	in := &g.Inputs[0]
	old, d := in.Name, in.Shape[1]
	if int64(image[0]*image[1]*image[2]) != d {
		image = [3]int{1, 1, int(d)}
	}
	flat := g.AddConst(old+"/flat", onnx.IntTensor(-1, d))
	in.Name = g.Fresh(old + "/rows")
	in.Shape = onnx.Shape{in.Shape[0], int64(image[0]), int64(image[1]), int64(image[2])}
	g.Shapes[in.Name] = in.Shape
	g.Nodes = append([]*onnx.Node{{Op: "Reshape", Inputs: []string{in.Name, flat}, Outputs: []string{old}}}, g.Nodes...)
	return g.Verify()
}

func isImage(g *onnx.Graph) bool { return len(g.Inputs) == 1 && len(g.Inputs[0].Shape) == 4 }

// hasChannelsLast tells a model's layout by its input: there are 1 or 3 channels, and more rows and columns. If
// that leaves it open, the model has channels last if it puts them in front first of all.
func hasChannelsLast(g *onnx.Graph) bool {
	if !isImage(g) {
		return false
	}
	s := g.Inputs[0].Shape
	channels := func(d int64) bool { return d == 1 || d == 3 }
	switch {
	case channels(s[1]) && s[2] > 4 && s[3] > 4:
		return false
	case channels(s[3]) && s[1] > 4 && s[2] > 4:
		return true
	}
	readers := g.Consumers()[g.Inputs[0].Name]
	other := func(n *onnx.Node) bool {
		return n.Op != "Transpose" || !slices.Equal(n.Ints("perm", nil), []int64{0, 3, 1, 2})
	}
	return len(readers) > 0 && !slices.ContainsFunc(readers, other)
}

// Channels is how many channels a decoded model's images have; 0 where it takes none, or leaves it open.
func Channels(g *onnx.Graph, layout string) int {
	if !isImage(g) {
		return 0
	}
	axis := 1
	if layout == ChannelsLast || layout == "" && hasChannelsLast(g) {
		axis = 3
	}
	return int(max(0, g.Inputs[0].Shape[axis]))
}

// NoticeLast tells the user that the file takes images in another order than the opened network.
const NoticeLast = "takes images with channels last; a Transpose in front of it has them first"

// channelsFirst puts a Transpose in front of a model whose input has channels last.
func channelsFirst(g *onnx.Graph) {
	onnx.Require(isImage(g), "layout %s needs an image input, one of rank 4", ChannelsLast)
	in := &g.Inputs[0]
	old, s := in.Name, in.Shape
	in.Name, in.Shape = g.Fresh(old+"/channels-first"), onnx.Shape{s[0], s[3], s[1], s[2]}
	g.Nodes = append([]*onnx.Node{{Op: "Transpose", Attrs: onnx.Attrs{"perm": []int64{0, 2, 3, 1}},
		Inputs: []string{in.Name}, Outputs: []string{old}}}, g.Nodes...)
	g.Notices = append(g.Notices, NoticeLast)
}

// Preprocess prepends what o has of scale, mean and std, as nodes of their own, so that the network takes images in
// [0,1]. The nodes are never folded into a Conv: a padded Conv's border would change.
func Preprocess(g *onnx.Graph, o Options) (err error) {
	defer onnx.Refused(&err)
	if g.Levels {
		own := len(o.Mean) == 0 && len(o.Std) == 0 && (o.Scale == 0 || o.Scale == 1 || o.Scale == 255)
		onnx.Require(own, "its input is uint8, so that scale, mean and std are the network's own: give none")
		if o.Scale = 255; unscaled(g) {
			return g.Verify()
		}
	}
	if o.Scale == 0 && len(o.Mean) == 0 && len(o.Std) == 0 && o.Box[0] == nil {
		return nil
	}
	in := &g.Inputs[0]
	onnx.Require(len(in.Shape) == 4 || IsFlat(g), "scale, mean and std need an image input, this one has shape %v",
		in.Shape)
	if d := len(o.Box[0]); d > 0 {
		onnx.Require(len(in.Shape) == 2 || in.Shape[1]*in.Shape[2] == 1,
			"takes images of shape %v, not rows of %d features", in.Shape, d)
		takes := in.Shape[len(in.Shape)-1]
		onnx.Require(takes == int64(d), "takes rows of %d features, those of the data have %d", takes, d)
	}
	var scale []float32
	if o.Scale != 0 && o.Scale != 1 {
		scale = []float32{o.Scale}
	}
	old := in.Name
	image := g.Fresh(old + "/image")
	x, nodes := image, []*onnx.Node(nil)
	for _, s := range []struct {
		op, name, made string
		values         []float32
	}{
		{"Mul", "box", "widened", widths(o.Box)}, {"Add", "low", "placed", o.Box[0]},
		{"Mul", "scale", "scaled", scale}, {"Sub", "mean", "centred", o.Mean}, {"Div", "std", "normalised", o.Std},
	} {
		if len(s.values) == 0 {
			continue
		}
		c := g.AddConst("preprocess/"+s.name, perChannel(s.name, s.values, in.Shape))
		y := g.Fresh(old + "/" + s.made)
		g.Shapes[y] = in.Shape
		nodes = append(nodes, &onnx.Node{Op: s.op, Inputs: []string{x, c}, Outputs: []string{y}})
		x = y
	}
	if len(nodes) == 0 {
		return nil
	}
	in.Name = image
	delete(g.Shapes, x)
	nodes[len(nodes)-1].Outputs = []string{old}
	g.Nodes = append(nodes, g.Nodes...)
	g.Shapes[in.Name] = in.Shape
	return g.Verify()
}

// widths are the widths of a box, nil without one.
func widths(box [2][]float32) (w []float32) {
	for i, low := range box[0] {
		w = append(w, box[1][i]-low)
	}
	return w
}

// perChannel spreads one value over the channels, or takes one for each. The channels of a row, or of a vector, are its
// values.
func perChannel(name string, values []float32, in onnx.Shape) *onnx.Tensor {
	n, shape, what := len(values), onnx.Shape{1, in[1], 1, 1}, "the image %d channels"
	if len(in) == 2 {
		shape, what = onnx.Shape{1, in[1]}, "a row %d values"
	} else if n > 1 && in[1] == 1 && in[2] == 1 {
		shape, what = onnx.Shape{1, 1, 1, in[3]}, "a row %d values"
	}
	count := shape.Items()
	onnx.Require(n == 1 || int64(n) == count, "%s has %d values, "+what, name, n, count)
	t := onnx.Filled(0, shape...)
	for i := range t.Floats {
		t.Floats[i] = values[i%n]
		positive := t.Floats[i] > 0 || name != "scale" && name != "std"
		onnx.Require(positive, "%s %v, in float32, is not above 0", name, t.Floats[i])
	}
	return t
}
