package attacks_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/attacks/attacktest"
	"selfheal/internal/must"
)

// reference is what AutoAttack (fra31/auto-attack at a39220048, torch 1.13, on a
// CPU) answers on a small tanh network: testdata/reference.py wrote it.
type reference struct {
	Shape   [3]int
	Hidden  int
	Classes int
	W, B, V []float64
	Images  [][]float32
	Labels  []int
	APGD    []struct {
		Norm, Loss           string
		Steps, Image, Target int
		Large                bool
		Eps                  float64
		Start                []float32
		Evals                int
		Best, Adv            []float32
		Broken               bool
		Bestloss             float64
	}
	FAB []struct {
		Norm         string
		Targeted     bool
		Image, Steps int
		Adv          []float32
		Distance     float64
	}
	Square []struct {
		Norm           string
		Image, Queries int
		Eps            float64
		Draws          []float64
		Asked          int
		Best           []float32
	}
	Project []struct {
		Kind   string
		X, Y   []float32
		Eps, B float64
		Out    []float32
	}
	Losses []struct {
		Loss          string
		Z             []float32
		Label, Target int
		Value         float64
		Grad          []float64
	}
}

func load(t *testing.T) (*reference, *attacktest.MLP) {
	t.Helper()
	ref := new(reference)
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/reference.json"))(t), ref))
	shape := attacks.Shape{C: ref.Shape[0], H: ref.Shape[1], W: ref.Shape[2]}
	o := attacktest.NewMLP(shape, rows(ref.W, shape.Size()), ref.B, rows(ref.V, ref.Hidden),
		make([]float64, ref.Classes))
	return ref, o
}

func rows(flat []float64, width int) (m [][]float64) {
	for ; len(flat) > 0; flat = flat[width:] {
		m = append(m, flat[:width])
	}
	return m
}

// furthest is the largest difference between two vectors.
func furthest(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	return attacks.Linf.Distance(a, b)
}

func (r *reference) image(k int) attacks.Image {
	return attacks.Image{ID: k, Pixels: r.Images[k], Label: r.Labels[k]}
}

func norm(t *testing.T, name string) attacks.Norm {
	t.Helper()
	return must.Get(attacks.ParseNorm(name))(t)
}

func loss(t *testing.T, name string) attacks.Loss {
	t.Helper()
	i := slices.IndexFunc(attacks.Losses(), func(l attacks.Loss) bool { return l.String() == name })
	if i < 0 {
		t.Fatalf("there is no loss %q", name)
	}
	return attacks.Losses()[i]
}

func TestAPGDAgreesWithReference(t *testing.T) {
	ref, o := load(t)
	for _, c := range ref.APGD {
		loss := loss(t, c.Loss)
		a := attacks.APGD{Norm: norm(t, c.Norm), Epsilon: c.Eps, Loss: loss, Steps: c.Steps, LargeRadii: c.Large}
		best, adv, bestLoss, res, err := attacks.RunAPGD(a, o, ref.image(c.Image), c.Target, c.Start)
		if err != nil {
			t.Fatal(err)
		}
		off, offAdv := furthest(best, c.Best), furthest(adv, c.Adv)
		if res.Backward != c.Evals || (adv != nil) != c.Broken || off > 1e-4 || c.Broken && offAdv > 1e-4 ||
			math.Abs(bestLoss-c.Bestloss) > 1e-4*math.Abs(c.Bestloss) {
			t.Errorf("%s %s %d steps, large %v, image %d: loss %v want %v, %d gradients want %d, broken %v want %v; "+
				"best off by %.2g, last success by %.2g", c.Norm, c.Loss, c.Steps, c.Large, c.Image, bestLoss,
				c.Bestloss, res.Backward, c.Evals, adv != nil, c.Broken, off, offAdv)
		}
	}
}

func TestFABAgreesWithReference(t *testing.T) {
	ref, o := load(t)
	for _, c := range ref.FAB {
		a := attacks.FAB{Norm: norm(t, c.Norm), Epsilon: 10, Targeted: c.Targeted, Steps: c.Steps, Targets: 1}
		res := perturb(t, a, o, ref.image(c.Image), 0)
		if math.Abs(res.Distance-c.Distance) > 1e-4*c.Distance || furthest(res.Adversarial, c.Adv) > 1e-3 {
			t.Errorf("%s targeted %v image %d: distance %v, want %v; point off by %.2g", c.Norm, c.Targeted, c.Image,
				res.Distance, c.Distance, furthest(res.Adversarial, c.Adv))
		}
	}
}

// replay is a source whose Float64s are given.
type replay struct{ draws []float64 }

func (r *replay) Uint64() uint64 {
	u := r.draws[0]
	r.draws = r.draws[1:]
	return uint64(u * (1 << 53))
}

func TestSquareAgreesWithReference(t *testing.T) {
	ref, o := load(t)
	for _, c := range ref.Square {
		a := attacks.Square{Norm: norm(t, c.Norm), Epsilon: c.Eps, Queries: c.Queries}
		source := &replay{c.Draws}
		last, best, res, won, err := attacks.RunSquare(a, o, ref.image(c.Image), rand.New(source))
		if err != nil {
			t.Fatal(err)
		}
		if won {
			best = last
		}
		if res.Iterations+1 != c.Asked || len(source.draws) != 0 || furthest(best, c.Best) > 1e-5 {
			t.Errorf("%s image %d: %d queries, want %d; %d draws left; best off by %.2g", c.Norm, c.Image,
				res.Iterations+1, c.Asked, len(source.draws), furthest(best, c.Best))
		}
	}
}

func TestProjectionsAgreeWithReference(t *testing.T) {
	ref, _ := load(t)
	for k, c := range ref.Project {
		var got []float32
		if c.Kind == "l1ball" {
			got = attacks.ProjectL1(c.X, c.Y, c.Eps)
		} else {
			got = attacks.ProjectPlane(norm(t, c.Kind), c.X, c.Y, c.B)
		}
		if d := furthest(got, c.Out); d > 1e-5 {
			t.Errorf("%d %s: off by %.2g", k, c.Kind, d)
		}
	}
}

func TestLossesAgreeWithReference(t *testing.T) {
	ref, _ := load(t)
	for k, c := range ref.Losses {
		loss := loss(t, c.Loss)
		if v := loss.Value(c.Z, c.Label, c.Target); math.Abs(v-c.Value) > 1e-5*(1+math.Abs(c.Value)) {
			t.Errorf("%d %s: %v, want %v", k, c.Loss, v, c.Value)
		}
		got := make([]float32, len(c.Z))
		loss.Cotangent(c.Z, c.Label, c.Target, got)
		for j, g := range c.Grad {
			if math.Abs(float64(got[j])-g) > 1e-5*(1+math.Abs(g)) {
				t.Errorf("%d %s: gradient %v, want %v", k, c.Loss, got, c.Grad)
				break
			}
		}
	}
}
