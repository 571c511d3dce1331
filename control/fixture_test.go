package control

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"selfheal/control/pca"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// chain is a linear system x_{t+1} = A_t x_t as a classifier, and the same system in float64 for the independent
// implementation below.
type chain struct {
	net *Network
	cut *Chain
	a   []*mat.Dense
}

// dims are the sizes of x_0 … x_T.
func newChain(t *testing.T, pool *ort.Pool, dims ...int) *chain {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	b := &onnx.Builder{G: onnx.NewGraph("chain")}
	x := b.OpWith("Flatten", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 1, 1, int64(dims[0])}))
	c := &chain{}
	var at []string
	for i := 1; i < len(dims); i++ {
		w := weights(r, 1/math.Sqrt(float64(dims[i-1])), int64(dims[i]), int64(dims[i-1]))
		a := mat.NewDense(dims[i], dims[i-1], nil)
		for k, v := range w.Floats {
			a.RawMatrix().Data[k] = float64(v)
		}
		if i > 1 {
			at = append(at, x)
		}
		x = b.OpWith("Gemm", onnx.Attrs{"transB": 1}, x, b.Const(w))
		c.a = append(c.a, a)
	}
	b.Output("logits", x)
	c.net = open(t, pool, encoded(t, b), NetworkOptions{At: at})
	c.cut = must.Get(c.net.Cut())(t)
	return c
}

// weights draws a tensor of normal numbers.
func weights(r *rand.Rand, deviation float64, shape ...int64) *onnx.Tensor {
	w := onnx.FloatTensor(shape, make([]float32, onnx.Shape(shape).Items()))
	for i := range w.Floats {
		w.Floats[i] = float32(r.NormFloat64() * deviation)
	}
	return w
}

// encoded returns the file of a built graph.
func encoded(t *testing.T, b *onnx.Builder) []byte {
	t.Helper()
	return must.Get(must.Get(b.Done())(t).Encode())(t)
}

// open opens a network for a test.
func open(t *testing.T, pool *ort.Pool, model []byte, o NetworkOptions) *Network {
	t.Helper()
	n := must.Get(NewNetwork(pool, "net", model, o))(t)
	t.Cleanup(n.Close)
	return n
}

// loop closes a loop for a test.
func loop(t *testing.T, chain *Chain, s Solver, layers ...Layer) *Controller {
	t.Helper()
	c := must.Get(NewController(chain, "test", s, layers))(t)
	t.Cleanup(c.Close)
	return c
}

// linear is a random linear embedding and its float64 form.
type linear struct {
	mu *mat.VecDense
	p  *mat.Dense // V·Vᵀ
	g  *onnx.Graph
}

func newLinear(t *testing.T, c *chain, stage, rank int) *linear {
	t.Helper()
	return drawLinear(t, rand.New(rand.NewPCG(5, uint64(stage))), c.cut.StateShape(stage), rank, 1)
}

// drawLinear draws an embedding of some states, with a mean of the given standard deviation.
func drawLinear(t *testing.T, r *rand.Rand, state onnx.Shape, rank int, deviation float64) *linear {
	t.Helper()
	dim := int(state.Items())
	raw := mat.NewDense(dim, rank, nil)
	raw.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, raw)
	var qr mat.QR
	qr.Factorize(raw)
	var q mat.Dense // its first columns are orthonormal
	qr.QTo(&q)
	v := make([]float32, dim*rank)
	vd := mat.NewDense(dim, rank, nil)
	mean := make([]float32, dim)
	l := &linear{mu: mat.NewVecDense(dim, nil), p: &mat.Dense{}}
	for i := range dim {
		mean[i] = float32(deviation * r.NormFloat64())
		l.mu.SetVec(i, float64(mean[i]))
		for j := range rank {
			v[i*rank+j] = float32(q.At(i, j))
			vd.Set(i, j, float64(v[i*rank+j]))
		}
	}
	l.p.Mul(vd, vd.T())
	l.g = must.Get(LinearEmbedding(state, &pca.Subspace{Dim: dim, Rank: rank, Mean: mean, Components: v}))(t)
	return l
}

// linears returns embeddings of rank 3 at some stages.
func linears(t *testing.T, c *chain, places ...int) (map[int]*linear, []Layer) {
	t.Helper()
	layers, list := map[int]*linear{}, []Layer{}
	for _, at := range places {
		layers[at] = newLinear(t, c, at, 3)
		list = append(list, Layer{T: at, Embedding: layers[at].g})
	}
	return layers, list
}

func (l *linear) embed(z *mat.VecDense) *mat.VecDense {
	var d, e mat.VecDense
	d.SubVec(z, l.mu)
	e.MulVec(l.p, &d)
	e.AddVec(&e, l.mu)
	return &e
}

// reference runs the loop of the package's documentation on a linear system, in
// float64 and without any of the package's code.
func reference(c *chain, layers map[int]*linear, s Solver, image []float64) (logits *mat.VecDense, u []*mat.VecDense) {
	T := len(c.a)
	u = make([]*mat.VecDense, T)
	x := make([]*mat.VecDense, T+1)
	x[0] = mat.NewVecDense(len(image), image)
	z := func(t int) *mat.VecDense {
		v := mat.VecDenseCopyOf(x[t])
		if u[t] != nil {
			v.AddVec(v, u[t])
		}
		return v
	}
	forward := func() {
		for t := range T {
			x[t+1] = new(mat.VecDense)
			x[t+1].MulVec(c.a[t], z(t))
		}
	}
	// −(J_E − I)ᵀ(E(z) − z) for E(z) = μ + P(z − μ), P symmetric
	pull := func(l *linear, at *mat.VecDense) *mat.VecDense {
		var d, g mat.VecDense
		d.SubVec(l.embed(at), at)
		g.MulVec(l.p, &d)
		g.SubVec(&d, &g)
		return &g
	}
	for t := range T { // greedy
		if l := layers[t]; l != nil {
			u[t] = new(mat.VecDense)
			u[t].SubVec(l.embed(x[t]), x[t])
		}
		x[t+1] = new(mat.VecDense)
		x[t+1].MulVec(c.a[t], z(t))
	}
	inner := s.Inner
	if s.Method == PMP {
		inner = 1
	}
	if s.Method != Greedy {
		for range s.Outer {
			forward()
			p := mat.NewVecDense(c.a[T-1].RawMatrix().Rows, nil)
			for t := T - 1; t >= 0; t-- {
				gradH := func() *mat.VecDense { // ∇_x H at the present z
					var g mat.VecDense
					g.MulVec(c.a[t].T(), p)
					if l := layers[t]; l != nil {
						g.AddVec(&g, pull(l, z(t)))
					}
					return &g
				}
				if layers[t] != nil {
					v := mat.NewVecDense(u[t].Len(), nil)
					for range inner {
						g := gradH()
						v.ScaleVec(s.Momentum, v)
						v.AddVec(v, g)
						v.AddScaledVec(v, -s.Regularization, u[t])
						u[t].AddScaledVec(u[t], s.LearningRate, v)
					}
				}
				p = gradH()
			}
		}
		forward()
	}
	return x[T], u
}

func testPool(t *testing.T, batch int) *ort.Pool {
	t.Helper()
	testinput.Runtime(t)
	pool := ort.NewPool(2, batch)
	t.Cleanup(pool.Close)
	return pool
}

func randomImage(seed uint64, n int) ([]float32, []float64) {
	r := rand.New(rand.NewPCG(seed, 9))
	a, b := make([]float32, n), make([]float64, n)
	for i := range a {
		a[i] = r.Float32()
		b[i] = float64(a[i])
	}
	return a, b
}

// made returns the FLOPs of all runs of the controller's programs.
func (c *Controller) made() (made int64) {
	for _, s := range c.stages {
		made += s.passes.made()
	}
	return made
}

func (p *passes) made() (made int64) {
	for _, one := range p {
		if one.program != nil {
			made += one.program.Items() * one.flops
		}
	}
	return made
}
