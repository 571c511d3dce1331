package bounds

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// Between its ends a rounding to either side of a tie lies between its lines, which leave little.
func TestLinesOfStairs(t *testing.T) {
	for _, ends := range [][2]float64{{0, 255}, {-128, 127}, {-3, 4}, {0, 1}, {-32768, 32767}} {
		a := rounded(ends[0], ends[1])
		apart := 16 * Unit * (ends[1] - ends[0] + 1)
		either := func(x float64) (low, high float64) {
			x += a.kink
			clipped := func(v float64) float64 { return min(max(math.RoundToEven(v), ends[0]), ends[1]) }
			return clipped(x - 0.99*apart), clipped(x + 0.99*apart)
		}
		rng := rand.New(rand.NewPCG(21, 22))
		for range 20000 {
			scale := math.Exp(8*rng.Float64() - 4)
			l := ends[rng.IntN(2)] + 2*scale*rng.NormFloat64()
			u := l + scale*rng.ExpFloat64()
			low, high := a.span(l, u)
			lower, upper := line{0, low}, line{0, high}
			if a.bends(l, u) {
				lower, upper = a.lines(l, u)
			}
			for k := range 101 {
				x := l + (u-l)*float64(k)/100
				least, most := either(x)
				if tiny := 1e-9; lower.at(x) > least+tiny || upper.at(x) < most-tiny || least < low || most > high {
					t.Fatalf("%v, [%g, %g] at %g: %g to %g is not in [%g, %g], [%g, %g]", ends, l, u, x, least, most,
						lower.at(x), upper.at(x), low, high)
				}
			}
			middle := (l + u) / 2
			if gap := upper.at(middle) - lower.at(middle); gap > max(1+2*apart, high-low) {
				t.Fatalf("%v, [%g, %g]: the lines are %g apart", ends, l, u, gap)
			}
			if a.free != nil && a.turns(l, u) {
				turned := a.free[1] * rng.Float64()
				if least, _ := either(u); turned*u > least+1e-9 {
					t.Fatalf("%v, [%g, %g]: slope %g gives %g above %g", ends, l, u, turned, turned*u, least)
				}
				if lower.b != 0 {
					t.Fatalf("%v, [%g, %g]: the lower line misses the kink by %g", ends, l, u, lower.b)
				}
			}
		}
	}
}

// No point beats a bound of a statically quantised network. The file itself is run, in its integer kernels, in every
// form of ONNX Runtime's quantiser (scripts/zoo/quantise.py on the networks in testdata). For a single image the bounds
// leave little open, and with activations of 16 bits almost nothing. Each radius is tried in each norm with one
// method, and by all methods; with SELFHEAL_TEST_LARGE more radii in each norm by each method.
func TestNoPointOfAFileBeatsABound(t *testing.T) {
	testinput.Runtime(t)
	files := must.Get(filepath.Glob("testdata/quantised/*.onnx"))(t)
	if len(files) != 16 {
		t.Fatalf("files %q", files)
	}
	points, radii := 20, []float64{0, 0.1}
	if testinput.Large() {
		points, radii = 2000, append(radii, 0.001, 0.01, 0.4)
	}
	for i, path := range files {
		if (i/4+i)%2 != 0 && !testinput.Large() { // four forms of each network
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".onnx"), func(t *testing.T) {
			t.Parallel()
			g, _ := must.Get2(simplify.Load(path, simplify.Options{}))(t)
			if err := Provable(g); err != nil {
				if g.Inexact {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			n := ready(t, g, Unit)
			file := must.Get(ort.OpenOriginal(path, must.Get(onnx.Read(path))(t), ""))(t)
			defer file.Close()
			rng, k := rand.New(rand.NewPCG(1, 2)), n.Classes()
			x, rows := uniform(rng, n.size(n.input)), identity(k)
			for r, radius := range radii {
				for p, norm := range []float64{inf, 2, 1} {
					region := Ball(x, norm, radius*[]float64{1, 4, 20}[p], 0, 1)
					var values []float64
					for point := range slices.Chunk(drawn(region, rng, points), len(x)) {
						values = append(values, must.Get(file.Run(point))(t)...)
					}
					methods := []Method{IBP, CROWN, AlphaCROWN}
					if !testinput.Large() {
						methods = methods[(r+p)%3:][:1]
					}
					for _, method := range methods {
						gap := 0.0
						for row, b := range must.Get(n.Rows(t.Context(), method, region, rows))(t) {
							least := math.Inf(1)
							for p := range points {
								least = min(least, rows[row*k+row/2]*values[p*k+row/2])
							}
							if !(least >= b.Least()) {
								t.Fatalf("l%g, %s at %g: row %d is %.9g, proven was %.9g", norm, method, radius, row,
									least, b.Least())
							}
							gap = max(gap, least-b.Least())
						}
						open := 0.5
						if strings.HasSuffix(path, "-16.onnx") {
							open = 0.003
						}
						if radius == 0 && method != IBP && gap > open {
							t.Errorf("l%g, %s: of a single image %g is left open", norm, method, gap)
						}
					}
				}
			}
		})
	}
}
