// Package signs looks for signs that something hides gradients from attacks, between the cells of a run and along the
// gradient of a loss, and that answers are not what the config says.
package signs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/number"
)

// drop is how far an oblivious accuracy must lie above the accuracy under an attack through the controls to count as
// masked.
const drop = 0.1

// Noise is the fraction of images above which a finding is more than chance, as in the reference AutoAttack.
const Noise = 0.002

// Between adds the warnings that follow from a run's cells together, and tells warned of each.
func Between(cells []result.Cell, warned func(c *result.Cell, w result.Warning)) {
	for i := range cells {
		c := &cells[i]
		for _, w := range append(masked(c, cells), beaten(c, cells)...) {
			c.Warn(w)
			warned(c, w)
		}
	}
}

// masked warns of an oblivious cell whose control keeps more than the undefended network, and loses it to the same
// attack through the controls: the control hid the gradient instead of healing.
func masked(c *result.Cell, cells []result.Cell) (list []result.Warning) {
	healed := c.Error == "" && c.Mode == result.Oblivious && c.Defense != cell.None && c.Epsilon != 0 &&
		slices.ContainsFunc(cells, func(b result.Cell) bool {
			return b.Error == "" && b.Suite == c.Suite && b.Model == c.Model && b.Defense == cell.None &&
				b.Column == c.Column && b.Accuracy < c.Accuracy
		})
	if !healed {
		return nil
	}
	for k := range cells {
		w := &cells[k]
		if w.Error != "" || w.Mode != result.WhiteboxThrough || w.Row != c.Row || w.Column != c.Column ||
			*w.Norm != *c.Norm || c.Accuracy-w.Accuracy <= drop || c.CI95[0] <= w.CI95[1] {
			continue
		}
		elsewhere := ""
		if w.Suite != c.Suite {
			elsewhere = " (suite " + w.Suite + ")"
		}
		list = append(list, result.WarnMaskedByControl.New("%.1f %%, but through the control %.1f %%%s", 100*c.Accuracy,
			100*w.Accuracy, elsewhere))
	}
	return list
}

// many is the least number of gradients for an image in an attack of many steps.
const many = 10

// form returns what a recipe's name says about pixels, classes aimed at and precision: "+8bit".
func form(recipe string) string {
	_, after, _ := strings.Cut(recipe, "+")
	return after
}

func oneStep(c *result.Cell) bool { return strings.HasPrefix(c.Recipe, "fgsm/") }

// beaten warns of a cell where an attack of many steps along the classifier's own gradient leaves images that a weaker
// attack breaks: a single step, or images made on another network.
func beaten(c *result.Cell, cells []result.Cell) (list []result.Warning) {
	unaware := c.Defense != cell.None && (c.Mode == result.Oblivious || c.Mode == result.Transfer)
	if c.Error != "" || unaware || c.Norm == nil || oneStep(c) || c.Source != "" && c.Source != c.Model ||
		!slices.ContainsFunc(c.Steps, func(s result.Step) bool {
			return s.Attacked > 0 && s.Backward >= many*int64(s.Attacked)
		}) {
		return nil
	}
	for k := range cells {
		w := &cells[k]
		if w.Error != "" || w.Suite != c.Suite || w.Row != c.Row || w.Mode != c.Mode || w.Epsilon != c.Epsilon ||
			w.Norm == nil || *w.Norm != *c.Norm || len(w.Verdicts) != len(c.Verdicts) ||
			form(w.Recipe) != form(c.Recipe) {
			continue
		}
		broke := 0
		for i := range c.Verdicts {
			if c.Verdicts[i] == '1' && w.Verdicts[i] == '0' {
				broke++
			}
		}
		switch another := w.Source != "" && w.Source != w.Model && w.Attack == c.Attack; {
		case broke <= 1 || float64(broke) <= Noise*float64(c.N):
		case another:
			list = append(list, result.WarnTransferWins.New("the images that %s makes on %s break %d images that it "+
				"leaves when it knows the network", c.Attack, w.Source, broke))
		case w.Source == c.Source && oneStep(w):
			list = append(list, result.WarnOneStepWins.New("%s, a single step, breaks %d images that %s leaves",
				w.Attack, broke, c.Attack))
		}
	}
	return list
}

// Share writes a number of images, and that as a percentage.
func Share(n, of int) string {
	return fmt.Sprintf("%d of %d images (%.1f %%)", n, of, 100*float64(n)/float64(max(of, 1)))
}

// SquareWins lists how many images each Square after a gradient attack broke, if that is more than noise.
func SquareWins(steps []result.Step, n int) []int {
	var wins []int
	for i, s := range steps {
		if s.Attack != "square" || i == 0 {
			continue
		}
		if broke := int((steps[i-1].Robust-s.Robust)*float64(n) + 0.5); broke > 1 && float64(broke) > Noise*float64(n) {
			wins = append(wins, broke)
		}
	}
	return wins
}

// random is the relative change of a margin, asked for twice, above which the answers are random.
const random = 1e-4

// Slope returns by how much the margin between the classes changes along its own gradient, as a fraction of what the
// gradient promises: 1 where the gradient is right. It is also 1 where the gradient is 0 or not finite, or the answer
// is random, which are other signs. The step is of at most radius in each pixel, back and forth.
func Slope(ctx context.Context, o attacks.Oracle, im attacks.Image, radius float32) (float64, error) {
	e := attacks.Evaluation{Logits: make([]float32, o.Classes())}
	if err := o.Gradient(ctx, im.Pixels, attacks.Margin, im.Label, -1, &e); err != nil {
		return 0, err
	}
	promised, rise := 0.0, 0.0
	var own [2]float64
	for i := range own {
		if err := o.Logits(ctx, im.Pixels, e.Logits); err != nil {
			return 0, err
		}
		own[i] = attacks.Margin.Value(e.Logits, im.Label, -1)
	}
	if math.Abs(own[0]-own[1]) > random*math.Abs(own[0]) {
		return 1, nil
	}
	for _, side := range [...]float32{1, -1} {
		x := slices.Clone(im.Pixels)
		for i, g := range e.Gradient {
			if g != 0 {
				x[i] = min(max(x[i]+side*radius*float32(math.Copysign(1, float64(g))), 0), 1)
			}
			promised += float64(side) * float64(g) * float64(x[i]-im.Pixels[i])
		}
		z := make([]float32, o.Classes())
		if err := o.Logits(ctx, x, z); err != nil {
			return 0, err
		}
		rise += float64(side) * attacks.Margin.Value(z, im.Label, -1)
	}
	if ratio := rise / promised; number.Finite(ratio) {
		return ratio, nil
	}
	return 1, nil
}
