package train

import (
	"os"
	"testing"

	"selfheal/control"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// zoo opens a bundled network, cut in front of a segment; −1 stands for the last one.
func zoo(t testing.TB, name string, segment int) Network {
	t.Helper()
	data, err := os.ReadFile("../../models/zoo/" + name)
	if err != nil {
		t.Fatal(err)
	}
	pool := ort.NewPool(1, 8)
	t.Cleanup(pool.Close)
	n, err := control.NewNetwork(pool, name, data, control.NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	c, err := n.Cut()
	if err != nil {
		t.Fatal(err)
	}
	if segment < 0 {
		segment += len(c.Segments)
	}
	around, err := Around(n, c, segment, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	return around
}

// shapes10 are the first of the bundled training images.
func shapes10(t testing.TB, images int) Data {
	t.Helper()
	const record = 1 + 3*32*32
	raw, err := os.ReadFile("../../models/zoo/shapes10/train.bin")
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) < images*record {
		t.Fatalf("%d images are asked for of %d", images, len(raw)/record)
	}
	d := Data{Shape: [3]int{3, 32, 32}, Pixels: func(i int, out []float32) {
		for j, b := range raw[i*record+1 : (i+1)*record] {
			out[j] = float32(b) / 255
		}
	}}
	for i := range images {
		d.Labels = append(d.Labels, int(raw[i*record]))
	}
	return d
}

// small is a built-in embedding of a network's states, of few channels.
func small(t testing.TB, name string, n Network, width int) *onnx.Graph {
	t.Helper()
	e, err := New(name, n.state(), n.Before == nil, width, 5)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// trainer is NewTrainer for a test.
func trainer(t testing.TB, e *onnx.Graph, n []Network, d Data, s Settings) *Trainer {
	t.Helper()
	tr, err := NewTrainer(e, n, d, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}
