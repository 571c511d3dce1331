package train

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
	count := min(calibrationImages, len(data.Labels))
	g, norms, err := normalising(e, count)
	if err != nil || len(norms) == 0 {
		return err
	}
	states, err := firstStates(n, data)
	if err != nil {
		return err
	}
	all := ort.Tensor{Shape: append([]int64{int64(count)}, states[0].Shape[1:]...)}
	for _, s := range states {
		all.Data = append(all.Data, s.Data...)
	}
	out, err := through(g, []ort.Tensor{all})
	if err != nil {
		return err
	}
	for i, node := range norms {
		for k, input := range []int{3, 4} { // mean, variance
			name, values := node.Inputs[input], out[0][2*i+k].Data
			if c, ok := e.Consts[name]; !ok || len(c.Floats) != len(values) {
				return fmt.Errorf("node %s: %q is not a constant of %d values", node.Label(), name, len(values))
			}
			e.Consts[name] = onnx.FloatTensor(e.Consts[name].Shape, values)
		}
	}
	return nil
}

// normalising is e with every BatchNormalization taking the statistics of its batch of
// count images, as in training: one run then gives the statistics of all layers, each
// behind those before it. Its outputs are the mean and the variance of a channel, of each
// of the nodes listed.
func normalising(e *onnx.Graph, count int) (*onnx.Graph, []*onnx.Node, error) {
	g := e.Clone()
	nodes := g.Nodes
	g.Nodes, g.Outputs = nil, nil
	b := &onnx.Builder{G: g}
	var norms []*onnx.Node
	var statistics []string
	for _, n := range nodes {
		if n.Op != "BatchNormalization" {
			g.Nodes = append(g.Nodes, n)
			continue
		}
		b.Prefix = n.Outputs[0] + "/"
		x := n.Inputs[0]
		axes, column := []int64{}, onnx.Shape{1, b.Shape(x)[1]} // a value a channel, to broadcast
		for i := 2; i < len(b.Shape(x)); i++ {
			axes, column = append(axes, int64(i)), append(column, 1)
		}
		// The mean of the planes' means: sums of fewer values are more exact.
		mean := func(x string) string {
			if len(axes) > 0 {
				x = b.Mean(x, axes)
			}
			return b.Op("Mul", b.Sum(x, []int64{0}), b.Float(1/float32(count)))
		}
		spread := func(c string) string { return b.Op("Reshape", c, b.Ints(column...)) }
		mu := mean(x)
		centred := b.Op("Sub", x, mu)
		variance := mean(b.Op("Mul", centred, centred))
		deviation := b.Op("Sqrt", b.Op("Add", variance, b.Float(n.Float("epsilon", 1e-5))))
		y := b.Op("Mul", centred, b.Op("Div", spread(n.Inputs[1]), deviation))
		g.Shapes[n.Outputs[0]] = nil
		b.Append(&onnx.Node{Op: "Add", Inputs: []string{y, spread(n.Inputs[2])}, Outputs: n.Outputs[:1]})
		norms, statistics = append(norms, n), append(statistics, mu, variance)
	}
	b.Prefix = ""
	for i, s := range statistics {
		b.Output(fmt.Sprintf("statistics/%d", i), s)
	}
	if err := b.Err(); err != nil || len(norms) == 0 {
		return nil, nil, err
	}
	g.Prune()
	return g, norms, g.Verify()
}

// firstStates are the states of the first images, in shards.
func firstStates(n Network, data Data) ([]ort.Tensor, error) {
	var states []ort.Tensor
	count := min(calibrationImages, len(data.Labels))
	for from := 0; from < count; from += shard {
		rows := min(shard, count-from)
		x, size := data.tensor(rows), data.size()
		for k := range rows {
			data.Pixels(from+k, x.Data[k*size:(k+1)*size])
		}
		states = append(states, x)
	}
	if n.Before == nil {
		return states, nil
	}
	outputs, err := through(n.Before, states)
	if err != nil {
		return nil, err
	}
	for i, out := range outputs {
		states[i] = out[0]
	}
	return states, nil
}

// through runs a graph of one input on shards and returns each one's outputs.
func through(g *onnx.Graph, in []ort.Tensor) ([][]ort.Tensor, error) {
	data, err := g.Encode()
	if err != nil {
		return nil, err
	}
	session, err := ort.Open(g.Name, data)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	all := make([][]ort.Tensor, len(in))
	for i, x := range in {
		if all[i], err = session.Run([]ort.Tensor{x}); err != nil {
			return nil, err
		}
	}
	return all, nil
}
