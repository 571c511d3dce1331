package train

import (
	"context"
	"os"
	"testing"

	"selfheal/control"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// zoo opens a bundled network, cut in front of a segment; −1 stands for the last one.
func zoo(t testing.TB, name string, segment int) Network { return zooBetween(t, name, segment, 0) }

// zooBetween cuts it in front of a later segment, too, unless that is 0.
func zooBetween(t testing.TB, name string, segment, later int) Network {
	t.Helper()
	data := must.Get(os.ReadFile("../../models/zoo/" + name))(t)
	pool := ort.NewPool(1, 8)
	t.Cleanup(pool.Close)
	n := must.Get(control.NewNetwork(pool, name, data, control.NetworkOptions{}))(t)
	t.Cleanup(n.Close)
	c := must.Get(n.Cut())(t)
	for _, s := range []*int{&segment, &later} {
		if *s < 0 {
			*s += len(c.Segments)
		}
	}
	around := must.Get(Around(n, c, segment, later, nil, true))(t)
	return around
}

// shapes10 returns the first of the bundled training images.
func shapes10(t testing.TB, images int) Data {
	t.Helper()
	const record = 1 + 3*32*32
	raw := must.Get(os.ReadFile("../../models/zoo/shapes10/train.bin"))(t)
	if len(raw) < images*record {
		t.Fatalf("%d images are asked for of %d", images, len(raw)/record)
	}
	d := Data{Shape: [3]int{3, 32, 32}, Pixels: func(i int, out []float32) error {
		for j, b := range raw[i*record+1 : (i+1)*record] {
			out[j] = float32(b) / 255
		}
		return nil
	}}
	for i := range images {
		d.Labels = append(d.Labels, int(raw[i*record]))
	}
	return d
}

// small returns a built-in embedding of a network's states, of few channels.
func small(t testing.TB, name string, n Network, width int) *onnx.Graph {
	t.Helper()
	e := must.Get(New(name, n.State(), n.Before == nil, Dimensions{Width: width}, 5))(t)
	return e
}

// trainer calls NewTrainer for a test of one embedding.
func trainer(t testing.TB, e *onnx.Graph, n []Network, d Data, s Settings) *Trainer {
	t.Helper()
	return trainerOf(t, []*onnx.Graph{e}, n, d, s)
}

func trainerOf(t testing.TB, es []*onnx.Graph, n []Network, d Data, s Settings) *Trainer {
	t.Helper()
	tr := must.Get(NewTrainer(es, n, d, s))(t)
	t.Cleanup(tr.Close)
	return tr
}

// finish makes the remaining steps of a training.
func finish(t testing.TB, tr *Trainer) {
	t.Helper()
	for tr.Done() < tr.Steps() {
		must.Get(tr.Step(context.Background()))(t)
	}
}
