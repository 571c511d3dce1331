package control

import (
	"context"

	"selfheal/attacks"
	"selfheal/models/onnx/simplify"
)

// File answers for a network with the operators of its file. Its logits have the form of the opened network's. It may
// be used from many goroutines at once.
type File interface {
	Logits(ctx context.Context, x, out []float32) error
	Close()
}

// AnsweredBy lets a file give the network's answers from now on. Gradients still come from the opened network, of a
// loss computed from the file's logits (straight-through estimation with the true forward pass). If a gradient
// vanishes, as it does where activations are clipped, the network without rounding and clipping gives it.
func (n *Network) AnsweredBy(f File) error {
	g, err := simplify.Unrounded(n.Graph)
	if err != nil {
		return err
	}
	n.file = f
	n.Task.answeredBy(f)
	if g == nil {
		return nil
	}
	fast, err := n.rewrite(g)
	if err == nil {
		n.unrounded = newLosses(n, g, fast)
	}
	return err
}

// CopyLogits writes the opened network's logits, even if a file gives the answers.
func (n *Network) CopyLogits(ctx context.Context, x, out []float32) error { return n.pass(ctx, out, x) }

// fileGradient implements [Network.Gradient] for a network whose file answers.
func (n *Network) fileGradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	err := n.losses.gradient(ctx, x, loss, label, target, e)
	if err != nil {
		return err
	}
	if n.unrounded != nil && attacks.L2.Length(e.Gradient) < attacks.Vanished {
		if err := n.unrounded.gradient(ctx, x, loss, label, target, e); err != nil {
			return err
		}
		return n.Logits(ctx, x, e.Logits) // without rounding the loss may be flat too
	}
	return answered(ctx, n, x, loss, label, target, e)
}

// File returns the file that gives the network's answers, or nil.
func (n *Network) File() File { return n.file }

// ByFile reports whether the network's file gives a loop's answers. It does if only the image is controlled; the file
// cannot continue from a controlled state inside the network.
func (c *Controller) ByFile() bool { return c.net.file != nil && c.last == 0 }

// end appends the file's logits to a path that stops at the controlled image.
func (n *numbers) end(p *path[[]float32]) error {
	if !n.c.ByFile() {
		return nil
	}
	logits := n.vector(n.c.net.classes)
	p.x[len(n.c.stages)] = logits
	return n.c.net.file.Logits(n.ctx, p.z[0], logits)
}

// answered replaces the logits and the loss of a gradient by those of the oracle o.
func answered(ctx context.Context, o attacks.Oracle, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	if err := o.Logits(ctx, x, e.Logits); err != nil {
		return err
	}
	e.Loss = float32(loss.Value(e.Logits, label, target))
	return nil
}
