package gradtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/grad"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// Golden is one model with PyTorch's results for it. Values are flat, item by item.
type Golden struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"` // of x, batch first
	Kink  bool    `json:"kink"`  // x lies on a kink or tie, where the gradient is a convention

	X  []float32 `json:"x"`
	Y  []float32 `json:"y"`
	DX []float32 `json:"dx"` // the gradient of Σ w·y, or of the sum of the losses
	W  []float32 `json:"w"`  // the cotangent of y; for a head: empty
	V  []float32 `json:"v"`  // a direction, away from kinks; at them: empty
	H  []float32 `json:"h"`  // the Hessian-vector product ∂⟨v, dx⟩/∂x, by double backward

	Head    string    `json:"head"` // a name in grad.Heads, or ""
	Labels  []int     `json:"labels"`
	Targets []int     `json:"targets"`
	Loss    []float32 `json:"loss"` // one for each item

	// Parameters are gradients by weights too, as sums over the batch: x first, then the parameters.
	Parameters []struct {
		Name     string    `json:"name"` // "" for x
		Gradient []float32 `json:"gradient"`
		V        []float32 `json:"v"` // a direction
		H        []float32 `json:"h"` // ∂(Σ ⟨v, gradient⟩)/∂ this, over x and all parameters
	} `json:"parameters"`

	Net  *onnx.Graph `json:"-"`
	File []byte      `json:"-"` // the model, written from Python
}

// Items returns the number of images in the golden's batch.
func (g *Golden) Items() int { return int(g.Shape[0]) }

// Item returns the i-th image's part of one of the golden's vectors.
func (g *Golden) Item(v []float32, i int) []float32 {
	n := len(v) / g.Items()
	return v[i*n : (i+1)*n]
}

// load reads every golden in a folder, sorted by name.
func load(dir string) ([]*Golden, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no goldens in " + dir)
	}
	var all []*Golden
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		g := &Golden{}
		if err := json.Unmarshal(data, g); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		as := simplify.Options{Layout: simplify.ChannelsFirst} // unchanged: none takes images
		if g.Net, g.File, err = simplify.Load(strings.TrimSuffix(f, ".json")+".onnx", as); err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// distance returns ‖got − want‖ over ‖want‖, or over 1e-2 if want is shorter; NaN if a value is NaN.
func distance(got, want []float32) float64 {
	d, norm := 0.0, 0.0
	for i, w := range want {
		e := float64(got[i]) - float64(w)
		d, norm = d+e*e, norm+float64(w)*float64(w)
	}
	return math.Sqrt(d) / max(math.Sqrt(norm), 1e-2)
}

var goldens []*Golden

func TestMain(m *testing.M) {
	var err error
	if goldens, err = load("testdata"); err != nil {
		panic(err)
	}
	testinput.RunMain(m)
}

// each runs a test for every golden.
func each(t *testing.T, test func(t *testing.T, g *Golden)) {
	for _, g := range goldens {
		t.Run(g.Name, func(t *testing.T) { test(t, g) })
	}
}

// program is a compiled graph whose ports have known sizes.
type program struct {
	pool *ort.Pool
	prog *ort.Program
	out  []int
}

// alone runs graphs on one item, with one program for all tests of a graph.
var (
	alone    = ort.NewPool(1, 1)
	programs = map[string]program{}
)

func compile(t *testing.T, pool *ort.Pool, g *onnx.Graph) program {
	t.Helper()
	data := must.Get(g.Encode())(t)
	if p, ok := programs[string(data)]; ok && pool == alone {
		return p
	}
	p := program{pool: pool, prog: must.Get(pool.Compile(g.Name, data))(t)}
	for _, o := range g.Outputs {
		p.out = append(p.out, int(o.Shape.Items()))
	}
	if pool == alone {
		programs[string(data)] = p
	} else {
		t.Cleanup(p.prog.Close)
	}
	return p
}

// run evaluates one item.
func (p program) run(in ...[]float32) ([][]float32, error) {
	out := make([][]float32, len(p.out))
	for i, n := range p.out {
		out[i] = make([]float32, n)
	}
	return out, p.pool.Run(context.Background(), p.prog, in, out)
}

func (p program) mustRun(t *testing.T, in ...[]float32) [][]float32 {
	t.Helper()
	return must.Get(p.run(in...))(t)
}

// newPool returns a pool for batches. All tests share one pool for single items.
func newPool(t *testing.T, batch int) *ort.Pool {
	if batch == 1 {
		return alone
	}
	pool := ort.NewPool(1, batch)
	t.Cleanup(pool.Close)
	return pool
}

// derived returns the golden's gradient graph, for one item of the golden.
func derived(t *testing.T, g *Golden) *onnx.Graph {
	t.Helper()
	var d *onnx.Graph
	var err error
	if g.Head != "" {
		d, err = grad.Loss(g.Net, g.Head)
	} else {
		d, err = grad.VJP(g.Net)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// inputs returns the derived graph's inputs besides x for item i.
func inputs(g *Golden, i int) [][]float32 {
	if g.Head == "" {
		return [][]float32{g.Item(g.W, i)}
	}
	oneHot := func(class int) []float32 {
		v := make([]float32, g.Net.Outputs[0].Shape.Items())
		v[class] = 1
		return v
	}
	in := [][]float32{oneHot(g.Labels[i])}
	if grad.Heads[g.Head].Targeted {
		in = append(in, oneHot(g.Targets[i]))
	}
	return in
}

// dot returns Σ a·b, summed in float64.
func dot(a, b []float32) float64 {
	s := 0.0
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return s
}

// worst returns the largest |got − want|, relative to want's largest value or 1.
func worst(got, want []float32) float64 {
	scale, e := 1.0, 0.0
	for _, v := range want {
		scale = max(scale, math.Abs(float64(v)))
	}
	for i, v := range want {
		if d := math.Abs(float64(got[i])-float64(v)) / scale; !(d <= e) {
			e = d
		}
	}
	return e
}

// Outputs, losses and gradients agree with PyTorch's.
func TestGoldens(t *testing.T) {
	const tolerance = 3e-6
	pool := newPool(t, 1)
	each(t, func(t *testing.T, g *Golden) {
		p := compile(t, pool, derived(t, g))
		for i := range g.Items() {
			out := p.mustRun(t, append([][]float32{g.Item(g.X, i)}, inputs(g, i)...)...)
			want := [][]float32{g.Item(g.Y, i)}
			if g.Head != "" {
				want = append(want, g.Item(g.Loss, i))
			}
			want = append(want, g.Item(g.DX, i))
			for k, w := range want {
				if e := worst(out[k], w); !(e <= tolerance) {
					t.Errorf("item %d, output %d of %d: off by %.2g\n got %v\nwant %v", i, k, len(want), e, out[k], w)
				}
			}
		}
	})
}

// Gradients agree with central differences of the outputs.
func TestDirectional(t *testing.T) {
	pool := newPool(t, 1)
	each(t, func(t *testing.T, g *Golden) {
		if g.Kink {
			t.Skip("at a kink only one-sided derivatives exist")
		}
		p := compile(t, pool, derived(t, g))
		r := gradtest.Rand(g.Name, "directional")
		for i := range g.Items() {
			rest := inputs(g, i)
			if g.Head == "" { // another cotangent than the golden's
				rest = [][]float32{gradtest.Vector(r, len(rest[0]))}
			}
			x := g.Item(g.X, i)
			out := p.mustRun(t, append([][]float32{x}, rest...)...)
			f := func(in [][]float32) (float64, error) {
				out, err := p.run(append([][]float32{in[0]}, rest...)...)
				if err != nil {
					return 0, err
				}
				if g.Head != "" {
					return float64(out[1][0]), nil
				}
				return dot(out[0], rest[0]), nil
			}
			e := must.Get(gradtest.Directional(f, [][]float32{x}, [][]float32{out[len(out)-1]}, r, 3))(t)
			if !(e <= gradtest.Tolerance) {
				t.Errorf("item %d: the difference quotient is off by %.2g of the gradient's norm", i, e)
			}
		}
	})
}

// sameInBatch reports the first item whose bits differ in a batch of all items.
func sameInBatch(t *testing.T, alone, together *ort.Pool, g *onnx.Graph, items [][][]float32) {
	t.Helper()
	one, all := compile(t, alone, g), compile(t, together, g)
	got, errs := make([][][]float32, len(items)), make([]error, len(items))
	var wg sync.WaitGroup
	for range items {
		together.Enter()
	}
	for i := range items {
		wg.Go(func() {
			defer together.Leave()
			got[i], errs[i] = all.run(items[i]...)
		})
	}
	wg.Wait()
	must.Do(t, errors.Join(errs...))
	for i, in := range items {
		for k, want := range one.mustRun(t, in...) {
			for j, v := range want {
				if math.Float32bits(v) != math.Float32bits(got[i][k][j]) {
					t.Fatalf("item %d, output %d, value %d: %v alone, %v in a batch", i, k, j, v, got[i][k][j])
				}
			}
		}
	}
}

// An item's results are the same bits alone and in a batch of 5.
func TestBatchIndependence(t *testing.T) {
	const items = 5
	alone, together := newPool(t, 1), newPool(t, items)
	each(t, func(t *testing.T, g *Golden) {
		r := gradtest.Rand(g.Name, "batch")
		in := make([][][]float32, items)
		for i := range in {
			from := i % g.Items()
			x := slices.Clone(g.Item(g.X, from))
			for j := range x {
				x[j] *= 1 + 0.01*r.Float32()
			}
			in[i] = append([][]float32{x}, inputs(g, from)...)
		}
		sameInBatch(t, alone, together, derived(t, g), in)
	})
}

// The simplified graph computes what the file computes, operator by operator: fused integer kernels saturate on
// processors without VNNI.
func TestSimplifiedModelEqualsFile(t *testing.T) {
	pool := newPool(t, 1)
	each(t, func(t *testing.T, g *Golden) {
		simple := compile(t, pool, g.Net)
		prog := must.Get(pool.Compile(g.Name, g.File, ort.Unoptimized()))(t)
		defer prog.Close()
		file := program{pool: pool, prog: prog, out: simple.out}
		for i := range g.Items() {
			x := g.Item(g.X, i)
			most := 1e-6
			if sampled(g) { // the file's own values lie up to 3e-6 from those in float64
				most = 3e-6
			}
			if e := worst(simple.mustRun(t, x)[0], file.mustRun(t, x)[0]); !(e <= most) {
				t.Errorf("item %d: off by %.2g", i, e)
			}
		}
	})
}
