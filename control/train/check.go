package train

import (
	"context"
	"slices"

	"selfheal/attacks"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// lastImages is on how many of the last images a finished embedding is checked, about.
const lastImages = 512

// Check compares what training saw on its last images with what an embedding, E as it was written, gives on the same:
// the accuracy through the networks that these steps drew. Images are those of the steps, augmented and perturbed
// likewise.
func (t *Trainer) Check(ctx context.Context, e *onnx.Graph) (saw, gives float64, images int, err error) {
	type asked struct{ step, network int }
	var steps []asked
	for k := len(t.history) - 1; k >= 0 && images < lastImages; k-- {
		epoch, from := k/t.PerEpoch(), k%t.PerEpoch()*t.settings.Batch
		order := t.order(epoch)
		n := min(t.settings.Batch, len(order)-from)
		steps, images = append(steps, asked{k, t.history[k].Network}), images+n
		saw += float64(n) * t.history[k].Accuracy
	}
	right := 0
	for i, f := range t.networks {
		b := &onnx.Builder{G: onnx.NewGraph("check")}
		x := b.Input("image", f.image())
		for _, part := range []struct {
			prefix string
			graph  *onnx.Graph
		}{{"before/", f.Before}, {"E/", e}, {"after/", f.After}} {
			if b.Prefix = part.prefix; part.graph != nil {
				x = b.Call(part.graph, x)
			}
		}
		b.Prefix = ""
		b.Output("logits", x)
		g, err := b.Done()
		if err != nil {
			return 0, 0, 0, err
		}
		sessions, err := ort.OpenAll("check", g, 1)
		if err != nil {
			return 0, 0, 0, err
		}
		for _, s := range steps {
			if s.network != i {
				continue
			}
			hits, err := t.ask(ctx, f, sessions[0], s.step)
			if err != nil {
				sessions.Close()
				return 0, 0, 0, err
			}
			right += hits
		}
		sessions.Close()
	}
	return saw / float64(images), float64(right) / float64(images), images, nil
}

// ask counts the images of a step that a session answers right.
func (t *Trainer) ask(ctx context.Context, f *frozen, s *ort.Session, step int) (right int, err error) {
	epoch, from := step/t.PerEpoch(), step%t.PerEpoch()*t.settings.Batch
	order := t.order(epoch)
	order = order[from:min(from+t.settings.Batch, len(order))]
	classes, scratch := f.classes(), make([]float32, t.data.size())
	for part := range slices.Chunk(order, shard) {
		x, label, err := t.data.batch(part, classes, func(i int, out []float32) error {
			return t.data.draw(t.settings.Augment, t.settings.Seed, epoch, i, scratch, out)
		})
		switch {
		case err == nil && t.settings.Objective == Denoising:
			x, err = t.perturb(ctx, f, 0, epoch, part, x, label)
		case err == nil && t.settings.Objective == Gaussian:
			x = t.noisy(epoch, part, x)
		}
		var out []ort.Tensor
		if err == nil {
			out, err = s.Run([]ort.Tensor{x})
		}
		if err != nil {
			return 0, err
		}
		for k, i := range part {
			if attacks.Argmax(out[0].Data[k*classes:(k+1)*classes]) == t.data.Labels[i] {
				right++
			}
		}
	}
	return right, nil
}
