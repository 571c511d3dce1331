package harness

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/models/bounds"
	"selfheal/models/ort"
)

// original is a model's file as it lies, which what is proven of the opened network is held against: images come to it
// by the preprocessing that the config says, computed here, not by nodes that opening puts in front.
type original struct {
	*ort.Original
	model *config.Model
	shape attacks.Shape
	last  bool // channels last
}

// original opens a model's file again.
func (o *opener) original(m *config.Model, n *control.Network) (*original, error) {
	file, err := readModel(o.cfg.Files, m.Path)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	session, err := ort.OpenOriginal(m.Path, file, m.OutputName)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	return &original{Original: session, model: m, shape: n.Shape()}, nil
}

// answer is what the file gives for an image: logits, or probabilities where it gives these.
func (o *original) answer(image []float32) ([]float64, error) {
	s, m := o.shape, o.model
	x := make([]float32, len(image))
	value := func(v []float64, c int) float32 { return float32(v[c%len(v)]) }
	for i, v := range image {
		c, at := i/(s.H*s.W), i%(s.H*s.W)
		if m.Scale != 0 {
			v *= float32(m.Scale)
		}
		if len(m.Mean) > 0 {
			v -= value(m.Mean, c)
		}
		if len(m.Std) > 0 {
			v /= value(m.Std, c)
		}
		if o.last {
			i = at*s.C + c
		}
		x[i] = v
	}
	return o.Run(x)
}

// compared is how many images of the data a file and the network that was opened from it are compared on.
const compared = 100

// compare asks the file and the opened network about images of the data. They must answer alike but for rounding.
func (o *original) compare(ctx context.Context, n *control.Network, set images) error {
	layout := o.Shape()
	o.last = len(layout) == 4 && layout[3] == int64(o.shape.C) && layout[1] != int64(o.shape.C)
	either := len(layout) == 4 && layout[1] == layout[2] && layout[2] == layout[3] // the answers tell
	for i := range min(compared, set.Len()) {
		im, err := set.image(i)
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
		y, err := o.answer(im.Pixels)
		if err != nil {
			return err
		}
		if ort.Agree(y, z) != nil && either && i == 0 {
			o.last = true
			if y, err = o.answer(im.Pixels); err != nil {
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

// compared opens the file of a job's model, once, and compares it with the opened network.
func (b *bench) compared(ctx context.Context) (*original, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.file != nil {
		return b.file, nil
	}
	file, err := b.openFile()
	if err != nil {
		return nil, err
	}
	if err := file.compare(ctx, b.net, b.set); err != nil {
		file.Close()
		return nil, err
	}
	b.file = file
	return file, nil
}

// corners is how many of a region's the file is asked about, beside its centre.
const corners = 16

// hold holds a proof against the file as it lies, or against the controlled network as it runs: at the centre and at
// corners of the ball the answer is the label. A proof that does not stand this is an error.
func (b *bench) hold(ctx context.Context, who classifier, region bounds.Region, im attacks.Image) error {
	file, err := b.compared(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(im.ID), uint64(im.Label)))
	for k := range 1 + corners {
		x := im.Pixels
		if k > 0 {
			x = corner(region, rng)
		}
		var z []float64
		if who.loop == nil {
			if z, err = file.answer(x); err != nil {
				return err
			}
		} else {
			answer, err := who.logits(ctx, x)
			if err != nil {
				return err
			}
			for _, v := range answer {
				z = append(z, float64(v))
			}
		}
		for class, v := range z {
			if class != im.Label && !(z[im.Label] > v) {
				return fmt.Errorf("image %d is proven, and %s as it lies answers class %d at a corner of its ball: "+
					"one of them is wrong", im.ID, who, class)
			}
		}
	}
	return nil
}

// corner is a random corner of a region: of its box, or, for a ball, of one within it, as far as the box goes.
func corner(r bounds.Region, rng *rand.Rand) []float32 {
	x := make([]float32, len(r.Lower))
	move := func(i int, by float64) float64 {
		if rng.IntN(2) == 0 {
			by = -by
		}
		was := x[i]
		x[i] = min(max(float32(float64(was)+by), r.Lower[i]), r.Upper[i])
		return math.Abs(float64(x[i]) - float64(was))
	}
	within := r.Epsilon * (1 - 1e-6) // of what rounding adds
	copy(x, r.Centre)
	switch {
	case r.Centre == nil:
		for i := range x {
			if x[i] = r.Lower[i]; rng.IntN(2) == 0 {
				x[i] = r.Upper[i]
			}
		}
	case r.P == 1: // one value after the other, until all is spent
		for _, i := range rng.Perm(len(x)) {
			if within -= move(i, within); within <= 0 {
				break
			}
		}
	default:
		for i := range x {
			move(i, within/math.Sqrt(float64(len(x))))
		}
	}
	return x
}
