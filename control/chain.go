package control

import (
	"fmt"
	"slices"

	"selfheal/models/onnx"
	"selfheal/models/split"
)

// At is a place in the network where a layer is controlled.
type At struct {
	Last     bool   // the tensor entering the final Gemm or MatMul
	Tensor   string // a tensor by name
	Boundary int    // otherwise: the network's boundary of that number, 0 being the image
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
	net      *Network
}

// Cut cuts the network at its boundaries and the given places.
func (n *Network) Cut(places ...At) (*Chain, error) {
	at := slices.Clone(n.Boundaries)
	for _, p := range places {
		name, err := n.tensor(p)
		if err != nil {
			return nil, err
		}
		if name != n.Graph.Inputs[0].Name && !slices.Contains(at, name) {
			at = append(at, name)
		}
	}
	cuts := split.Cuts(n.Graph)
	slices.SortStableFunc(at, func(a, b string) int { return slices.Index(cuts, a) - slices.Index(cuts, b) })
	segments, err := split.At(n.Graph, at)
	if err != nil {
		return nil, err
	}
	return &Chain{Segments: segments, net: n}, nil
}

// tensor names the tensor of a place. Numbers count the network's own boundaries.
func (n *Network) tensor(a At) (string, error) {
	switch {
	case a.Last:
		return split.Last(n.Graph)
	case a.Tensor != "":
		return a.Tensor, nil
	case a.Boundary == 0:
		return n.Graph.Inputs[0].Name, nil
	case a.Boundary < 0 || a.Boundary > len(n.Boundaries):
		return "", fmt.Errorf("model %s has boundaries 0 to %d, not %d", n.Name, len(n.Boundaries), a.Boundary)
	}
	return n.Boundaries[a.Boundary-1], nil
}

// Index finds the segment whose input the place is.
func (c *Chain) Index(a At) (int, error) {
	name, err := c.net.tensor(a)
	if err != nil {
		return 0, err
	}
	for t, s := range c.Segments {
		if s.Inputs[0].Name == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("model %s is not cut at %q", c.net.Name, name)
}

// StateShape is the shape of x_t, the input of segment t, with the batch in front.
func (c *Chain) StateShape(t int) onnx.Shape { return c.Segments[t].Inputs[0].Shape }
