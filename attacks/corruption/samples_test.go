package corruption

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"selfheal/internal/must"
)

// counter draws what Counter of scripts/goldens/corruption_samples.py draws.
type counter struct{ seed, count uint64 }

func (c *counter) Float64() float64 {
	c.count++
	z := c.seed + c.count*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return float64((z^z>>31)>>11) / (1 << 53)
}

func (c *counter) NormFloat64() float64 { return math.Sqrt2 * math.Erfinv(2*c.Float64()-1) }
func (c *counter) IntN(n int) int       { return int(c.Float64() * float64(n)) }

// pattern returns the script's image, in the form that Apply takes.
func pattern(side int) []float32 {
	out := make([]float32, 3*side*side)
	for c := range 3 {
		for y := range side {
			for x := range side {
				smooth := (x*(3+c) + y*(5-c) + x*y/7) % 256
				dx, dy := x-side/2, y-side/3
				switch {
				case dx*dx+dy*dy < (side/4)*(side/4):
					smooth = (200 - 60*c + x) % 256
				case (x/8+y/8)%5 == 0:
					smooth = 255 - smooth
				}
				out[(c*side+y)*side+x] = float32(smooth) / 255
			}
		}
	}
	return out
}

// samples reads the arrays of uint8 that the script has written, without their headers.
func samples(t *testing.T) map[string][]byte {
	t.Helper()
	files := must.Get(zip.OpenReader("testdata/samples.npz"))(t)
	defer files.Close()
	out := map[string][]byte{}
	for _, f := range files.File {
		data := must.Get(io.ReadAll(must.Get(f.Open())(t)))(t)
		out[f.Name] = data[bytes.IndexByte(data, '\n')+1:]
	}
	return out
}

// Every corruption agrees with the authors' code for the same random numbers, to one level.
func TestAuthorsCode(t *testing.T) {
	all := samples(t)
	for _, size := range []struct {
		side, first, step int
		severities        []int
		file              string
	}{
		{32, 0, 1, []int{1, 2, 3, 4, 5}, "x32.npy"}, {64, 1, 4, []int{1, 2, 3, 4, 5}, "x64.npy"},
		{224, 1, 14, []int{1, 3}, "x224.npy"},
	} {
		want, n := all[size.file], (size.side)/size.step
		for i, name := range Names() {
			for _, severity := range size.severities {
				draw := &counter{seed: uint64(1000*i + severity)}
				got := must.Get(Apply(name, severity, pattern(size.side), draw))(t)
				off, most, beyond := 0, 0, 0
				for k := range n * n * 3 {
					y, x, c := k/3/n*size.step+size.first, k/3%n*size.step+2*size.first, k%3
					level := int(got[(c*size.side+y)*size.side+x]*255 + .5)
					if d := max(level-int(want[k]), int(want[k])-level); d > 0 {
						off++
						if most = max(most, d); d > 1 {
							beyond++
						}
					}
				}
				if want = want[n*n*3:]; beyond > 0 {
					t.Errorf("%s %d at %d: %d of %d levels differ, %d of them by more than 1, by up to %d", name,
						severity, size.side, off, n*n*3, beyond, most)
				}
			}
		}
		if len(want) > 0 {
			t.Errorf("%d values of %s left", len(want), size.file)
		}
	}
}

// fixed are the corruptions in which nothing is random.
var fixed = []string{"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"}

// Over 200 images, with random numbers of its own, every random corruption has the mean and the mean square of the
// change that the authors' code has with NumPy's: to three standard errors.
func TestStatistics(t *testing.T) {
	var want map[string][][2][2]float64 // by severity: mean and mean square, each with its standard error
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/statistics.json"))(t), &want))
	batch := must.Get(os.ReadFile("../../models/zoo/shapes10/test.bin"))(t)
	const images, size = 200, 3 * 32 * 32
	pixels, out := make([]float32, size), [2][images]float64{}
	for _, name := range Names() {
		if slices.Contains(fixed, name) {
			continue
		}
		for severity := 1; severity <= Severities; severity += 2 {
			for i := range images {
				levels := batch[i*(size+1)+1:][:size]
				for k, v := range levels {
					pixels[k] = float32(v) / 255
				}
				draw := rand.New(rand.NewPCG(uint64(i), uint64(severity)))
				sum, squares := 0.0, 0.0
				for k, v := range must.Get(Apply(name, severity, pixels, draw))(t) {
					d := math.Round(float64(v)*255) - float64(levels[k])
					sum, squares = sum+d, squares+d*d
				}
				out[0][i], out[1][i] = sum/size, squares/size
			}
			for k, what := range []string{"mean", "mean square"} {
				got, spread := stat.MeanStdDev(out[k][:], nil)
				of := want[name][severity-1][k]
				apart := math.Hypot(of[1], spread/math.Sqrt(images))
				t.Logf("%-18s %d %-11s %9.3f, the authors' %9.3f, %5.2f standard errors apart", name, severity, what,
					got, of[0], (got-of[0])/apart)
				if math.Abs(got-of[0]) > 3*apart {
					t.Errorf("%s %d: %s of the change is %.3f, the authors' %.3f ± %.3f", name, severity, what, got,
						of[0], apart)
				}
			}
		}
	}
}

// One line refuses an image that can't be corrupted, and every corruption gives levels of 8 bits.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name                              string
		severity, channels, height, width int
		says                              string
	}{
		{"rain", 1, 3, 32, 32, `unknown corruption "rain"`},
		{"fog", 0, 3, 32, 32, "severities from 1 to 5, not 0"},
		{"fog", 6, 3, 32, 32, "severities from 1 to 5, not 6"},
		{"fog", 1, 1, 28, 28, "square RGB images"},
		{"fog", 1, 3, 16, 16, "16×16 pixels of 3 channels"},
		{"fog", 1, 3, 64, 32, "32×64 pixels"},
		{"frost", 1, 3, 315, 315, "less than 315×315"},
		{"frost", 1, 3, 314, 314, ""},
		{"fog", 5, 3, 600, 600, ""},
	} {
		err := Check(c.name, c.severity, c.channels, c.height, c.width)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := Apply("rain", 1, pattern(32), &counter{}); err == nil {
		t.Error("rain is applied")
	}
	for _, side := range []int{33, 47, 300} { // which no table of the authors' has
		for _, name := range Names() {
			got := must.Get(Apply(name, 5, pattern(side), &counter{seed: 1}))(t)
			if slices.ContainsFunc(got, func(v float32) bool { return v != float32(math.Round(float64(v)*255))/255 }) {
				t.Errorf("%s at %d: not levels of 8 bits", name, side)
			}
			if side == 300 {
				break
			}
		}
	}
}
