package attacks

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/vector"
)

// network is a small tanh network, and images on which other programs attack it.
type network struct {
	Shape   [3]int
	Hidden  int
	Classes int
	W, B, V []float64
	Images  [][]float32
	Labels  []int
}

// reference holds the answers of AutoAttack (fra31/auto-attack at a39220048, torch 1.13, on a CPU) on a small tanh
// network, as testdata/reference.py writes them.
type reference struct {
	network
	APGD []struct {
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

func load(t *testing.T) (*reference, *classifier) {
	t.Helper()
	ref := new(reference)
	return ref, loadFrom(t, "reference", ref, &ref.network)
}

// loadFrom reads a file of testdata, of which n is a part.
func loadFrom(t *testing.T, name string, file any, n *network) *classifier {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/"+name+".json"))(t), file))
	shape := Shape{C: n.Shape[0], H: n.Shape[1], W: n.Shape[2]}
	return newMLP(shape, rows(n.W, shape.Size()), n.B, rows(n.V, n.Hidden))
}

func rows(flat []float64, width int) (m [][]float64) {
	for ; len(flat) > 0; flat = flat[width:] {
		m = append(m, flat[:width])
	}
	return m
}

// furthest returns the largest difference between two vectors.
func furthest(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	return Linf.Distance(a, b)
}

func (n *network) image(k int) Image {
	return Image{ID: k, Pixels: n.Images[k], Label: n.Labels[k]}
}

func norm(t *testing.T, name string) Norm {
	t.Helper()
	return must.Get(ParseNorm(name))(t)
}

func TestAPGDAgreesWithReference(t *testing.T) {
	ref, o := load(t)
	for _, c := range ref.APGD {
		parameters := given{"steps": c.Steps, "large_radii": c.Large, "loss": c.Loss}
		a := component("apgd-t", norm(t, c.Norm), c.Eps, parameters)
		r := newAscent(a.(apgd), o, ref.image(c.Image), Options{})
		r.target = c.Target
		copy(r.cur, c.Start)
		must.Do(t, r.climb(t.Context()))
		off, offAdv := furthest(r.best, c.Best), furthest(r.adv, c.Adv)
		if r.res.Backward != c.Evals || (r.adv != nil) != c.Broken || off > 1e-4 || c.Broken && offAdv > 1e-4 ||
			math.Abs(r.bestLoss-c.Bestloss) > 1e-4*math.Abs(c.Bestloss) {
			t.Errorf("%s %s %d steps, large %v, image %d: loss %v want %v, %d gradients want %d, broken %v want %v; "+
				"best off by %.2g, last success by %.2g", c.Norm, c.Loss, c.Steps, c.Large, c.Image, r.bestLoss,
				c.Bestloss, r.res.Backward, c.Evals, r.adv != nil, c.Broken, off, offAdv)
		}
	}
}

func TestFABAgreesWithReference(t *testing.T) {
	ref, o := load(t)
	for _, c := range ref.FAB {
		a := component("fab-t", norm(t, c.Norm), 10, given{"steps": c.Steps, "targets": 1}).(fab)
		a.Targeted = c.Targeted
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

// searched makes one run of Square with the given random numbers and gives the point broken, else the best one.
func searched(t *testing.T, a Attack, o Oracle, im Image, draws rand.Source) (best []float32, s *search, won bool) {
	t.Helper()
	s = newSearch(a.(square), o, im, Options{})
	s.rng = rand.New(draws)
	won = must.Get(s.run(t.Context()))(t)
	if best = s.tried; s.bumps != nil && !won {
		best = make([]float32, len(im.Pixels))
		vector.AddScaled(im.Pixels, s.bumps.delta, 1, best)
	}
	return best, s, won
}

func TestSquareAgreesWithReference(t *testing.T) {
	ref, o := load(t)
	for _, c := range ref.Square {
		a, source := component("square", norm(t, c.Norm), c.Eps, given{"queries": c.Queries}), &replay{c.Draws}
		best, s, _ := searched(t, a, o, ref.image(c.Image), source)
		if s.res.Iterations+1 != c.Asked || len(source.draws) != 0 || furthest(best, c.Best) > 1e-5 {
			t.Errorf("%s image %d: %d queries, want %d; %d draws left; best off by %.2g", c.Norm, c.Image,
				s.res.Iterations+1, c.Asked, len(source.draws), furthest(best, c.Best))
		}
	}
}

func TestProjectionsAgreeWithReference(t *testing.T) {
	ref, _ := load(t)
	for k, c := range ref.Project {
		got := make([]float32, len(c.X))
		if c.Kind == "l1ball" {
			projectL1(c.X, c.Y, got, c.Eps)
		} else {
			got = projected(norm(t, c.Kind), c.X, c.Y, c.B)
		}
		if d := furthest(got, c.Out); d > 1e-5 {
			t.Errorf("%d %s: off by %.2g", k, c.Kind, d)
		}
	}
}

func TestLossesAgreeWithReference(t *testing.T) {
	ref, _ := load(t)
	for k, c := range ref.Losses {
		loss := lossNamed(c.Loss)
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
