package train

import (
	"context"

	"selfheal/internal/vector"
	"selfheal/models/ort"
)

// perturb returns the images of a shard with noise, whose clean states E is to find. The noise is Gaussian or, for
// objective denoising, the start of projected gradient descent: its sign steps maximise the loss over the ℓ∞ ball
// around each image (Madry et al. 2018).
func (t *Trainer) perturb(ctx context.Context, f *frozen, epoch int, images []int,
	clean, label ort.Tensor) (ort.Tensor, error) {
	x := ort.Tensor{Shape: clean.Shape, Data: make([]float32, len(clean.Data))}
	size := len(clean.Data) / len(images)
	for k, i := range images {
		t.noise(epoch, i, clean.Data[k*size:(k+1)*size], x.Data[k*size:(k+1)*size])
	}
	if t.settings.Objective != Denoising {
		return x, nil
	}
	for range t.settings.Steps {
		if err := ctx.Err(); err != nil {
			return x, err
		}
		out, err := f.attack.Run(t.with([]ort.Tensor{x, clean, label}))
		if err != nil {
			return x, err
		}
		for j, g := range out[gradientsAt].Data {
			step := float32(0)
			if g > 0 {
				step = float32(t.settings.StepSize)
			} else if g < 0 {
				step = -float32(t.settings.StepSize)
			}
			x.Data[j] = inside(x.Data[j]+step, clean.Data[j], t.settings.Epsilon)
		}
	}
	return x, nil
}

// inside projects a pixel to [0,1] and to within epsilon of its clean value.
func inside(v, clean float32, epsilon float64) float32 {
	e := float32(epsilon)
	return min(max(v, clean-e, 0), clean+e, 1)
}

// uniform writes an image with noise from the ℓ∞ ball. Each epoch has other noise.
func (t *Trainer) uniform(epoch, image int, clean, out []float32) {
	r, e := generator(t.settings.Seed, "start", epoch, image), t.settings.Epsilon
	for j, v := range clean {
		out[j] = inside(v+float32(e*(2*r.Float64()-1)), v, e)
	}
}

// gaussian writes an image with noise, which may leave [0,1]. Each epoch has other noise.
func (t *Trainer) gaussian(epoch, image int, clean, out []float32) {
	key := vector.NewKey(generator(t.settings.Seed, "noise", epoch, image).Uint64())
	vector.Noisy(clean, float32(t.settings.Sigma), key, out)
}
