package simplify

import (
	"fmt"

	"selfheal/models/onnx"
)

// Load reads a model file, simplifies it and prepends mean and std. It also
// returns the model in one piece, as [onnx.File] has it. Errors name the file.
func Load(path string, mean, std []float32) (*onnx.Graph, []byte, error) {
	f, err := onnx.Read(path)
	if err != nil {
		return nil, nil, err
	}
	g, err := Open(f.Data, mean, std)
	if err != nil {
		return nil, nil, fmt.Errorf("model %s: %w", path, err)
	}
	return g, f.Data, nil
}

// Open is Load for a model in memory, which must be in one piece.
func Open(data []byte, mean, std []float32) (*onnx.Graph, error) {
	g, err := onnx.Decode(data)
	if err != nil {
		return nil, err
	}
	if err := Graph(g); err != nil {
		return nil, err
	}
	return g, Preprocess(g, mean, std)
}

// Preprocess prepends (x − mean)/std, channel by channel, as nodes of their
// own, so that the network takes images in [0,1]. The nodes are never folded
// into a Conv: a padded Conv's border would change. Empty mean and std leave
// the graph as it is; otherwise each has one value or one a channel, and every
// std is above 0.
func Preprocess(g *onnx.Graph, mean, std []float32) error {
	if len(mean) == 0 && len(std) == 0 {
		return nil
	}
	in := &g.Inputs[0]
	if len(in.Shape) != 4 {
		return fmt.Errorf("mean and std need an image input, this one has shape %v", in.Shape)
	}
	channels := in.Shape[1]
	vector := func(what string, v []float32, def float32) (*onnx.Tensor, error) {
		t := onnx.FloatTensor(onnx.Shape{1, channels, 1, 1}, make([]float32, channels))
		if len(v) != 0 && len(v) != 1 && int64(len(v)) != channels {
			return nil, fmt.Errorf("%s has %d values, the image %d channels", what, len(v), channels)
		}
		for i := range t.Floats {
			switch len(v) {
			case 0:
				t.Floats[i] = def
			case 1:
				t.Floats[i] = v[0]
			default:
				t.Floats[i] = v[i]
			}
		}
		return t, nil
	}
	m, err := vector("mean", mean, 0)
	if err != nil {
		return err
	}
	s, err := vector("std", std, 1)
	if err != nil {
		return err
	}
	for _, v := range s.Floats {
		if !(v > 0) {
			return fmt.Errorf("std %v is not above 0", v)
		}
	}
	image, centred := g.Fresh(in.Name+"/image"), g.Fresh(in.Name+"/centred")
	old := in.Name
	in.Name = image
	sub := &onnx.Node{Op: "Sub", Inputs: []string{image, g.AddConst("preprocess/mean", m)}, Outputs: []string{centred}}
	div := &onnx.Node{Op: "Div", Inputs: []string{centred, g.AddConst("preprocess/std", s)}, Outputs: []string{old}}
	g.Nodes = append([]*onnx.Node{sub, div}, g.Nodes...)
	g.Shapes[image], g.Shapes[centred] = in.Shape, in.Shape
	return g.Verify()
}
