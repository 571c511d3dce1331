package chart

import (
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"selfheal/control/theory"
)

func TestFit(t *testing.T) {
	st := Normal
	for _, s := range []string{strings.Repeat("i", 250), strings.Repeat("i", 400), strings.Repeat("i", 401),
		strings.Repeat("il ", 1000), strings.Repeat("W", 100000)} {
		for _, w := range []vg.Length{3, 20, 60, 200, twoColumns} {
			got := Fit(s, st, w)
			if st.Width(got) > w || got == "" && st.Width("W…") <= w {
				t.Errorf("%d letters in %v: %q", len(s), w, got)
			}
			if one := len([]rune(got)); got != s && w > 200 && st.Width(strings.Repeat(s[:1], one)+"…") < 0.9*w &&
				one < fitEnd*5/3 {
				t.Errorf("%d letters in %v: only %d of them", len(s), w, one)
			}
		}
	}
}

// Axes have a few labels for all results: up to 1e100, equal values, none.
func TestAxes(t *testing.T) {
	t.Parallel()
	for _, of := range [][2]float64{{1e-100, 1e100}, {1e-30, 1e30}, {1e-3, 1e3}, {0.2, 0.3}, {5, 5}, {0, 1e100}, {0, 0},
		{3, -3}} {
		for _, log := range []bool{false, true} {
			if log && of[0] == 0 {
				continue
			}
			least, most := padded(of, log)
			ticks := linearTicks(least, most)
			if log {
				ticks = decades(least, most)
			}
			labels := 0
			for _, tick := range ticks {
				if tick.Label != "" {
					labels++
				}
			}
			if !(least < most) || labels < 2 || labels > 12 || len(ticks) > 100 {
				t.Errorf("%v: from %v to %v, %d ticks with %d labels", of, least, most, len(ticks), labels)
			}
		}
	}
}

// The labels of a dozen points, wherever these are, do not overlap and stay inside; hardly one of 600 touches a marker.
func TestLabelsStandApart(t *testing.T) {
	hidden := 0
	within := vg.Rectangle{Max: vg.Point{X: 300, Y: 220}}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var points, sizes []vg.Point
		var drawn []vg.Rectangle
		for range 12 {
			p := vg.Point{X: vg.Length(20 + 260*rng.Float64()), Y: vg.Length(20 + 180*rng.Float64())}
			points, sizes = append(points, p), append(sizes, vg.Point{X: 7, Y: 7.5})
			drawn = append(drawn, centred(p, 6, 6))
		}
		points[11], drawn[11] = points[10], drawn[10] // a run and its copy
		var boxes []vg.Rectangle
		for i, at := range beside(points, sizes, drawn, within) {
			mine := centred(at, sizes[i].X, sizes[i].Y)
			for k, r := range boxes {
				if overlap(mine, r) > 0 {
					t.Errorf("seed %d: labels %d and %d overlap", seed, i, k)
				}
			}
			if slices.ContainsFunc(drawn, func(r vg.Rectangle) bool { return overlap(mine, r) > 0 }) {
				hidden++
			}
			if mine.Min.X < 0 || mine.Min.Y < 0 || mine.Max.X > within.Max.X || mine.Max.Y > within.Max.Y {
				t.Errorf("seed %d: label %d is outside", seed, i)
			}
			boxes = append(boxes, mine)
		}
	}
	if hidden > 2 {
		t.Errorf("%d labels hide markers", hidden)
	}
}

// A paletted PNG shows the same picture: no channel is far off, and an image with too many colours stays as it is.
func TestPaletted(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for i := range 64 * 64 { // 4096 greys and blues
		img.SetRGBA(i%64, i/64, color.RGBA{uint8(i / 16), uint8(i / 16), uint8(255 - i/16), 255})
	}
	p, ok := paletted(img).(*image.Paletted)
	if !ok || len(p.Palette) > 256 {
		t.Fatal("a ramp is not paletted")
	}
	for i := range 64 * 64 {
		want, got := img.RGBAAt(i%64, i/64), color.RGBAModel.Convert(p.At(i%64, i/64)).(color.RGBA)
		if apart(want.R, got.R) > 16 || apart(want.G, got.G) > 16 || apart(want.B, got.B) > 16 {
			t.Fatalf("pixel %d is %v, want %v", i, got, want)
		}
	}
	for i := range 64 * 64 {
		img.SetRGBA(i%64, i/64, color.RGBA{uint8(i), uint8(i >> 4), uint8(i * 97 >> 3), 255})
	}
	if paletted(img) != image.Image(img) {
		t.Error("an image of thousands of colours far apart is paletted")
	}
}

// A line has its Wilson band, marks have error bars of that length.
func TestBanded(t *testing.T) {
	line, marks := Lined("", 0, 0), Marked("", 0, 0)
	line.Add(0, 50)
	marks.Add(0, 50)
	line, marks = line.Banded(200, 100), marks.Banded(200, 100)
	if !line.Band || marks.Band {
		t.Error("a line has error bars, or marks have a band")
	}
	for _, s := range []Series{line, marks} { // 100 of 200
		if math.Abs(s.Low[0]-43.13) > 0.01 || math.Abs(s.High[0]-56.87) > 0.01 {
			t.Errorf("from %v to %v", s.Low, s.High)
		}
	}
}

// A field of classes has their tints and a line between them, its first row at the bottom.
func TestField(t *testing.T) {
	p := Plot{Field: &theory.Field{N: 2, Values: []float64{0, 0, 1, 1}}, Classes: map[float64]int{0: 0, 1: 1}}
	img := p.colours(light)
	for y, want := range []color.Color{Mix(light.lines[1], light.Paper, 0.72), light.Muted} {
		if got := img.At(0, y); got != want {
			t.Errorf("row %d is %v, want %v", y, got, want)
		}
	}
}
