package train

import (
	"context"

	"selfheal/models/ort"
)

// Denoising makes the objective the white-box one: min over E, max over the ℓ∞ ball around
// the image, of the loss of E on the perturbed image's state, whose reconstruction is to be
// the clean image's. The maximum is sought by projected gradient descent's sign steps from
// a random start (Madry et al. 2018).
type Denoising struct {
	Epsilon  float64 // radius in [0,1] pixel units
	Steps    int     // default 7
	StepSize float64 // default ε/4
}

// perturb returns the images of a shard as the inner maximisation leaves them.
func (t *Trainer) perturb(ctx context.Context, f *frozen, w, epoch int, images []int, clean, label ort.Tensor) (ort.Tensor, error) {
	d := t.settings.Denoising
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
