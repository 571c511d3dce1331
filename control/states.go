package control

import (
	"context"

	"selfheal/control/pca"
	"selfheal/models/split"
)

// CleanStates streams x_t, the input of segment t, on the undefended path of n
// images, in order, on the network's pool: batches and workers don't change a bit.
// pixels writes the i-th image into its argument.
func (c *Chain) CleanStates(t, images int, pixels func(i int, out []float32)) (pca.States, error) {
	n := c.net
	if t == 0 {
		return func(ctx context.Context, yield func([]float32) error) error {
			x := make([]float32, n.shape.Size())
			for i := range images {
				if err := ctx.Err(); err != nil {
					return err
				}
				pixels(i, x)
				if err := yield(x); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
	parts, err := split.At(n.Graph, []string{c.Segments[t].Inputs[0].Name})
	if err != nil {
		return nil, err
	}
	parts[0].Name += "/states"
	return func(ctx context.Context, yield func([]float32) error) error {
		fast, err := n.rewrite(parts[0])
		if err != nil {
			return err
		}
		prefix, err := compile(n.pool, fast)
		if err != nil {
			return err
		}
		defer prefix.Close()
		size := int(c.StateShape(t).Items())
		rows := make([][]float32, min(pca.ChunkRows(size), images))
		inputs := make([][]float32, len(rows))
		for i := range rows {
			rows[i], inputs[i] = make([]float32, size), make([]float32, n.shape.Size())
		}
		for from := 0; from < images; from += len(rows) {
			count := min(len(rows), images-from)
			err := ForEach(ctx, n.pool, count, 0, func(ctx context.Context, i int) error {
				pixels(from+i, inputs[i])
				return n.pool.Run(ctx, prefix, inputs[i:i+1], rows[i:i+1])
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
	return c.net.id + "/" + c.Segments[t].Inputs[0].Name
}
