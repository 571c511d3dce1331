package open

import (
	"context"
	"fmt"
	"math"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/models/ort"
)

// Original is a model's file as it lies; proofs about the opened network are held against it. Images come to it by the
// preprocessing that the config says, computed here, not by nodes that opening puts in front.
type Original struct {
	*ort.Original
	model *config.Model
	shape attacks.Shape
	last  bool // channels last
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
	return &Original{Original: session, model: m, shape: n.Shape()}, nil
}

// Answer is the file's for an image: logits, or probabilities where it gives these, of each class.
func (o *Original) Answer(image []float32) ([]float64, error) {
	s, m := o.shape, o.model
	x := make([]float32, len(image))
	taken := given(m)
	for i, v := range image {
		c, at := i/(s.H*s.W), i%(s.H*s.W)
		v = taken.pixel(v, c)
		if o.last {
			i = at*s.C + c
		}
		x[i] = v
	}
	y, err := o.Run(x)
	return control.TwoClasses(y, m.Output == "probabilities"), err
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
