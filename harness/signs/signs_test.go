package signs

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

// A control masks if it keeps a tenth more than under an attack that knows it, significantly, and more than the
// undefended network.
func TestMasked(t *testing.T) {
	cell := func(mode, defense string, accuracy, low, high float64) result.Cell {
		return result.Cell{ID: cell.Of(mode+defense, "m", defense, "pgd", 0.1).In("d", mode), Norm: new("linf"),
			Accuracy: accuracy, CI95: [2]float64{low, high}}
	}
	masked := func(change func(cells []result.Cell)) bool {
		cells := []result.Cell{cell(result.Oblivious, "none", 0.1, 0, 1), cell(result.Oblivious, "loop", 0.6, 0.5, 0.7),
			cell(result.WhiteboxThrough, "loop", 0.2, 0.1, 0.3)}
		cells[0].Suite = cells[1].Suite
		change(cells)
		Between(cells, func(*result.Cell, result.Warning) {})
		if len(cells[0].Warnings)+len(cells[2].Warnings) > 0 {
			t.Errorf("another cell is warned about: %+v", cells)
		}
		return len(cells[1].Warnings) == 1
	}
	for _, c := range []struct {
		bare, healed, through float64
		high                  float64 // end of the last one's interval
		want                  bool
	}{
		{0.1, 0.6, 0.2, 0.3, true}, {0.1, 0.6, 0.2, 0.5, false}, {0.1, 0.6, 0.2, 0.51, false},
		{0.1, 0.6, 0.5, 0.4, false},
		{0.1, 0.6, 0.45, 0.4, true}, {0.6, 0.6, 0.2, 0.3, false}, {0.59, 0.6, 0.2, 0.3, true},
		{0.05, 0.2, 0.1, 0.3, false}, // a tenth and no more
	} {
		got := masked(func(cells []result.Cell) {
			cells[0].Accuracy, cells[1].Accuracy, cells[2].Accuracy, cells[2].CI95[1] = c.bare, c.healed, c.through,
				c.high
		})
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, c := range []struct {
		change func(c *result.Cell)
		asked  [3]bool // the cells for which it matters
	}{
		{func(c *result.Cell) { c.Error = "e" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Model = "n" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Attack = "fab" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Defense = "other" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Epsilon = 0.2 }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Epsilon = 0; c.Attack = "none" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Dataset = "e" }, [3]bool{false, true, true}},
		{func(c *result.Cell) { c.Norm = new("l2") }, [3]bool{false, true, true}},
		{func(c *result.Cell) { c.Mode = result.WhiteboxDetached }, [3]bool{false, true, true}},
		{func(c *result.Cell) { c.Suite = "s" }, [3]bool{true, true, false}},
	} {
		for i, asked := range c.asked {
			var changed result.Cell
			if masked(func(cells []result.Cell) { c.change(&cells[i]); changed = cells[i] }) == asked {
				t.Errorf("cell %d is %+v", i, changed)
			}
		}
	}
}

// A single step, or images of another network, that break what many steps leave are a sign.
func TestBeaten(t *testing.T) {
	made := func(attack, recipe, source, verdicts string) result.Cell {
		c := result.Cell{ID: cell.Of("s", "m", "none", attack, 0.1).In("d", result.Whitebox), Norm: new("linf"),
			Recipe: recipe, N: len(verdicts), Verdicts: verdicts}
		if c.Source = source; !strings.HasPrefix(recipe, "square") { // a step through a control costs many passes
			c.Steps = []result.Step{{Attacked: 4, Backward: 40}}
		}
		return c
	}
	many := made("aa", "autoattack-standard/3", "", "1110000000")
	for name, c := range map[string]struct {
		cells []result.Cell
		want  []string // of the first cell
	}{
		"a single step": {[]result.Cell{many, made("step", "fgsm/1", "", "0010000000")}, []string{"one-step-wins"}},
		"another form":  {[]result.Cell{many, made("step", "fgsm/1+8bit", "", "0010000000")}, nil},
		"one image":     {[]result.Cell{many, made("step", "fgsm/1", "", "0110000000")}, nil},
		"no step":       {[]result.Cell{many, made("pgd", "pgd/1", "", "0000000000")}, nil},
		"of a step":     {[]result.Cell{made("one", "fgsm/1", "", "1111"), made("step", "fgsm/1", "", "0000")}, nil},
		"by scores":     {[]result.Cell{made("sq", "square/1", "", "1111"), made("step", "fgsm/1", "", "0000")}, nil},
		"another network": {[]result.Cell{made("aa", "apgd-ce/1", "m", "1110"), made("aa", "apgd-ce/1", "n", "0010")},
			[]string{"transfer-wins"}},
		"onto another": {[]result.Cell{made("aa", "apgd-ce/1", "n", "1110"), made("aa", "apgd-ce/1", "m", "0010")},
			nil},
		"both": {[]result.Cell{made("aa", "pgd/1", "m", "1110"), made("aa", "pgd/1", "n", "0010"),
			made("step", "fgsm/1", "m", "0010"), made("step", "fgsm/1", "n", "0000")},
			[]string{"transfer-wins", "one-step-wins"}},
	} {
		told := 0
		Between(c.cells, func(*result.Cell, result.Warning) { told++ })
		var got []string
		for _, w := range c.cells[0].Warnings {
			got = append(got, w.ID)
		}
		if !slices.Equal(got, c.want) || told != len(c.want) || !slices.Equal(c.cells[0].Masking, c.want) {
			t.Errorf("%s: %v, want %v; %d told, %v", name, got, c.want, told, c.cells[0].Masking)
		}
	}
	for name, change := range map[string]func(c *result.Cell){
		"suite": func(c *result.Cell) { c.Suite = "t" }, "model": func(c *result.Cell) { c.Model = "n" },
		"epsilon": func(c *result.Cell) { c.Epsilon = 0.2 }, "norm": func(c *result.Cell) { c.Norm = new("l2") },
		"error": func(c *result.Cell) { c.Error = "e" }, "mode": func(c *result.Cell) { c.Mode = result.Oblivious },
	} {
		cells := []result.Cell{many, made("step", "fgsm/1", "", "0010000000")}
		change(&cells[1])
		if Between(cells, func(*result.Cell, result.Warning) {}); cells[0].Warnings != nil {
			t.Errorf("another %s: %+v", name, cells[0].Warnings)
		}
	}
}

// Square's success counts from two images and more than two of a thousand, after another attack.
func TestSquareWins(t *testing.T) {
	step := func(attack string, robust float64) result.Step { return result.Step{Attack: attack, Robust: robust} }
	for _, c := range []struct {
		steps []result.Step
		n     int
		want  []int
	}{
		{[]result.Step{step("square", 0.1)}, 100, nil},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.48)}, 100, []int{2}},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.49)}, 100, nil},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.4985)}, 10000, nil},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.4975)}, 10000, []int{25}},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.3), step("fab", 0.2), step("square", 0.1)}, 10,
			[]int{2, 0}[:1]},
	} {
		if got := SquareWins(c.steps, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%v of %d images: %v, want %v", c.steps, c.n, got, c.want)
		}
	}
}

// Images made without knowing a control say nothing about its gradient.
func TestUnaware(t *testing.T) {
	for mode, want := range map[string]int{result.Oblivious: 0, result.Transfer: 0, result.WhiteboxThrough: 1} {
		cells := make([]result.Cell, 2)
		for i, recipe := range []string{"pgd/1", "fgsm/1"} {
			cells[i] = result.Cell{ID: cell.Of("s", "m", "loop", recipe, 0.1).In("d", mode), Norm: new("linf"),
				Steps:  []result.Step{{Attacked: 4, Backward: []int64{40, 4}[i]}},
				Recipe: recipe, N: 4, Verdicts: []string{"1111", "0000"}[i]}
		}
		if Between(cells, func(*result.Cell, result.Warning) {}); len(cells[0].Warnings) != want {
			t.Errorf("%s: %+v", mode, cells[0].Warnings)
		}
	}
}

// wavy answers two logits apart by w·x, of which the gradient is a multiple.
type wavy struct {
	weights  []float32
	multiple float32
}

func (o wavy) Shape() attacks.Shape { return attacks.Shape{C: 1, H: 1, W: len(o.weights)} }
func (o wavy) Classes() int         { return 2 }

func (o wavy) Logits(_ context.Context, x, out []float32) error {
	out[0], out[1] = 0, 0
	for i, w := range o.weights {
		out[1] += w * x[i]
	}
	return nil
}

func (o wavy) Gradient(ctx context.Context, x []float32, _ attacks.Loss, _, _ int, e *attacks.Evaluation) error {
	e.Gradient = make([]float32, len(x))
	for i, w := range o.weights {
		e.Gradient[i] = w * o.multiple
	}
	return o.Logits(ctx, x, e.Logits)
}

// The margin of a linear network changes as its gradient says, also where pixels end at 0 or 1.
func TestSlope(t *testing.T) {
	for multiple, want := range map[float32]float64{1: 1, 4: 0.25, -1: -1, 0: 1, float32(math.Inf(1)): 1} {
		o := wavy{[]float32{2, -1, 0.5, 0}, multiple}
		im := attacks.Image{Pixels: []float32{0.4, 1, 0, 0.3}}
		if got := must.Get(Slope(t.Context(), o, im, 0.25))(t); math.Abs(got-want) > 1e-6 {
			t.Errorf("gradient times %v: %v, want %v", multiple, got, want)
		}
	}
}
