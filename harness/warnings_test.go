package harness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// planted wraps a bundled network: in maps the image, out the logits. It returns the file.
func planted(t *testing.T, name string, in, out func(b *onnx.Builder, x string) string) string {
	t.Helper()
	net, _ := must.Get2(simplify.Load("../models/zoo/preact_robust.onnx", simplify.Options{}))(t)
	b := &onnx.Builder{G: onnx.NewGraph(name)}
	x := b.Input("x", net.Inputs[0].Shape)
	z := b.Inline(net, map[string]string{net.Inputs[0].Name: in(b, x)})[net.Outputs[0].Name]
	b.Output("planted_logits", out(b, z))
	must.Do(t, b.Err())
	path := filepath.Join(t.TempDir(), name+".onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	return path
}

// Each planted fault raises its warnings, and an honest network none.
func TestPlantedFaultsRaiseTheirWarnings(t *testing.T) {
	testinput.Runtime(t)
	same := unchanged
	scaled := func(factor float32) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string { return b.Op("Mul", x, b.Float(factor)) }
	}
	quantised := func(levels float32) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string {
			return b.Op("Div", b.Op("Floor", b.Op("Mul", x, b.Float(levels))), b.Float(levels))
		}
	}
	noisy := func(b *onnx.Builder, x string) string {
		return b.Op("Add", x, b.Op("Mul", b.Op("RandomNormalLike", x), b.Float(0.05)))
	}
	shuffled := func(b *onnx.Builder, x string) string { return b.Op("Sub", b.Float(1), b.Op("Mul", x, b.Float(30))) }
	softmax := func(b *onnx.Builder, x string) string { return b.OpWith("Softmax", onnx.Attrs{"axis": -1}, x) }
	for _, c := range []struct {
		name    string
		in, out func(b *onnx.Builder, x string) string
		want    []string
	}{
		{"honest", same, same, nil}, {"sharp", same, scaled(1e6), []string{result.WarnZeroGradient.ID}},
		{"faint", same, scaled(1e-30), []string{result.WarnZeroGradient.ID}},
		{"quantised", quantised(16), same, []string{result.WarnZeroGradient.ID, result.WarnStandsAtEpsilonOne.ID}},
		{"coarsely-quantised", quantised(6), same, []string{result.WarnZeroGradient.ID, result.WarnUnstableLoss.ID}},
		{"noisy", noisy, same, []string{result.WarnRandomized.ID}},
		{"wrong-input", shuffled, same, []string{result.WarnNearChance.ID}},
		{"softmax", same, softmax, []string{result.WarnProbabilities.ID}},
		{"probabilities", same, softmax, nil},
		{"probabilities-of-logits", same, same, []string{result.WarnNoProbabilities.ID}},
	} {
		t.Run(c.name, func(t *testing.T) {
			output := "logits"
			if strings.HasPrefix(c.name, "probabilities") {
				output = "probabilities"
			}
			f, _, _ := runFor(t, plan(t, faulty, 2, 64, "seed=1", "datasets.test.limit=24", "suites.s.attacks=[apgd]",
				"models.other={path: "+planted(t, c.name, c.in, c.out)+", output: "+output+"}"))
			var got, messages []string
			for _, cell := range f.Cells {
				for _, w := range cell.Warnings {
					got, messages = append(got, w.ID), append(messages, w.ID+": "+w.Message)
				}
			}
			if c.want == nil && got != nil {
				t.Errorf("warnings of an honest network: %s", strings.Join(messages, "\n"))
			}
			for _, w := range c.want {
				if !slices.Contains(got, w) {
					t.Errorf("no %s among\n%s", w, strings.Join(messages, "\n"))
				}
			}
		})
	}
}

// What a cell's own numbers tell raises its warning, and nothing else.
func TestWarningsFromNumbers(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, modes, 1, 4, "default_suites=[through]")
	bench := must.Get(openerOf(t, p.Config).prepare(p.Jobs[0]))(t)
	defer bench.close()
	net, some := bench.net, attacks.Recipe{Name: "some/1"}
	right := func(n int) []verdict { return slices.Repeat([]verdict{{Right: true}}, n) }
	wrong := func(n int) []verdict { return slices.Repeat([]verdict{{}}, n) }
	step := func(name string, robust float64) result.Step { return result.Step{Attack: name, Robust: robust} }
	saw := func(w ...watched) (c crafted) {
		for _, one := range w {
			c.each = append(c.each, attempt{Seen: one})
		}
		return c
	}
	for _, c := range []struct {
		want   string
		made   crafted
		recipe attacks.Recipe
		v      []verdict
	}{
		{"", saw(watched{Asked: true}), some, right(30)},
		{result.WarnNotFiniteGradient.ID, saw(watched{Asked: true, NotFinite: true}), some, right(30)},
		{result.WarnZeroGradient.ID, saw(watched{Asked: true}, watched{Asked: true, Zero: true}), some, right(30)},
		{result.WarnClaimRefuted.ID, crafted{refuted: 1}, some, right(30)},
		{result.WarnFewClasses.ID, crafted{}, attacks.Recipe{Name: "autoattack-standard-few/1",
			Fallback: "the model has only 2 classes"}, right(30)},
		{result.WarnSquareWins.ID, crafted{steps: []result.Step{step("apgd-ce", 0.5), step("square", 0.4)}}, some,
			right(30)},
		{"", crafted{steps: []result.Step{step("apgd-ce", 0.5), step("square", 0.5)}}, some, right(30)},
		{result.WarnNearChance.ID, crafted{}, attacks.Recipe{}, append(right(3), wrong(27)...)},
		{"", crafted{}, attacks.Recipe{}, append(right(25), wrong(5)...)},
		{"", crafted{}, some, append(right(3), wrong(27)...)}, // under attack that is the attack's merit
		{result.WarnProbabilities.ID, crafted{}, some, slices.Repeat([]verdict{{Right: true, Simplex: true}}, 30)},
	} {
		var got []string
		for _, w := range warnings(scoring{bench: bench, who: alone(net), recipe: c.recipe, made: &c.made},
			c.v) {
			got = append(got, w.ID)
			if w.Message == "" {
				t.Errorf("%s says nothing", w.ID)
			}
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%+v: warnings %v, want %v", c.made, got, want)
		}
	}
}

func TestSquareWins(t *testing.T) {
	steps := func(robust ...float64) (list []result.Step) {
		for i, r := range robust {
			list = append(list, result.Step{Attack: []string{"apgd-ce", "square", "fab"}[i], Robust: r})
		}
		return list
	}
	for _, c := range []struct {
		steps []result.Step
		n     int
		want  []int
	}{
		{steps(0.5, 0.5), 200, nil}, {steps(0.5, 0.495), 200, nil}, {steps(0.5, 0.49, 0.3), 200, []int{2}},
		{steps(0.5, 0.499), 2000, nil}, {steps(0.5, 0.495), 2000, []int{10}}, {steps(0.5)[:1], 10, nil},
	} {
		if got := squareWins(c.steps, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%+v of %d: %v, want %v", c.steps, c.n, got, c.want)
		}
	}
}
