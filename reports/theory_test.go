package reports

import (
	"image/png"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"selfheal/control/theory"
)

// theoryFixture has every kind of panel, a check that fails, and names that formats must escape.
func theoryFixture() *Theory {
	field := &plotField{N: 3, Values: []float64{0, 0, 1, 0, 1, 1, 1, 1, 1}, Classes: []int{0, 1}}
	loss := &plotField{N: 2, Values: []float64{0, 1, 2, 4}}
	box := [4]float64{-1, -1, 1, 1}
	marks, line, flat := marked("measured", 1, 0), lined("bound <b>", inkColour, 1), lined("flat", 2, 0)
	marks.X, marks.Y = []float64{1, 2, 3}, []float64{0.1, 0.01, 1e-7}
	marks.Low, marks.High = []float64{0.05, 0.005, 5e-8}, []float64{0.2, 0.02, 2e-7}
	line.X, line.Y = []float64{1, 3}, []float64{0.2, 1e-6}
	flat.X, flat.Y = []float64{-2, 0, 2}, []float64{-5, 5, -5}
	return &Theory{version: "test",
		Result: &theory.Result{Seed: 7, Quick: true, Checks: []theory.Check{
			{Part: "first part", Name: "bound", Claim: "a ≤ b | c", Relation: "≤",
				Measured: 0.123456789, Expected: 1, Tolerance: 1e-9, Pass: true},
			{Part: "first part", Name: "equality", Claim: "a = <b>", Relation: "=",
				Measured: -2e-12, Expected: 0, Tolerance: 0, Pass: true},
			{Part: "second part", Name: "broken", Claim: "it holds", Relation: "≥",
				Measured: 1, Expected: 2, Tolerance: 0.5, Pass: false},
		}},
		figures: []plotFigure{
			{Slug: "plane", Title: "The plane", Caption: "Two panels.", Columns: 2, Panels: []plotPanel{
				{Title: "(a) Classes", Square: true, Box: box, Field: field, Series: []plotSeries{flat},
					Texts: []plotText{{0, 0.5, "A"}}},
				{Title: "(b) Loss", Square: true, Box: box, Field: loss},
			}},
			{Slug: "axes", Title: "Axes", Caption: "Three panels.", Columns: 2, Panels: []plotPanel{
				{Title: "Logarithmic", X: "t", Y: "error", LogY: true, Series: []plotSeries{marks, line}},
				{Title: "Linear", X: "s", Y: "value", Series: []plotSeries{flat}},
				{Title: "Nothing", X: "x", Y: "y", LogX: true, LogY: true},
			}},
		}}
}

func writeTheory(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made")
	if err := WriteTheory(dir, theoryFixture()); err != nil {
		t.Fatal(err)
	}
	return folder(t, dir)
}

func TestTheoryGolden(t *testing.T) {
	files := writeTheory(t)
	again := writeTheory(t)
	for name, content := range files {
		if again[name] != content {
			t.Errorf("%s differs between two runs", name)
		}
	}
	if len(files) != 3+2*2 {
		t.Errorf("%d files", len(files))
	}
	for _, name := range []string{"theory.md", "theory.html", "theory.json"} {
		golden(t, name, files[name])
	}
	if err := WriteTheory(t.TempDir(), nil); err == nil {
		t.Error("no error without a theory")
	}
}

// The page fetches nothing, says that a check failed, and takes no name for markup.
func TestTheoryPage(t *testing.T) {
	page := writeTheory(t)["theory.html"]
	for _, m := range regexp.MustCompile(`(?:src|srcset|href|action)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "data:image/") {
			t.Errorf("refers to %q", m[1])
		}
	}
	bare := dataURI.ReplaceAllString(page, "")
	for _, s := range []string{"@import", "url(", "http:", "https:", "<link", "ZgotmplZ", "a = <b>"} {
		if strings.Contains(bare, s) {
			t.Errorf("holds %s", s)
		}
	}
	for _, s := range []string{"1 of 3 checks fail", `<b>FAIL</b>`, "seed 7 · quick", "0.123457"} {
		if !strings.Contains(bare, s) {
			t.Errorf("lacks %s", s)
		}
	}
}

// No text of a figure meets another or leaves the picture, on light and dark paper.
func TestTheoryFigures(t *testing.T) {
	for _, f := range theoryFixture().figures {
		for _, th := range []theme{light, dark} {
			have := legible(t, f.Slug, f.sheet(f.Title), th)
			want := []string{f.Title, f.Panels[0].Title, "flat"}
			if f.Slug == "axes" {
				want = append(want, "measured", "bound <b>", "error", "t", "1e-6", "0.01")
			}
			for _, w := range want {
				if !have[w] {
					t.Errorf("%s lacks %q in %v", f.Slug, w, have)
				}
			}
		}
	}
}

func TestTheoryPNG(t *testing.T) {
	files := writeTheory(t)
	img, err := png.Decode(strings.NewReader(files["theory-plane.png"]))
	if err != nil {
		t.Fatal(err)
	}
	if w := img.Bounds().Dx(); w != 2040 {
		t.Errorf("%d pixels wide", w)
	}
	colours := map[uint32]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, _ := img.At(x, y).RGBA()
			colours[r>>8<<16|g>>8<<8|b>>8] = true
		}
	}
	tint := func(i int) uint32 {
		r, g, b, _ := mix(light.lines[i], light.paper, 0.72).RGBA()
		return r>>8<<16 | g>>8<<8 | b>>8
	}
	r, g, b, _ := light.lines[2].RGBA()
	for _, c := range []uint32{0xffffff, r>>8<<16 | g>>8<<8 | b>>8, tint(0), tint(1)} { // paper, the line, both classes
		if !colours[c] {
			t.Errorf("no pixel of #%06x", c)
		}
	}
}
