package control

import (
	"context"

	"selfheal/control/pca"
	"selfheal/models/ort"
	"selfheal/models/split"
)

// CleanStates streams x_t, the input of segment t, on the undefended path of images, in order, on the network's pool:
// batches and workers don't change a bit. pixels writes the i-th image into out; several goroutines call it.
func (c *Chain) CleanStates(t, images int, pixels func(i int, out []float32) error) pca.States {
	return func(ctx context.Context, yield func([]float32) error) error {
		n, size := c.net, int(c.StateShape(t).Items())
		var before *ort.Program // of the image; nil where that is the state
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

// StatesID identifies the network up to the input of segment t: "" at the image.
func (c *Chain) StatesID(t int) string {
	if t == 0 {
		return ""
	}
	return c.net.ID + "/" + c.Segments[t].Inputs[0].Name
}
