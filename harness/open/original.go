package open

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// Original is a model's own file. As a [control.File] it gives the network's answers, and proofs about the opened
// network are compared with it. It preprocesses images here, as the config says, not by nodes that opening puts in
// front.
type Original struct {
	*ort.Original
	net   *control.Network
	model *config.Model
	shape attacks.Shape
	box   [2][]float32 // of rows of features; nil for images
	last  bool         // the file takes channels last

	label  *ort.Original // gives the file's own label, if scores were taken out of the file; else nil
	levels bool          // the input is uint8
	turns  chan struct{} // bounds the concurrent runs
}

// Notices that tell the user which form of the network gives the answers.
const (
	NoticeByFile = "the file as it lies gives all answers, its opened form the gradients"
	// NoticeByCopy is the notice for a control between layers.
	NoticeByCopy = "its opened form gives all answers, as there is no file behind a control between layers"
)

func (o *Opener) original(m *config.Model, n *control.Network, file *onnx.File,
	images string) (*Original, error) {
	in, out, err := onnx.Ports(file.Data)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	session, err := ort.OpenOriginal(m.Path, file,
		cmp.Or(m.OutputName, simplify.Scores(out, m.Output == "label")))
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	s := n.Shape()
	if rank := len(in[0].Shape); rank == 4 || rank == 2 {
		session.Take(simplify.Sized(in[0].Shape, m.Layout, [3]int{s.C, s.H, s.W}))
	}
	original := &Original{Original: session, net: n, model: m, shape: s, box: o.boxOf(m, images),
		levels: n.Graph.Levels, turns: make(chan struct{}, o.Cores())}
	if scores := simplify.Scores(out, false); file.Labelled != nil && m.Output != "label" && scores != "" {
		original.label, err = ort.OpenLabelled(m.Path, file, simplify.Scores(out, true))
		if err != nil {
			session.Close()
			return nil, fmt.Errorf("model %s: %w", m.Name, err)
		}
	}
	layout := original.Shape()
	original.last = m.Layout == simplify.ChannelsLast ||
		len(layout) == 4 && layout[3] == int64(s.C) && layout[1] != int64(s.C)
	return original, nil
}

// byFile joins the notices about a network whose file answers: what was changed for the gradients, and who answers.
func byFile(notices []string) (all []string) {
	changed := []string{}
	for _, notice := range notices {
		if strings.HasSuffix(notice, simplify.NoticeLong) {
			all = append(all, notice)
		} else {
			changed = append(changed, notice)
		}
	}
	return append(all, strings.Join(append(changed, NoticeByFile), "; "))
}

// Close frees the runtime's memory.
func (o *Original) Close() {
	o.Original.Close()
	if o.label != nil {
		o.label.Close()
	}
}

// Logits implements [control.File]. For a file of uint8 it rounds to the nearest levels.
func (o *Original) Logits(ctx context.Context, x, out []float32) error {
	select {
	case o.turns <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-o.turns }()
	if o.levels {
		x = Levels(x, nil)
	}
	y, err := o.Answer(x)
	if err != nil {
		return err
	}
	if o.net.Task != nil {
		if err := o.net.Task.Scores(ctx, y, out); err != nil {
			return fmt.Errorf("model %s as it lies: %w", o.model.Name, err)
		}
		return nil
	}
	if o.model.Output == "label" {
		clear(out)
		if class := int(y[0]); len(y) == 1 && class >= 0 && class < len(out) {
			out[class] = 1
			return nil
		}
		return fmt.Errorf("model %s as it lies gives %v, which is no label", o.model.Name, y)
	}
	if len(y) != len(out) {
		return fmt.Errorf("model %s as it lies gives %d values, not %d", o.model.Name, len(y), len(out))
	}
	for i, v := range y {
		if o.model.Output == "probabilities" {
			v = math.Log(max(v, control.LeastProbability))
		}
		out[i] = float32(v)
	}
	return nil
}

// labelled returns an error if the file's own label is not the class of the largest of the logits taken out of it,
// beyond rounding.
func (o *Original) labelled(image, logits []float32) error {
	if o.label == nil {
		return nil
	}
	x, _, err := o.input(image)
	if err != nil {
		return err
	}
	y, err := o.label.Run(x)
	if err != nil {
		return err
	}
	class := -1
	if len(y) > 0 {
		class = int(y[0])
	}
	if class < 0 || class >= len(logits) || attacks.Argmax(logits) != class && !attacks.WithinRounding(logits, class) {
		return fmt.Errorf("model %s as it lies gives the label %v, but its largest score is of class %d; take the "+
			"label alone (output: label, --label)", o.model.Name, y, attacks.Argmax(logits))
	}
	return nil
}

// Answer returns the file's answer for an image: logits or, if the file gives them, probabilities, one for each
// class. An image for a file of uint8 must consist of levels.
func (o *Original) Answer(image []float32) ([]float64, error) {
	x, batch, err := o.input(image)
	if err != nil {
		return nil, err
	}
	y, err := o.Run(x)
	if y = y[:len(y)/batch]; o.model.Output == "label" || o.net.Task != nil || err != nil {
		return y, err
	}
	return control.TwoClasses(y, o.model.Output == "probabilities"), nil
}

// input returns the file's input for an image, which it repeats to a batch if the file has a fixed one.
func (o *Original) input(image []float32) (x []float32, batch int, err error) {
	s, m := o.shape, o.model
	x = make([]float32, o.Inputs())
	taken := given(m)
	if o.levels {
		taken.Scale = 255
	}
	for i, v := range image {
		c, at := i/(s.H*s.W), i%(s.H*s.W)
		if level := float64(v) * 255; o.levels && math.Abs(level-math.Round(level)) > 1e-3 {
			return nil, 0, fmt.Errorf("model %s takes uint8, but pixel %d is %v, which is not a level of 8 bits",
				m.Name, i, v)
		}
		if o.box[0] != nil {
			v = float32(v*(o.box[1][i]-o.box[0][i])) + o.box[0][i]
		}
		channel := c
		if s.Row() { // a row, whose features are normalised by themselves
			channel = i
		}
		v = taken.pixel(v, channel)
		if o.last {
			i = at*s.C + c
		}
		x[i] = v
	}
	batch = max(1, len(x)/len(image))
	for k := 1; k < batch; k++ {
		copy(x[k*len(image):], x[:len(image)])
	}
	return x, batch, nil
}

// Levels returns an image's pixels rounded to levels of 8 bits: to the nearest or, if towards is not nil, towards
// this image of levels.
func Levels(image, towards []float32) []float32 {
	out := make([]float32, len(image))
	for i, v := range image {
		level := float64(v) * 255
		switch {
		case towards == nil:
			level = math.Round(level)
		case v > towards[i]:
			level = math.Floor(level + 1e-3)
		default:
			level = math.Ceil(level - 1e-3)
		}
		out[i] = float32(min(max(level, 0), 255)) / 255
	}
	return out
}

// compared is the number of images on which a file and its opened network are compared.
const compared = 100

// compare asks the file and the opened network about images of the data and returns an error unless they agree up to
// rounding. A file that rounds may differ from its opened form: proofs about it cover all values to which its
// rounding may lead.
func (o *Original) compare(ctx context.Context, n *control.Network, set Images) error {
	if n.Graph.IsCopy() {
		return nil
	}
	layout := o.Shape()
	// the shape does not tell the layout; the answers do
	either := len(layout) == 4 && layout[1] == layout[2] && layout[2] == layout[3]
	for i := range min(compared, set.Len()) {
		im, err := set.Read(i)
		if err != nil {
			return err
		}
		z := make([]float32, n.Classes())
		if err := n.CopyLogits(ctx, im.Pixels, z); err != nil {
			return err
		}
		if o.model.Output == "probabilities" {
			for j, v := range z {
				z[j] = float32(math.Exp(float64(v)))
			}
		}
		y, err := o.Answer(im.Pixels)
		if err != nil {
			return err
		}
		if ort.Agree(y, z) != nil && either && i == 0 {
			o.last = true
			if y, err = o.Answer(im.Pixels); err != nil {
				return err
			}
		}
		if err := ort.Agree(y, z); err != nil {
			return fmt.Errorf("model %s, image %d: %w: what is proven of it would not hold for the file", o.model.Name,
				im.ID, err)
		}
	}
	return nil
}
