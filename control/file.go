package control

import (
	"context"

	"selfheal/attacks"
	"selfheal/models/onnx/simplify"
)

// File answers for a network as its file lies, by the file's own operators. Logits are as the opened network's are. It
// may be asked from many goroutines at once.
type File interface {
	Logits(ctx context.Context, x, out []float32) error
	Close()
}

// AnsweredBy has a file give the network's answers from now on. Gradients are the opened network's still, of a loss
// that is computed from the file's logits: straight-through estimation with the true forward pass. Where they vanish,
// as they do where activations are clipped, they are those of the network without rounding and clipping.
func (n *Network) AnsweredBy(f File) error {
	g, err := simplify.Unrounded(n.Graph)
	if err != nil {
		return err
	}
	n.file = f
	if g == nil {
		return nil
	}
	fast, err := n.rewrite(g)
	if err == nil {
		n.unrounded = newLosses(n, g, fast)
	}
	return err
}

// CopyLogits are the opened network's, whoever gives the answers.
func (n *Network) CopyLogits(ctx context.Context, x, out []float32) error { return n.pass(ctx, out, x) }

// fileGradient is [Network.Gradient] of a network whose file answers.
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
		return n.Logits(ctx, x, e.Logits) // the file's loss may be level here too
	}
	return answered(ctx, n, x, loss, label, target, e)
}

// File returns the file that gives the network's answers; nil where the opened network gives them.
func (n *Network) File() File { return n.file }

// ByFile reports whether the network's file gives a loop's answers: where the image alone is controlled. Behind other
// controls there is no file to ask.
func (c *Controller) ByFile() bool { return c.net.file != nil && c.last == 0 }

// end gives a path that stops at the controlled image the file's logits.
func (n *numbers) end(p *path[[]float32]) error {
	if !n.c.ByFile() {
		return nil
	}
	logits := n.vector(n.c.net.classes)
	p.x[len(n.c.stages)] = logits
	return n.c.net.file.Logits(n.ctx, p.z[0], logits)
}

// answered replaces logits and loss of a gradient by those of an oracle's own answer.
func answered(ctx context.Context, o attacks.Oracle, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	if err := o.Logits(ctx, x, e.Logits); err != nil {
		return err
	}
	e.Loss = float32(loss.Value(e.Logits, label, target))
	return nil
}
