package train

import (
	"selfheal/internal/vector"
	"selfheal/models/ort"
)

// noisy are the images of a shard under Gaussian noise.
func (t *Trainer) noisy(epoch int, images []int, clean ort.Tensor) ort.Tensor {
	x := ort.Tensor{Shape: clean.Shape, Data: make([]float32, len(clean.Data))}
	size := len(clean.Data) / len(images)
	for k, i := range images {
		t.noise(epoch, i, clean.Data[k*size:(k+1)*size], x.Data[k*size:(k+1)*size])
	}
	return x
}

// gaussian writes an image with noise, which leaves it where it takes it, in [0,1] or not. It is another one in every
// epoch.
func (t *Trainer) gaussian(epoch, image int, clean, out []float32) {
	key := vector.NewKey(generator(t.settings.Seed, "noise", epoch, image).Uint64())
	vector.Noisy(clean, float32(t.settings.Sigma), key, out)
}
