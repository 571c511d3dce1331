package bounds

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// No point beats a bound, for networks with every operator that there is a rule for: those of package grad's goldens.
// An affine network takes every bound at the point that the bound names. A network has each norm and each method once,
// the next network others together; with SELFHEAL_TEST_LARGE it has all together.
func TestNoPointBeatsABound(t *testing.T) {
	testinput.Runtime(t)
	files := must.Get(filepath.Glob("../grad/gradtest/testdata/*.onnx"))(t)
	if len(files) < 100 {
		t.Fatalf("only %d networks", len(files))
	}
	var mu sync.Mutex
	seen := map[string]int{}
	t.Run("networks", func(t *testing.T) {
		networks := map[string]*onnx.Graph{"split": onnxtest.Open(t, onnxtest.New(17, -1, 6, 3).
			Node("Split x → a b c axis=1; Sub c a → d; Relu b → e; Concat d e c → y axis=1").Bytes(-1, 6, 3))}
		for name, nodes := range map[string]string{
			"silu":       "Sigmoid x → s; Mul s x → y",
			"hard swish": "HardSigmoid x → s alpha=0.16666667 beta=0.5; Mul x s → y",
			"twice read": "Sigmoid x → s; Mul x s → p; Sub p s → y",
			"squared":    "Mul x x → y",
			"excited":    "GlobalAveragePool x → m; Sigmoid m → s; Relu x → r; Mul s r → p; Add p m → y",
			"products":   "Tanh x → s; Sub s x → d; Mul d x → p; Mul p s → y",
			"repeated":   "GlobalAveragePool x → m; Add x m → y",
		} {
			networks[name] = onnxtest.Open(t, onnxtest.New(17, -1, 3, 2, 2).Node(nodes).Bytes(-1, 3, 2, 2))
		}
		networks["projected"] = projected(t)
		for _, file := range files {
			g, _, err := simplify.Load(file, simplify.Options{})
			if err == nil && Check(g) == nil && len(g.Inputs) == 1 {
				networks[filepath.Base(file)] = g
			}
		}
		for turn, name := range slices.Sorted(maps.Keys(networks)) {
			g := networks[name]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := ready(t, g, Unit)
				run := asked(t, g)
				rng := rand.New(rand.NewPCG(1, 2))
				x := make([]float32, n.size(n.input))
				for i := range x {
					x[i] = min(max(float32(rng.NormFloat64()), -2), 2)
				}
				rows := identity(n.Classes())[:2*min(n.Classes(), 40)*n.Classes()]
				for i, norm := range []float64{inf, 2, 1} {
					region := Ball(x, norm, 0.1*float64(1+rng.IntN(8)), -2, 2)
					y := run(drawn(region, rng, 300))[0].Data
					methods := []Method{IBP, CROWN, AlphaCROWN}
					if !testinput.Large() {
						methods = methods[(turn+i)%3:][:1]
					}
					for _, method := range methods {
						proven := must.Get(n.Rows(context.Background(), method, region, rows))(t)
						if err := beaten(y, rows, proven); err != nil {
							t.Fatalf("l%g, %s: %v", norm, method, err)
						}
						if len(n.stages) == 0 && method != AlphaCROWN {
							tight(t, n, run, region, rows, proven)
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for _, s := range n.path {
					seen[s.Op]++
				}
			})
		}
	})
	known := slices.Concat(slices.Collect(maps.Keys(affineOperators)), slices.Collect(maps.Keys(activations)), maxPools)
	for _, op := range known {
		if seen[op] == 0 {
			t.Errorf("no network has the operator %s", op)
		}
	}
	for op := range seen {
		if !slices.Contains(known, op) && !onnx.TraitsOf(op).Relabels {
			t.Errorf("%s has no rule", op)
		}
	}
}

// A product's interval ends four unit roundoffs beyond its corners: what float32 makes of them lies well inside.
func TestIntervalOfAProduct(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	p := &product{first: []int32{0}, second: []int32{1}, repeats: 1}
	s := &stage{target: target{segment: &segment{atZero: make([]float32, 2)}}}
	for range 1000 {
		var lower, upper [2]float32
		for i := range 2 {
			a, b := float32(rng.NormFloat64()), float32(rng.NormFloat64())
			lower[i], upper[i] = min(a, b), max(a, b)
		}
		r := &relaxation{lower: lower[:], upper: upper[:], wrong: make([]float32, 2), out: Box([]float64{0},
			[]float64{0})}
		p.relax(s, r, newSums(1, Unit), Unit)
		var corners []float64
		for _, a := range []float32{lower[0], upper[0]} {
			corners = append(corners, float64(a)*float64(lower[1]), float64(a)*float64(upper[1]))
		}
		least, most := slices.Min(corners), slices.Max(corners)
		reach := Unit * max(-least, most)
		below, above := least-float64(r.out.Lower[0]), float64(r.out.Upper[0])-most
		if min(below, above) < 4*reach || max(below, above) > 8*reach {
			t.Fatalf("%v to %v: %g below and %g above the corners, of unit roundoffs %g", lower, upper, below, above,
				reach)
		}
	}
}

// Among the networks of package grad's goldens an operator is refused only if it is not listed, or listed with a limit,
// but where images are not in front, or what it is computed with is no constant.
func TestListedOperatorsHaveBounds(t *testing.T) {
	listed, refused := Operators(), 0
	for _, path := range must.Get(filepath.Glob("../grad/gradtest/testdata/*.onnx"))(t) {
		g, _, err := simplify.Load(path, simplify.Options{})
		if err != nil {
			continue
		}
		var unsupported *onnx.UnsupportedError
		if err := Check(g); errors.As(err, &unsupported) {
			refused++
			_, active := g.Reached(g.Inputs[0].Name)
			for _, n := range unsupported.Nodes {
				computed := slices.ContainsFunc(n.Inputs, func(in string) bool {
					return !active[in] && g.Consts[in] == nil
				})
				if slices.Contains(listed, n.Op) && g.Shapes[n.Outputs[0]][0] == onnx.Batch && !computed {
					t.Errorf("%s: %s is listed, and refused", filepath.Base(path), n.Op)
				}
			}
		}
	}
	for _, op := range []string{"HardSwish", "Gelu", "Relu", "Conv (by constants)"} {
		if !slices.Contains(listed, op) {
			t.Errorf("%s is not listed", op)
		}
	}
	if refused < 50 {
		t.Errorf("only %d networks are refused", refused)
	}
}

// projected makes a projection of many values, whose products' errors are charged where they arise, and a ReLU.
func projected(t *testing.T) *onnx.Graph {
	t.Helper()
	const values, rank = manyTerms + 44, 5
	rng := rand.New(rand.NewPCG(11, 12))
	drawn := func(shape ...int64) []float32 {
		v := make([]float32, onnx.Shape(shape).Items())
		for i := range v {
			v[i] = float32(rng.NormFloat64() / 16)
		}
		return v
	}
	b := &onnx.Builder{G: onnx.NewGraph("projected")}
	matrix := func(rows, columns int64) string {
		return b.Const(onnx.FloatTensor(onnx.Shape{rows, columns}, drawn(rows, columns)))
	}
	x := b.Input("x", onnx.Shape{onnx.Batch, values})
	z := b.Op("MatMul", b.Op("MatMul", x, matrix(values, rank)), matrix(rank, values))
	z = b.Op("MatMul", b.Op("Add", z, b.Const(onnx.FloatVector(drawn(values)))), matrix(values, 7))
	b.Output("y", b.Op("Relu", b.Op("Add", z, b.Const(onnx.FloatVector(drawn(7))))))
	must.Do(t, b.Err())
	if n := must.Get(prepare(b.G, Unit))(t); len(n.stages) != 4 {
		t.Errorf("%d stages, not a ReLU and three products", len(n.stages))
	}
	return b.G
}

// tight checks that an affine network takes its bounds, up to slack.
func tight(t *testing.T, n *Network, run func(points []float32) []ort.Tensor, region Region, rows []float64,
	proven []Bound) {
	t.Helper()
	k := n.Classes()
	for r, b := range proven {
		row := rows[r*k : (r+1)*k]
		own := &slopes{at: make([]float32, len(region.Lower))}
		p, seed := &proof{Network: n, region: region}, make([]float32, k)
		for j, v := range row {
			seed[j] = float32(v)
		}
		must.Get(p.run(context.Background(), n.free, n.output.segment, make([]float32, k), seed, own))(t)
		value := products(row, k, run(own.at)[0].Data)[0]
		if math.Abs(value-b.Value) > b.Slack+1e-5*(1+math.Abs(value)) {
			t.Errorf("row %d takes %.7g, its bound is %.7g less %.2g", r, value, b.Value, b.Slack)
		}
	}
}

// Points in balls of each norm beat no bound of the networks of the goldens by any method: 84,000 of them, with
// SELFHEAL_TEST_LARGE a million.
func TestManyPoints(t *testing.T) {
	testinput.Runtime(t)
	files := must.Get(filepath.Glob("testdata/*.onnx"))(t)
	if real := os.Getenv("SELFHEAL_REAL"); testinput.Large() && real != "" {
		files = append(files, filepath.Join(real, "resnet_2b.onnx"))
	}
	balls := 12 // each method in each norm
	if testinput.Large() {
		balls = 1000/len(files) + 1
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			n := prepared(t, file, simplify.Options{}, Unit)
			run, rng, rows := asked(t, n.graph), rand.New(rand.NewPCG(3, 4)), identity(n.Classes())
			methods := []Method{IBP, CROWN, CROWN, AlphaCROWN}
			for ball := range balls {
				norm := []float64{1, 2, inf}[ball%3]
				region := Ball(uniform(rng, n.size(n.input)), norm, math.Exp(6*rng.Float64()-6), 0, 1)
				proven := must.Get(n.Rows(context.Background(), methods[ball%len(methods)], region, rows))(t)
				if err := beaten(run(drawn(region, rng, 1000))[0].Data, rows, proven); err != nil {
					t.Fatalf("ball %d, l%g: %v", ball, norm, err)
				}
			}
		})
	}
}
