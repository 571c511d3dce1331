package pca

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// spectrum draws n states of dim values around a mean: variances[j] along the j-th of
// random directions, and white noise on top.
func spectrum(n, dim int, variances []float64, white float64) [][]float32 {
	r := rand.New(rand.NewPCG(7, uint64(dim)))
	q := mat.NewDense(dim, len(variances), nil) // nearly orthonormal columns
	q.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() / math.Sqrt(float64(dim)) }, q)
	coordinates := mat.NewDense(n, len(variances), nil)
	for i := range n {
		for j, v := range variances {
			coordinates.Set(i, j, r.NormFloat64()*math.Sqrt(v))
		}
	}
	var x mat.Dense
	x.Mul(coordinates, q.T())
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = make([]float32, dim)
		for j := range rows[i] {
			rows[i][j] = float32(x.At(i, j) + 3 + white*r.NormFloat64())
		}
	}
	return rows
}

// power returns a spectrum that falls off as a power.
func power(count int, alpha float64) []float64 {
	v := make([]float64, count)
	for j := range v {
		v[j] = math.Pow(float64(j+1), -alpha)
	}
	return v
}

func stream(rows [][]float32) States {
	return func(ctx context.Context, yield func([]float32) error) error {
		for _, r := range rows {
			if err := yield(slices.Clone(r)); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}

// decomposition is gonum's singular value decomposition of centred states.
type decomposition struct {
	variances []float64  // descending
	vectors   *mat.Dense // one a column
	total     float64
	centred   *mat.Dense
}

func decompose(t *testing.T, rows [][]float32) *decomposition {
	t.Helper()
	n, dim := len(rows), len(rows[0])
	d := &decomposition{centred: mat.NewDense(n, dim, nil), vectors: new(mat.Dense)}
	for j := range dim {
		mean := 0.0
		for i := range n {
			mean += float64(rows[i][j]) / float64(n)
		}
		for i := range n {
			d.centred.Set(i, j, float64(rows[i][j])-mean)
		}
	}
	var svd mat.SVD
	if !svd.Factorize(d.centred, mat.SVDThin) {
		t.Fatal("no decomposition")
	}
	svd.VTo(d.vectors)
	for _, s := range svd.Values(nil) {
		d.variances = append(d.variances, s*s/float64(n))
		d.total += s * s / float64(n)
	}
	return d
}

// rank returns the exact rank for a target, and its fraction of the variance.
func (d *decomposition) rank(target Target) (int, float64) {
	return cutoff(d.variances, d.total, target, len(d.variances))
}

// kept measures the fraction of the variance that a subspace keeps, and how far its components are from orthonormal.
func (d *decomposition) kept(s *Subspace) (share, off float64) {
	v := mat.NewDense(s.Dim, s.Rank, nil)
	for i, c := range s.Components {
		v.Set(i/s.Rank, i%s.Rank, float64(c))
	}
	var codes, gram mat.Dense
	codes.Mul(d.centred, v)
	norm := mat.Norm(&codes, 2)
	gram.Mul(v.T(), v)
	for i := range s.Rank {
		for j := range s.Rank {
			want := 0.0
			if i == j {
				want = 1
			}
			off = max(off, math.Abs(gram.At(i, j)-want))
		}
	}
	n, _ := d.centred.Dims()
	return norm * norm / float64(n) / d.total, off
}

// angle returns the sine of the largest principal angle between the subspace and the exact one of the same rank.
func (d *decomposition) angle(s *Subspace) float64 {
	v := mat.NewDense(s.Dim, s.Rank, nil)
	for i, c := range s.Components {
		v.Set(i/s.Rank, i%s.Rank, float64(c))
	}
	exact := d.vectors.Slice(0, s.Dim, 0, s.Rank)
	var inner, left mat.Dense // (I − VVᵀ)·exact
	inner.Mul(v.T(), exact)
	left.Mul(v, &inner)
	left.Sub(exact, &left)
	return mat.Norm(&left, 2) // Frobenius, which bounds the largest
}

type fitter = func(ctx context.Context, dim int, states States, target Target, o Options) (*Subspace, error)

// Rank, fraction of the variance and subspace equal a singular value decomposition's, whether the covariance is
// factorised, held in memory or only multiplied.
func TestFit(t *testing.T) {
	testinput.Runtime(t)
	gap := append(slices.Repeat([]float64{1}, 20), slices.Repeat([]float64{0.25}, 20)...) // with ties
	for _, c := range []struct {
		name      string
		fit       fitter
		n, dim    int
		variances []float64
		white     float64
		target    Target
		// Bounds: components more than the best subspace has, variance lost with as many components, and the angle
		// where it is defined.
		more  int
		loses float64
		angle float64
	}{
		{"exact", Fit, 400, 300, power(300, 1.5), 0, Target{Variance: 0.95}, 0, 1e-6, 1e-4},
		{"exact, rank", Fit, 400, 300, power(300, 1.5), 0, Target{Rank: 7}, 0, 1e-6, 1e-4},
		{"exact, ties", Fit, 300, 200, gap, 0.01, Target{Rank: 30}, 0, 1e-5, 0},
		{"held", Fit, 400, 520, power(520, 1.8), 0, Target{Variance: 0.95}, 0, 1e-5, 1e-2},
		{"held, few states", Fit, 90, 520, power(520, 1.8), 0, Target{Rank: 40}, 0, 1e-5, 1e-2},
		{"held, ties", Fit, 300, 520, gap, 0.001, Target{Rank: 40}, 0, 1e-5, 1e-3},
		{"streamed, planted", Fit, 120, 4200, gap, 0.0005, Target{Rank: 40}, 0, 1e-3, 1e-3},
		{"streamed, few states", Fit, 60, 4200, power(100, 1.8), 0.001, Target{Variance: 0.999}, 0, 1e-3, 0},
		{"streamed, all of few states", Fit, 60, 4200, power(100, 1.8), 0.001, Target{Rank: 59}, 0, 1e-3, 1e-2},
		{"streamed, ties cut", streamed, 300, 300, gap, 0.001, Target{Rank: 30}, 0, 1e-3, 0},
		{"streamed, steep", streamed, 360, 300, power(300, 4), 0, Target{Rank: 40}, 0, 1e-2, 0.1},
		{"streamed, slow", streamed, 600, 300, power(300, 0.9), 0, Target{Variance: 0.95}, 10, 0.02, 0},
		{"streamed, rank", streamed, 360, 300, power(300, 1.2), 0, Target{Rank: 60}, 0, 0.01, 0},
		{"streamed, share", streamed, 360, 300, power(300, 1.5), 0, Target{Variance: 0.9}, 0, 1e-3, 1e-2},
		{"streamed, most", streamed, 600, 300, power(300, 0.5), 0, Target{Variance: 0.999}, 2, 0.05, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := spectrum(c.n, c.dim, c.variances, c.white)
			d := decompose(t, rows)
			s := must.Get(c.fit(context.Background(), c.dim, stream(rows), c.target, Options{Seed: 3, Workers: 2}))(t)
			want, share := d.rank(c.target)
			if s.Rank < want || s.Rank > want+c.more {
				t.Errorf("rank %d, want %d to %d", s.Rank, want, want+c.more)
			}
			kept, off := d.kept(s)
			t.Logf("rank %d of %d, keeps %.6f of the variance, best %.6f at rank %d, off %.1e, angle %.1e", s.Rank,
				c.dim, kept, share, want, off, d.angle(s))
			if math.Abs(s.Variance-kept) > 1e-5 {
				t.Errorf("it says that it keeps %.6f of the variance, and keeps %.6f", s.Variance, kept)
			}
			_, best := d.rank(Target{Rank: s.Rank})
			if lost := best - kept; lost > c.loses*(1-best)+1e-6 {
				t.Errorf("it keeps %.6f of the variance, the best subspace of rank %d %.6f", kept, s.Rank, best)
			}
			if off > 1e-5 {
				t.Errorf("the components' products are off by %g", off)
			}
			if c.angle > 0 && d.angle(s) > c.angle {
				t.Errorf("angle %g, want %g at most", d.angle(s), c.angle)
			}
			if c.target.Capped(s) {
				t.Errorf("it counts as capped")
			}
		})
	}
}

// The number of workers changes no bit; the seed changes no more than the method leaves open.
func TestFitRepeats(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		name string
		fit  fitter
		dim  int
	}{{"exact", Fit, 100}, {"held", Fit, 600}, {"streamed", Fit, 4200}} {
		rows := spectrum(300, c.dim, power(80, 2), 0.001)
		fit := func(seed uint64, workers int) *Subspace {
			s, err := c.fit(context.Background(), c.dim, stream(rows), Target{Rank: 10},
				Options{Seed: seed, Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		first := fit(3, 1)
		for _, workers := range []int{2, 5} {
			if got := fit(3, workers); !reflect.DeepEqual(got, first) {
				t.Errorf("%s: %d workers change the fit", c.name, workers)
			}
		}
		other := fit(4, 2)
		if c.name != "exact" && reflect.DeepEqual(other, first) {
			t.Errorf("%s: another seed changes nothing", c.name)
		}
		if math.Abs(other.Variance-first.Variance) > 1e-6 {
			t.Errorf("%s: another seed keeps %.8f, not %.8f", c.name, other.Variance, first.Variance)
		}
	}
}

// If a fraction takes more components than are allowed, the subspace has the allowed ones and says how much it keeps.
func TestFitCap(t *testing.T) {
	testinput.Runtime(t)
	for dim, want := range map[int]int{64: 64, 3072: 2048, 12288: 2048, 16384: 2048, 65536: 512, 100_000: 335,
		1 << 24: 16} {
		if got := MaxRank(dim); got != want {
			t.Errorf("%d components of %d values are allowed, want %d", got, dim, want)
		}
	}
	rows := spectrum(300, 600, power(600, 1), 0)
	d := decompose(t, rows)
	target := Target{Variance: 0.99}
	defer func(was int) { maxRank = was }(maxRank)
	maxRank = 40
	for name, fit := range map[string]fitter{"held": Fit, "streamed": streamed} {
		s := must.Get(fit(context.Background(), 600, stream(rows), target, Options{}))(t)
		kept, _ := d.kept(s)
		if s.Rank != 40 || math.Abs(s.Variance-kept) > 1e-5 || kept < 0.99*sum(d.variances[:40])/d.total {
			t.Errorf("%s: rank %d, says %.6f of the variance, keeps %.6f", name, s.Rank, s.Variance, kept)
		}
		if !target.Capped(s) || (Target{Rank: 40}).Capped(s) {
			t.Errorf("%s: capped is %v", name, target.Capped(s))
		}
		if _, err := fit(context.Background(), 600, stream(rows), Target{Rank: 41}, Options{}); err == nil ||
			!strings.Contains(err.Error(), "rank 41 is more than 40") {
			t.Errorf("%s: a rank above the cap: %v", name, err)
		}
	}
}

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

// States that no subspace can be fitted to are refused in one line.
func TestFitRefuses(t *testing.T) {
	testinput.Runtime(t)
	const dim = 20
	rows := spectrum(50, dim, power(dim, 1), 0)
	with := func(v float32) [][]float32 {
		bad := slices.Clone(rows)
		bad[7] = append(slices.Clone(rows[7][1:]), v)
		return bad
	}
	for _, c := range []struct {
		name   string
		rows   [][]float32
		target Target
		want   string
	}{
		{"NaN", with(float32(math.NaN())), Target{Rank: 1}, "state of image 7 of the fit's data set is not finite"},
		{"infinite", with(float32(math.Inf(-1))), Target{Rank: 1}, "state of image 7"},
		{"constant", slices.Repeat(rows[:1], 900), Target{Variance: 0.9}, "the 900 clean states are all the same"},
		{"one", rows[:1], Target{Rank: 1}, "two clean states or more, got 1"},
		{"none", nil, Target{Variance: 0.9}, "got 0"},
		{"rank of the space", rows, Target{Rank: dim + 1}, "rank 21 is more than 20"},
		{"rank of the states", rows[:15], Target{Rank: 15},
			"rank 15 is more than 14, the most for 15 states of 20 values"},
		{"length", [][]float32{rows[0], rows[1][1:]}, Target{Rank: 1}, "19 values, not 20"},
	} {
		for name, fit := range map[string]fitter{"exact": dense, "streamed": streamed} {
			_, err := fit(context.Background(), dim, stream(c.rows), c.target, Options{Workers: 1})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v, want %q", name, c.name, err, c.want)
			}
		}
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	for name, fit := range map[string]fitter{"exact": dense, "streamed": streamed} {
		if _, err := fit(stopped, dim, stream(rows), Target{Rank: 2}, Options{}); err != context.Canceled {
			t.Errorf("%s: cancelled: %v", name, err)
		}
	}
}

// States that vary in few directions give as many components: rounding is not one.
func TestFitFewDirections(t *testing.T) {
	testinput.Runtime(t)
	flat := make([][]float32, 40)
	r := rand.New(rand.NewPCG(8, 8))
	for i := range flat {
		flat[i] = make([]float32, 700)
		for j := range flat[i] {
			flat[i][j] = 0.3
		}
		for j := range 9 {
			flat[i][j] = r.Float32()
		}
	}
	for name, fit := range map[string]fitter{"held": Fit, "streamed": streamed} {
		for _, target := range []Target{{Variance: 0.9}, {Variance: 1}, {Rank: 39}} {
			s, err := fit(context.Background(), 700, stream(flat), target, Options{})
			if err != nil || s.Rank > 9 || target.Rank == 0 && s.Variance < target.Variance-1e-6 || s.Mean[699] != 0.3 {
				t.Errorf("%s, %+v: rank %d with %.9f of the variance, %v; want at most 9 components", name, target,
					s.Rank, s.Variance, err)
			}
		}
		if _, err := fit(context.Background(), 700, stream(flat), Target{Rank: 40}, Options{}); err == nil {
			t.Errorf("%s: as many components as states is no error", name)
		}
	}
}

func TestCache(t *testing.T) {
	c := &Cache{Dir: filepath.Join(t.TempDir(), "fits")}
	s := &Subspace{Dim: 2, Rank: 1, Mean: []float32{1, 2}, Components: []float32{0.6, 0.8}, Variance: 0.9, Samples: 7}
	if s, damaged := c.Load("k", 2); s != nil || damaged {
		t.Error("an empty cache holds a fit")
	}
	must.Do(t, c.Store("k", s))
	if got, damaged := c.Load("k", 2); damaged || got == nil || got.Components[1] != 0.8 || got.Samples != 7 {
		t.Errorf("loaded %+v, %v", got, damaged)
	}
	if s, damaged := c.Load("k", 3); s != nil || !damaged {
		t.Error("a fit of another dimension was taken")
	}
	must.Do(t, os.WriteFile(c.Path("k"), []byte("no fit"), 0o644))
	if s, damaged := c.Load("k", 2); s != nil || !damaged {
		t.Error("a damaged file was taken")
	}
}
