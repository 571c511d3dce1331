package train

import (
	"context"

	"selfheal/models/ort"
)

// perturb returns the images of a shard that maximise the loss over the ℓ∞ ball around each,
// as far as projected gradient descent's sign steps from a random start find it (Madry et
// al. 2018). What E is to give there is the clean image's state.
func (t *Trainer) perturb(ctx context.Context, f *frozen, w, epoch int, images []int,
	clean, label ort.Tensor) (ort.Tensor, error) {
	d := t.settings
	x := ort.Tensor{Shape: clean.Shape, Data: make([]float32, len(clean.Data))}
	size := len(clean.Data) / len(images)
	for k, i := range images {
		r := generator(t.settings.Seed, "start", epoch, i)
		for j := k * size; j < (k+1)*size; j++ {
			x.Data[j] = inside(clean.Data[j]+float32(d.Epsilon*(2*r.Float64()-1)), clean.Data[j], d.Epsilon)
		}
	}
	for range d.Steps {
		if err := ctx.Err(); err != nil {
			return x, err
		}
		out, err := f.attack[w].Run(t.with([]ort.Tensor{x, clean, label}))
		if err != nil {
			return x, err
		}
		for j, g := range out[gradientsAt].Data {
			step := float32(0)
			if g > 0 {
				step = float32(d.StepSize)
			} else if g < 0 {
				step = -float32(d.StepSize)
			}
			x.Data[j] = inside(x.Data[j]+step, clean.Data[j], d.Epsilon)
		}
	}
	return x, nil
}

// inside projects a pixel to [0,1] and to within epsilon of its clean value.
func inside(v, clean float32, epsilon float64) float32 {
	e := float32(epsilon)
	return min(max(v, clean-e, 0), clean+e, 1)
}
