package control

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// cloud draws n states of dim values whose variance falls off as a power, and
// their exact covariance eigenvalues.
func cloud(n, dim int, power float64) ([][]float32, []float64) {
	r := rand.New(rand.NewPCG(7, uint64(dim)))
	var basis mat.QR
	raw := mat.NewDense(dim, dim, nil)
	for i := range raw.RawMatrix().Data {
		raw.RawMatrix().Data[i] = r.NormFloat64()
	}
	basis.Factorize(raw)
	var q mat.Dense
	basis.QTo(&q)
	rows := make([][]float32, n)
	coords := make([]float64, dim)
	full := mat.NewDense(n, dim, nil)
	for i := range rows {
		for j := range coords {
			coords[j] = r.NormFloat64() * math.Pow(float64(j+1), -power)
		}
		var x mat.VecDense
		x.MulVec(&q, mat.NewVecDense(dim, coords))
		rows[i] = make([]float32, dim)
		for j := range rows[i] {
			rows[i][j] = float32(x.AtVec(j) + 3)
			full.Set(i, j, float64(rows[i][j]))
		}
	}
	mean := make([]float64, dim)
	for j := range dim {
		for i := range n {
			mean[j] += full.At(i, j) / float64(n)
		}
		for i := range n {
			full.Set(i, j, full.At(i, j)-mean[j])
		}
	}
	var cov mat.Dense
	cov.Mul(full.T(), full)
	cov.Scale(1/float64(n), &cov)
	values, _, err := exactEigen(&cov)
	if err != nil {
		panic(err)
	}
	return rows, values
}

func stream(rows [][]float32) States {
	return func(ctx context.Context, yield func([]float32) error) error {
		for _, r := range rows {
			if err := yield(r); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}

// All three ways to the eigenvectors agree with the exact decomposition: rank,
// share of the variance, and what the projection leaves of the states.
func TestFitPCA(t *testing.T) {
	rows, values := cloud(900, 600, 0.9)
	total := 0.0
	for _, v := range values {
		total += v
	}
	wantRank, kept := 0, 0.0
	for ; kept < 0.95*total; wantRank++ {
		kept += values[wantRank]
	}
	check := func(name string, s *Subspace, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Rank != wantRank || math.Abs(s.Variance-kept/total) > 1e-6 {
			t.Errorf("%s: rank %d with %.7f of the variance, want %d with %.7f", name, s.Rank, s.Variance, wantRank, kept/total)
		}
		// The mean squared residual is the variance left out.
		left := 0.0
		for _, x := range rows {
			code := make([]float64, s.Rank)
			norm := 0.0
			for i, v := range x {
				d := float64(v) - float64(s.Mean[i])
				norm += d * d
				for k := range code {
					code[k] += d * float64(s.Components[i*s.Rank+k])
				}
			}
			for _, v := range code {
				norm -= v * v
			}
			left += norm / float64(len(rows))
		}
		if want := total - kept; math.Abs(left-want) > 1e-4*total {
			t.Errorf("%s: leaves a variance of %g, want %g", name, left, want)
		}
	}
	ctx := context.Background()
	s, err := FitPCA(ctx, 600, stream(rows), Target{Variance: 0.95}) // block Krylov on the covariance
	check("krylov", s, err)

	m, err := newMoments(ctx, 600, stream(rows), false) // block Krylov on streamed states
	if err != nil {
		t.Fatal(err)
	}
	values2, vectors, err := blockKrylov(ctx, 600, m.trace, Target{Variance: 0.95}, func(ctx context.Context, b *mat.Dense) (*mat.Dense, error) {
		return m.applyStreamed(ctx, stream(rows), b)
	})
	if err != nil {
		t.Fatal(err)
	}
	for r := range wantRank {
		if math.Abs(values2[r]-values[r]) > 1e-6*values[0] {
			t.Fatalf("streamed: eigenvalue %d is %g, want %g", r, values2[r], values[r])
		}
	}
	var gram mat.Dense
	gram.Mul(vectors, vectors.T())
	for i := range wantRank {
		for j := range wantRank {
			want := 0.0
			if i == j {
				want = 1
			}
			if math.Abs(gram.At(i, j)-want) > 1e-8 {
				t.Fatalf("streamed: components %d and %d have product %g", i, j, gram.At(i, j))
			}
		}
	}
}

func TestFitPCARank(t *testing.T) {
	rows, _ := cloud(50, 20, 1)
	s, err := FitPCA(context.Background(), 20, stream(rows), Target{Rank: 3})
	if err != nil || s.Rank != 3 {
		t.Fatalf("rank %v, %v; want 3", s, err)
	}
	if _, err := FitPCA(context.Background(), 20, stream(rows), Target{Rank: 21}); err == nil {
		t.Error("a rank above the dimension is no error")
	}
	if _, err := FitPCA(context.Background(), 20, stream(rows[:1]), Target{Rank: 1}); err == nil {
		t.Error("one state is no error")
	}
	bad := [][]float32{rows[0], append([]float32{float32(math.NaN())}, rows[1][1:]...)}
	if _, err := FitPCA(context.Background(), 20, stream(bad), Target{Rank: 1}); err == nil {
		t.Error("NaN is no error")
	}
}

// States that vary in few directions end with those: rounding is no component.
func TestFitPCAFewDirections(t *testing.T) {
	flat := make([][]float32, 40)
	r := rand.New(rand.NewPCG(8, 8))
	for i := range flat {
		flat[i] = make([]float32, 700)
		for j := range 9 {
			flat[i][j] = r.Float32()
		}
	}
	for _, variance := range []float64{0.9, 1} {
		s, err := FitPCA(context.Background(), 700, stream(flat), Target{Variance: variance})
		if err != nil || s.Rank > 9 || s.Variance < variance-1e-9 {
			t.Errorf("variance %v: %+v, %v; want at most 9 components", variance, s, err)
		}
	}
	if _, err := FitPCA(context.Background(), 700, stream(flat), Target{Rank: 40}); err == nil {
		t.Error("as many components as states is no error")
	}
}

func TestCache(t *testing.T) {
	c := &Cache{Dir: filepath.Join(t.TempDir(), "fits")}
	s := &Subspace{Dim: 2, Rank: 1, Mean: []float32{1, 2}, Components: []float32{0.6, 0.8}, Variance: 0.9, Samples: 7}
	if _, ok := c.Load("k", 2); ok {
		t.Error("an empty cache holds a fit")
	}
	if err := c.Store("k", s); err != nil {
		t.Fatal(err)
	}
	if got, ok := c.Load("k", 2); !ok || got.Components[1] != 0.8 || got.Samples != 7 {
		t.Errorf("loaded %+v, %v", got, ok)
	}
	if _, ok := c.Load("k", 3); ok {
		t.Error("a fit of another dimension was taken")
	}
	if err := os.WriteFile(c.path("k"), []byte("broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Load("k", 2); ok {
		t.Error("a broken file was taken")
	}
}
