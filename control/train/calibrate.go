package train

import (
	"fmt"
	"slices"

	"selfheal/internal/lists"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

const calibrationImages = 128

// momentum is the weight of a step in the running statistics of normalisations, as in PyTorch.
const momentum = 0.1

// Calibrate sets the means and variances of a built-in embedding's BatchNormalizations to its own statistics on 128
// images. They are evenly spread over data, which may be sorted by class.
func Calibrate(e *onnx.Graph, n Network, data Data) error {
	count := min(calibrationImages, len(data.Labels))
	if len(normalisations(e)) == 0 {
		return nil
	}
	g := e.Clone()
	g.Outputs = nil // only the statistics are computed
	if err := normalising(g, g.AddConst("share", onnx.Scalar(1/float32(count)))); err != nil {
		return err
	}
	states, err := someStates(n, data, count)
	if err != nil {
		return err
	}
	out, err := through(g, states, count)
	if err != nil {
		return err
	}
	for i, name := range statisticsOf(e) {
		e.Consts[name] = onnx.FloatTensor(e.Consts[name].Shape, out[i].Data)
	}
	return nil
}

func normalisations(e *onnx.Graph) []*onnx.Node {
	return lists.Only(e.Nodes, func(n *onnx.Node) bool { return n.Op == "BatchNormalization" })
}

// statisticsOf lists the tensors of their means and variances, node by node.
func statisticsOf(e *onnx.Graph) (names []string) {
	for _, n := range normalisations(e) {
		names = append(names, n.Inputs[3:5]...)
	}
	return names
}

// normalising rewrites an embedding, in place, so that every BatchNormalization uses the statistics of its batch. It
// adds outputs: the mean and the variance of each channel, one node after another. share names the input 1/n for a
// batch of n images.
func normalising(e *onnx.Graph, share string) error {
	var statistics []string
	err := e.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		if n.Op != "BatchNormalization" {
			return false
		}
		b.Prefix = n.Outputs[0] + "/"
		x := n.Inputs[0]
		axes, column := []int64{}, onnx.Shape{1, b.Shape(x)[1]} // one value for each channel, to broadcast
		for i := 2; i < len(b.Shape(x)); i++ {
			axes, column = append(axes, int64(i)), append(column, 1)
		}
		// The mean of the planes' means: sums of fewer values are more exact.
		mean := func(x string) string {
			if len(axes) > 0 {
				x = b.Mean(x, axes)
			}
			return b.Op("Mul", b.Sum(x, []int64{0}), share)
		}
		spread := func(c string) string { return b.Op("Reshape", c, b.Ints(column...)) }
		mu := mean(x)
		centred := b.Op("Sub", x, mu)
		variance := mean(b.Op("Mul", centred, centred))
		deviation := b.Op("Sqrt", b.Op("Add", variance, b.Float(n.Float("epsilon", 1e-5))))
		y := b.Op("Mul", centred, b.Op("Div", spread(n.Inputs[1]), deviation))
		e.Shapes[n.Outputs[0]] = nil
		b.Append(&onnx.Node{Op: "Add", Inputs: []string{y, spread(n.Inputs[2])}, Outputs: n.Outputs[:1]})
		statistics = append(statistics, mu, variance)
		return true
	})
	if err != nil {
		return err
	}
	b := &onnx.Builder{G: e}
	for i, s := range statistics {
		b.Output(fmt.Sprintf("statistics/%d", i), s)
	}
	_, err = b.Done()
	return err
}

func someStates(n Network, data Data, count int) (ort.Tensor, error) {
	var some []int
	for i := range count {
		some = append(some, i*len(data.Labels)/count)
	}
	images, _, err := data.batch(some, n.classes(), data.Pixels)
	if err != nil || n.Before == nil {
		return images, err
	}
	states, err := through(n.Before, images, shard)
	if err != nil {
		return images, err
	}
	return states[0], nil
}

// through runs a graph of one input on rows rows at a time and returns its outputs.
func through(g *onnx.Graph, x ort.Tensor, rows int) ([]ort.Tensor, error) {
	if err := room(g, min(rows, int(x.Shape[0]))); err != nil {
		return nil, err
	}
	session, err := ort.OpenGraph(g)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	var all []ort.Tensor
	size := len(x.Data) / int(x.Shape[0])
	for some := range slices.Chunk(x.Data, rows*size) {
		shape := append([]int64{int64(len(some) / size)}, x.Shape[1:]...)
		out, err := session.Run([]ort.Tensor{{Shape: shape, Data: some}})
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = out
			continue
		}
		for i, o := range out {
			all[i].Shape[0] += o.Shape[0]
			all[i].Data = append(all[i].Data, o.Data...)
		}
	}
	return all, nil
}
