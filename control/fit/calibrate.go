package fit

import (
	"fmt"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// calibrationImages is how many images statistics are measured on.
const calibrationImages = 128

// Calibrate sets means and variances of an embedding's BatchNormalizations to those of its
// own activations on the first 128 images' states, layer by layer. They stay so while
// scales and biases train: a normalisation that mixes the images of a batch has no place
// in a network whose answer to an image must not depend on others. An embedding without
// BatchNormalization is left as it is.
func Calibrate(e *onnx.Graph, n Network, data Data) error {
	var states []ort.Tensor
	for _, node := range e.Nodes {
		if node.Op != "BatchNormalization" {
			continue
		}
		if states == nil {
			var err error
			if states, err = firstStates(n, data); err != nil {
				return err
			}
		}
		mean, variance, err := statistics(e, node.Inputs[0], states)
		if err != nil {
			return fmt.Errorf("node %s: %w", node.Label(), err)
		}
		for i, v := range map[int][]float32{3: mean, 4: variance} {
			name := node.Inputs[i]
			if c, ok := e.Consts[name]; !ok || len(c.Floats) != len(v) {
				return fmt.Errorf("node %s: %q is not a constant of %d values", node.Label(), name, len(v))
			}
			e.Consts[name] = onnx.FloatTensor(e.Consts[name].Shape, v)
		}
	}
	return nil
}

// firstStates are the states of the first images, in shards.
func firstStates(n Network, data Data) ([]ort.Tensor, error) {
	var states []ort.Tensor
	s := data.Shape
	size := s[0] * s[1] * s[2]
	count := min(calibrationImages, len(data.Labels))
	for from := 0; from < count; from += shard {
		rows := min(shard, count-from)
		x := ort.Tensor{Shape: []int64{int64(rows), int64(s[0]), int64(s[1]), int64(s[2])}, Data: make([]float32, rows*size)}
		for k := range rows {
			data.Pixels(from+k, x.Data[k*size:(k+1)*size])
		}
		states = append(states, x)
	}
	if n.Before == nil {
		return states, nil
	}
	return through(n.Before, states)
}

// through runs a graph on shards.
func through(g *onnx.Graph, in []ort.Tensor) ([]ort.Tensor, error) {
	data, err := g.Encode()
	if err != nil {
		return nil, err
	}
	session, err := ort.Open(g.Name, data)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	var all []ort.Tensor
	for _, x := range in {
		out, err := session.Run([]ort.Tensor{x})
		if err != nil {
			return nil, err
		}
		all = append(all, out[0])
	}
	return all, nil
}

// statistics are mean and variance of each channel of a tensor of e.
func statistics(e *onnx.Graph, tensor string, states []ort.Tensor) (mean, variance []float32, err error) {
	head := e.Clone()
	head.Outputs = []onnx.Value{{Name: tensor, DType: onnx.Float, Shape: e.Shapes[tensor]}}
	head.Prune()
	values, err := through(head, states)
	if err != nil {
		return nil, nil, err
	}
	channels := int(e.Shapes[tensor][1])
	plane := int(e.Shapes[tensor].Items()) / channels
	sum, squares, count := make([]float64, channels), make([]float64, channels), 0.0
	each := func(visit func(c int, v float64)) {
		for _, x := range values {
			for i, v := range x.Data {
				visit(i/plane%channels, float64(v))
			}
		}
	}
	each(func(c int, v float64) { sum[c] += v })
	for _, x := range values {
		count += float64(len(x.Data) / channels)
	}
	for c := range sum {
		sum[c] /= count
	}
	each(func(c int, v float64) { squares[c] += (v - sum[c]) * (v - sum[c]) })
	mean, variance = make([]float32, channels), make([]float32, channels)
	for c := range sum {
		mean[c], variance[c] = float32(sum[c]), float32(squares[c]/count)
	}
	return mean, variance, nil
}
