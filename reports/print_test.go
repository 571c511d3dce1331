package reports

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

var svgSize = regexp.MustCompile(`<svg width="([0-9.]+)pt" height="([0-9.]+)pt"`)

// Every figure is as wide as one or two columns of print, in points in the SVG and at 300 dots
// per inch in the PNG, no higher than a page, and no letter of it is smaller than 7 points.
func TestPrintSize(t *testing.T) {
	files := maps.Clone(report(t))
	files["solver-real.svg"] = svg(fullStudies(derive(studyFixture()).Suites[0]), light)
	for _, f := range theoryFixture().Figures {
		files["theory-"+f.Slug+".svg"] = svg(f.Sheet(f.Title), light)
	}
	seen := map[string]bool{}
	for name, content := range files {
		kind, _, _ := strings.Cut(name, "-")
		switch {
		case strings.HasSuffix(name, ".svg"):
			m := svgSize.FindStringSubmatch(content)
			if m == nil {
				t.Fatalf("%s does not say its size in points", name)
			}
			width, _ := strconv.ParseFloat(m[1], 64)
			height, _ := strconv.ParseFloat(m[2], 64)
			if min(math.Abs(width-oneColumn.Points()), math.Abs(width-twoColumns.Points())) > 0.01 ||
				height > pageHeight.Points() {
				t.Errorf("%s is %v by %v points", name, width, height)
			}
			for _, s := range fontSize.FindAllStringSubmatch(content, -1) {
				if size, err := strconv.ParseFloat(s[1], 64); err != nil || size < 7 {
					t.Errorf("%s has letters of %s points", name, s[1])
				}
			}
			seen[kind] = true
		case strings.HasSuffix(name, ".png"):
			at := strings.Index(content[:80], "pHYs")
			if at < 0 || binary.BigEndian.Uint32([]byte(content[at+4:])) != 11811 ||
				content[at+12] != 1 { // dots per metre
				t.Errorf("%s is not of 300 dpi", name)
			}
		}
	}
	for _, kind := range []string{"radar", "curve", "waterfall", "solver", "theory"} {
		if !seen[kind] {
			t.Errorf("no figure of kind %s", kind)
		}
	}
}

// Whatever a run holds, its figures stay within two columns and, but for very many models, a page.
func TestPageHolds(t *testing.T) {
	for _, models := range []int{1, 2, 4, 5, 9, 12} {
		f := &result.File{Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
		s := result.Suite{Name: "s", Dataset: "d", Mode: "oblivious", Controls: []string{"c"},
			Attacks: []string{"a", "b", "c"}}
		var correct [][][]int
		for range models {
			s.Models = append(s.Models, strings.Repeat("m", len(s.Models)+1))
			correct = append(correct, [][]int{{90, 1, 2, 3}, {80, 70, 60, 50}})
		}
		addCells(f, s, 100, []attacked{{"a", "linf", "autoattack-standard/1", 8. / 255},
			{"b", "l2", "autoattack-standard/1", 0.5}, {"c", "l1", "autoattack-standard/1", 12}}, correct)
		fig := fullAccuracies(derive(f).Suites[0])
		if width, height := fig.size(); width > twoColumns || height > pageHeight {
			t.Errorf("%d models: %v by %v points", models, width, height)
		}
		if values := fig.Panels[0].(accuracyPanel).values; values != (models < 12) {
			t.Errorf("%d models: values below the plots: %v", models, values)
		}
	}
}

// A paletted PNG is the picture: no channel is far off, and an image of too many colours stays as it is.
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
	var buf bytes.Buffer
	must.Do(t, fullAccuracies(derive(fixture()).Suites[0]).writePNG(&buf))
	if got, err := png.Decode(&buf); err != nil || got.ColorModel() == color.RGBAModel {
		t.Errorf("the radar is not paletted: %v", err)
	}
}
