package open

import (
	"context"
	"fmt"
	"math"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// Original is a model's file as it lies; proofs about the opened network are held against it. Images come to it by the
// preprocessing that the config says, computed here, not by nodes that opening puts in front.
type Original struct {
	*ort.Original
	model *config.Model
	shape attacks.Shape
	last  bool // channels last

	levels bool // the input is uint8
}

func (o *Opener) original(m *config.Model, n *control.Network) (*Original, error) {
	file, err := ReadModel(o.Config.Files, m.Path)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	session, err := ort.OpenOriginal(m.Path, file, m.OutputName)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	s := n.Shape()
	if in, _, err := onnx.Ports(file.Data); err == nil && len(in[0].Shape) == 4 { // the session has read them too
		session.Take(simplify.Sized(in[0].Shape, m.Layout, [3]int{s.C, s.H, s.W}))
	}
	return &Original{Original: session, model: m, shape: n.Shape(), levels: n.Graph.Levels}, nil
}

// Answer is the file's for an image: logits, or probabilities where it gives these, of each class. An image for a file
// of uint8 must consist of levels.
func (o *Original) Answer(image []float32) ([]float64, error) {
	s, m := o.shape, o.model
	x := make([]float32, len(image))
	taken := given(m)
	if o.levels {
		taken.Scale = 255
	}
	for i, v := range image {
		c, at := i/(s.H*s.W), i%(s.H*s.W)
		if level := float64(v) * 255; o.levels && math.Abs(level-math.Round(level)) > 1e-3 {
			return nil, fmt.Errorf("model %s takes uint8, but pixel %d is %v, which is not a level of 8 bits", m.Name,
				i, v)
		}
		v = taken.pixel(v, c)
		if o.last {
			i = at*s.C + c
		}
		x[i] = v
	}
	y, err := o.Run(x)
	return control.TwoClasses(y, m.Output == "probabilities"), err
}

// Levels are an image's pixels at the nearest levels of 8 bits. Where towards, an image of levels, is not nil, they are
// the nearest on its side.
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

// compared is how many images of the data a file and the network that was opened from it are compared on.
const compared = 100

// compare asks the file and the opened network about images of the data. They must answer alike but for rounding.
func (o *Original) compare(ctx context.Context, n *control.Network, set Images) error {
	layout := o.Shape()
	o.last = len(layout) == 4 && layout[3] == int64(o.shape.C) && layout[1] != int64(o.shape.C)
	either := len(layout) == 4 && layout[1] == layout[2] && layout[2] == layout[3] // the answers tell
	for i := range min(compared, set.Len()) {
		im, err := set.Read(i)
		if err != nil {
			return err
		}
		z := make([]float32, n.Classes())
		if err := n.Logits(ctx, im.Pixels, z); err != nil {
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
