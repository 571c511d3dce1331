package control

import (
	"context"

	"selfheal/control/pca"
	"selfheal/models/onnx"
	"selfheal/models/split"
)

// CleanStates streams x_t, the input of segment t, on the undefended path of n
// images, in order, on the network's pool: batches and workers don't change a bit.
// pixels writes the i-th image into its argument.
func (c *Chain) CleanStates(t, images int, pixels func(i int, out []float32)) (pca.States, error) {
	n, size := c.net, int(c.StateShape(t).Items())
	var before *onnx.Graph // nil at the image
	if t > 0 {
		parts, err := split.At(n.Graph, []string{c.Segments[t].Inputs[0].Name})
		if err != nil {
			return nil, err
		}
		before = parts[0]
		before.Name += "/states"
	}
	return func(ctx context.Context, yield func([]float32) error) error {
		state := func(_ context.Context, i int, row []float32) error {
			pixels(i, row)
			return nil
		}
		if before != nil {
			fast, err := n.rewrite(before)
			if err != nil {
				return err
			}
			prefix, err := compile(n.pool, fast)
			if err != nil {
				return err
			}
			defer prefix.Close()
			state = func(ctx context.Context, i int, row []float32) error {
				image := make([]float32, n.shape.Size())
				pixels(i, image)
				return n.pool.Run(ctx, prefix, [][]float32{image}, [][]float32{row})
			}
		}
		rows := make([][]float32, min(pca.ChunkRows(size), images))
		for i := range rows {
			rows[i] = make([]float32, size)
		}
		for from := 0; from < images; from += len(rows) {
			count := min(len(rows), images-from)
			err := ForEach(ctx, n.pool, count, 0, func(ctx context.Context, i int) error {
				return state(ctx, from+i, rows[i])
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
	}, nil
}

// StatesID identifies the network up to the input of segment t: "" at the image.
func (c *Chain) StatesID(t int) string {
	if t == 0 {
		return ""
	}
	return c.net.ID + "/" + c.Segments[t].Inputs[0].Name
}
