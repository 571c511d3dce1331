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
