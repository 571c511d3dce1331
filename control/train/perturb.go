package train

import (
	"context"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/internal/vector"
	"selfheal/models/ort"
)

// perturb returns a shard's images as E sees them at a step: under Gaussian noise, or the worst ones of a ball around
// each, which projected gradient descent looks for (Madry et al. 2018).
func (t *Trainer) perturb(ctx context.Context, f *frozen, step int, images []int,
	clean, label ort.Tensor) (ort.Tensor, error) {
	if t.settings.Objective == Gaussian {
		x, size := ort.Tensor{Shape: clean.Shape, Data: make([]float32, len(clean.Data))}, len(clean.Data)/len(images)
		for k, i := range images {
			t.noise(step/t.PerEpoch(), i, clean.Data[k*size:(k+1)*size], x.Data[k*size:(k+1)*size])
		}
		return x, nil
	}
	ramp := t.settings.ramp(step, t.PerEpoch())
	if ramp == 0 {
		return clean, nil
	}
	gradient := func(x ort.Tensor) ([]ort.Tensor, error) {
		return f.attack.Run(t.with(step, []ort.Tensor{x, clean, label}))
	}
	if t.settings.Loss == TRADES { // away from the answer to the clean image
		out, err := gradient(clean)
		if err != nil {
			return clean, err
		}
		label = ort.Tensor{Shape: label.Shape, Data: softmax(out[logitsAt].Data, f.classes())}
	}
	s := search{t.settings.Norm, ramp * t.settings.Epsilon, ramp * t.stepSize(), t.settings.Steps}
	start := func(k int, w *attacks.Walk) { t.scatter(step/t.PerEpoch(), images[k], w) }
	return s.worst(ctx, clean, start, func(x ort.Tensor) ([]float32, error) {
		out, err := gradient(x)
		if err != nil {
			return nil, err
		}
		return out[gradientsAt].Data, nil
	})
}

// search is projected gradient descent from random starts.
type search struct {
	norm              attacks.Norm
	epsilon, stepSize float64
	steps             int
}

// worst returns the images that a search ends at. start moves the k-th image to its start; gradient returns the loss's
// gradient by the images.
func (s search) worst(ctx context.Context, clean ort.Tensor, start func(k int, w *attacks.Walk),
	gradient func(x ort.Tensor) ([]float32, error)) (ort.Tensor, error) {
	x := ort.Tensor{Shape: clean.Shape, Data: make([]float32, len(clean.Data))}
	n := int(clean.Shape[0])
	size := len(clean.Data) / n
	walks := make([]*attacks.Walk, n)
	for k := range walks {
		walks[k] = attacks.NewWalk(s.norm, clean.Data[k*size:(k+1)*size], s.epsilon)
		start(k, walks[k])
		copy(x.Data[k*size:], walks[k].Point())
	}
	for range s.steps {
		if err := ctx.Err(); err != nil {
			return x, err
		}
		g, err := gradient(x)
		if err != nil {
			return x, err
		}
		for k, w := range walks {
			w.Follow(g[k*size:(k+1)*size], s.stepSize)
			copy(x.Data[k*size:], w.Point())
		}
	}
	return x, nil
}

// softmax returns the probabilities of logits, image by image.
func softmax(logits []float32, classes int) []float32 {
	p := make([]float32, len(logits))
	for from := 0; from < len(p); from += classes {
		z, sum := logits[from:from+classes], 0.0
		largest := slices.Max(z)
		for _, v := range z {
			sum += math.Exp(float64(v - largest))
		}
		for j, v := range z {
			p[from+j] = float32(math.Exp(float64(v-largest)) / sum)
		}
	}
	return p
}

// gaussian writes an image with noise, which may leave [0,1]. Each epoch has other noise.
func (s Settings) gaussian(epoch, image int, clean, out []float32) {
	key := vector.NewKey(generator(s.Seed, "noise", epoch, image).Uint64())
	vector.Noisy(clean, float32(s.Sigma), key, out)
}
