package control

import (
	"context"
	"fmt"
	"slices"

	"selfheal/control/pca"
	"selfheal/models/onnx"
	"selfheal/models/ort"
	"selfheal/models/split"
)

// At is a place in the network at which a control acts.
type At struct {
	Last     bool   // the tensor entering the final Gemm or MatMul
	Tensor   string // a tensor by name
	Boundary int    // otherwise: index of the network's boundary; 0 is the image
}

// String prints the place as a config writes it.
func (a At) String() string {
	switch {
	case a.Last:
		return "last"
	case a.Tensor != "":
		return a.Tensor
	case a.Boundary == 0:
		return "input"
	}
	return fmt.Sprint(a.Boundary)
}

// Chain is a network cut into segments F_0 … F_{T−1} for one controller: at the network's boundaries and at the
// controller's own places.
type Chain struct {
	Segments []*onnx.Graph
	Places   []int // segments whose inputs are the controller's places
	net      *Network
}

// Cut cuts the network at its boundaries and the given places.
func (n *Network) Cut(places ...At) (*Chain, error) {
	at, names := slices.Clone(n.Boundaries), []string{}
	for _, p := range places {
		name, err := n.tensor(p)
		if err != nil {
			return nil, err
		}
		if n.Graph.Integers[name] && name != n.Graph.Inputs[0].Name {
			return nil, fmt.Errorf("model %s, layer %v: its file computes in integers there (tensor %s), and no "+
				"control can be added; control its input, or quantise it in the QDQ format", n.Name, p, name)
		}
		if names = append(names, name); name != n.Graph.Inputs[0].Name && !slices.Contains(at, name) {
			at = append(at, name)
		}
	}
	cuts := split.Cuts(n.Task.before(n.Graph))
	if n.Task != nil {
		cuts = slices.DeleteFunc(cuts, func(name string) bool { return name == n.Task.answer.Name })
	}
	for _, name := range at {
		if n.Task != nil && !slices.Contains(cuts, name) {
			return nil, fmt.Errorf("model %s: %q is not a tensor at which the network can be cut before its answer",
				n.Name, name)
		}
	}
	slices.SortStableFunc(at, func(a, b string) int { return slices.Index(cuts, a) - slices.Index(cuts, b) })
	segments, err := split.At(n.Graph, at)
	if err != nil {
		return nil, err
	}
	c := &Chain{Segments: segments, net: n}
	for _, name := range names {
		begins := func(s *onnx.Graph) bool { return s.Inputs[0].Name == name }
		c.Places = append(c.Places, slices.IndexFunc(segments, begins))
	}
	return c, nil
}

// tensor names the tensor of a place. Numbers count the network's own boundaries.
func (n *Network) tensor(a At) (string, error) {
	switch {
	case a.Last:
		return split.Last(n.Task.before(n.Graph))
	case a.Tensor != "":
		return a.Tensor, nil
	case a.Boundary == 0:
		return n.Graph.Inputs[0].Name, nil
	case a.Boundary < 0 || a.Boundary > len(n.Boundaries):
		return "", fmt.Errorf("model %s has boundaries 0 to %d, not %d", n.Name, len(n.Boundaries), a.Boundary)
	}
	return n.Boundaries[a.Boundary-1], nil
}

// StateShape returns the shape of x_t, the input of segment t, with the batch in front.
func (c *Chain) StateShape(t int) onnx.Shape { return c.Segments[t].Inputs[0].Shape }

// CleanStates streams x_t, the input of segment t, for images in order, without control. It runs on the network's
// pool; the numbers of batches and workers change no bit. pixels writes the i-th image into out and is called from
// several goroutines.
func (c *Chain) CleanStates(t, images int, pixels func(i int, out []float32) error) pca.States {
	return func(ctx context.Context, yield func([]float32) error) error {
		n, size := c.net, int(c.StateShape(t).Items())
		var before *ort.Program // maps the image to the state; nil if the image is the state
		if t > 0 {
			parts, err := split.At(n.Graph, []string{c.Segments[t].Inputs[0].Name})
			if err != nil {
				return err
			}
			parts[0].Name += "/states"
			fast, err := n.rewrite(parts[0])
			if err != nil {
				return err
			}
			if before, err = n.compile(fast); err != nil {
				return err
			}
			defer before.Close()
		}
		rows := make([][]float32, min(pca.ChunkRows(size), images))
		for i := range rows {
			rows[i] = make([]float32, size)
		}
		for from := 0; from < images; from += len(rows) {
			count := min(len(rows), images-from)
			err := ForEach(ctx, n.pool, count, 0, func(ctx context.Context, i int) error {
				if before == nil {
					return pixels(from+i, rows[i])
				}
				image := make([]float32, n.shape.Size())
				if err := pixels(from+i, image); err != nil {
					return err
				}
				return n.pool.Run(ctx, before, [][]float32{image}, rows[i:i+1])
			})
			if err != nil {
				return err
			}
			for _, row := range rows[:count] {
				if err := yield(row); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// StatesID identifies the network up to the input of segment t. It is "" for the image.
func (c *Chain) StatesID(t int) string {
	if t == 0 {
		return ""
	}
	return c.net.ID + "/" + c.Segments[t].Inputs[0].Name
}
