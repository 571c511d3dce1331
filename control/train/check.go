package train

import (
	"context"
	"slices"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// lastImages is on about how many of the last images a finished embedding is checked.
const lastImages = 512

// Check compares the accuracy that training saw on its last images with that which an embedding, E as it was written,
// gives on the same, through the networks that these steps drew.
func (t *Trainer) Check(ctx context.Context, e *onnx.Graph) (saw, gives float64, images int, err error) {
	steps := make([][]int, len(t.networks)) // by the network that they drew
	for k := len(t.history) - 1; k >= 0 && images < lastImages; k-- {
		l, n := t.history[k], len(t.images(k))
		steps[l.Network], images = append(steps[l.Network], k), images+n
		saw += float64(n) * l.Accuracy
	}
	right := 0
	for i, f := range t.networks {
		hits, err := t.right(ctx, f, e, steps[i])
		if err != nil {
			return 0, 0, 0, err
		}
		right += hits
	}
	return saw / float64(images), float64(right) / float64(images), images, nil
}

// right counts the images of steps that a network with an embedding answers right.
func (t *Trainer) right(ctx context.Context, f *frozen, e *onnx.Graph, steps []int) (right int, err error) {
	g, err := composed("check", "logits", f.image(), part{"before/", f.Before}, part{"E/", e}, part{"after/", f.After})
	if err != nil {
		return 0, err
	}
	session, err := ort.OpenAll(g.Name, g, 1)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	for _, step := range steps {
		for images := range slices.Chunk(t.images(step), shard) {
			in, err := t.inputs(ctx, f, 0, step, images)
			if err != nil {
				return 0, err
			}
			out, err := session[0].Run(in[:1])
			if err != nil {
				return 0, err
			}
			right += t.data.right(images, out[0].Data)
		}
	}
	return right, nil
}
