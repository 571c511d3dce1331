package reports

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
)

// pngOf is a picture of one colour.
func pngOf(w, h int, c color.Color) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.Set(i%w, i/w, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// fixtureCase is a case of the fixture whose label is 3; broken says which network answers 5
// on the adversarial image.
func fixtureCase(suite, model, defense, attack, norm string, epsilon float64, kind string, w,
	h int) result.GalleryCase {
	right, wrong := result.GalleryAnswer{Class: 3, Name: "cat", Margin: 2.125}, result.GalleryAnswer{Class: 5,
		Name: "<i>dog</i>", Margin: -1.5}
	c := result.GalleryCase{Suite: suite, Model: model, Defense: defense, Attack: attack, Norm: norm, Epsilon: epsilon,
		Kind:  kind,
		Image: 17, Label: 3, LabelName: "cat", Perturbation: epsilon, Undefended: result.GalleryAnswers{Clean: right,
			Adversarial: wrong},
		Pictures: result.GalleryPictures{Width: w, Height: h, Clean: pngOf(w, h, color.NRGBA{200, 0, 0, 255}),
			Perturbation: pngOf(w, h, color.Gray{128}), Magnification: 15,
			Adversarial: pngOf(w, h, color.NRGBA{0, 200, 0, 255})}}
	if defense == "none" {
		return c
	}
	c.Controlled = &result.GalleryAnswers{Clean: right, Adversarial: right}
	if kind != result.Healed {
		c.Controlled.Adversarial = wrong
	}
	at := "last"
	if kind == result.Healed {
		c.Pictures.Healed, at = pngOf(w, h, color.NRGBA{0, 0, 200, 255}), "input"
	}
	for k := range 3 {
		c.Trace = append(c.Trace, result.GallerySweep{Objective: 4 / float64(1+k),
			Layers: []result.SolverLayer{{At: at, ControlNorm: 0.5 + float64(k), Loss: 4 / float64(1+k)}}})
	}
	return c
}

// fixtureGallery has every kind of case, one of an awkward name, and one that no cell is of.
func fixtureGallery() *result.Gallery {
	large := fixtureCase("../white box", scriptName, "auto_encoder", "pgd-fast", "l2", 0.8, result.Broken, 90, 60)
	large.VerdictOnly, large.LabelName = true, ""
	return &result.Gallery{Schema: result.GallerySchema,
		Notes: []result.GalleryNote{{Suite: "single", Message: "incomplete: the pictures of a run have 1.5 MiB at " +
			"most"}},
		Cases: []result.GalleryCase{
			fixtureCase("real", "resnet-2b", "pca", "aa-linf", "linf", 8./255, result.Healed, 4, 3),
			fixtureCase("real", "resnet-2b", "pca", "aa-l2", "l2", 0.5, result.NotHealed, 4, 3),
			fixtureCase("real", "another", "pca", "aa-l2", "l2", 0.5, result.Healed, 4, 3),
			large,
			fixtureCase("through", "resnet-2b", "none", "pgd-linf", "linf", 8./255, result.Broken, 4, 3),
		}}
}

// addTraces gives cells of three suites control traces: of two layers and three sweeps, of
// one layer without sweeps.
func addTraces(f *result.File) {
	for i, c := range f.Cells {
		if c.Solver == nil {
			continue
		}
		attack := float64(len(c.Attack))
		switch c.Suite {
		case "real", "../white box":
			c.Solver.Layers = []result.SolverLayer{{At: "input", ControlNorm: 4 + attack/10, Loss: 2.5},
				{At: "/blocks/<b>.2/Add_output_0", ControlNorm: 0.6, Loss: 0.7 + float64(i)}}
			c.Solver.Traced = 8
			for k := range 4 {
				c.Solver.Sweeps = append(c.Solver.Sweeps, c.Solver.Objective+math.Pow(2, -float64(k)))
			}
		case "single":
			c.Solver.Layers = []result.SolverLayer{{At: "2", ControlNorm: 0.5, Loss: 4.5}}
		}
	}
}

// A report without a gallery has no part of one; with one, see the golden page.
func TestNoGallery(t *testing.T) {
	f := fixture()
	f.Gallery = nil
	if without := textFiles(t, f, nil)["report.html"]; strings.Contains(without, `id="gallery`) ||
		strings.Contains(without, "#gallery") {
		t.Error("a report without a gallery has a part of one")
	}
}

// A page with as many and as large pictures as a run may have stays below 5 MiB.
func TestGalleryKeepsThePageSmall(t *testing.T) {
	f := fixture()
	noise := make([]byte, (3<<19)/12/4)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	f.Gallery.Cases = nil
	for range 12 {
		c := fixtureCase("real", "resnet-2b", "pca", "aa-linf", "linf", 8./255, result.Healed, 224, 224)
		p := &c.Pictures
		p.Clean, p.Perturbation, p.Adversarial, p.Healed = noise, noise, noise, noise
		f.Gallery.Cases = append(f.Gallery.Cases, c)
	}
	page := textFiles(t, f, records(f))["report.html"]
	if n := len(page); n > 5<<20 || n < 2<<20 {
		t.Errorf("the page has %.1f MiB", float64(n)/(1<<20))
	}
}

// Figures of traces keep their texts apart, whatever the names and the numbers of layers,
// attacks and sweeps; more networks than a figure holds have tables alone.
func TestTraceFigures(t *testing.T) {
	for _, c := range []struct{ models, layers, sweeps, epsilons int }{{1, 1, 0, 1}, {1, 2, 3, 1}, {2, 3, 1, 2},
		{3, 6, 40, 3}, {3, 12, 3, 1}} {
		f := crowded(c.epsilons)
		f.Suites[0].Models = f.Suites[0].Models[:c.models]
		f.Cells = slices.DeleteFunc(f.Cells,
			func(x result.Cell) bool { return !slices.Contains(f.Suites[0].Models, x.Model) })
		for i := range f.Cells {
			s := f.Cells[i].Solver
			if s == nil {
				continue
			}
			for l := range c.layers {
				s.Layers = append(s.Layers, result.SolverLayer{At: fmt.Sprintf("/blocks/blocks.%d/Add_output_0", l),
					ControlNorm: math.Pow(10, -float64(l%4)) * float64(1+i%7), Loss: 1})
			}
			for k := range c.sweeps {
				s.Sweeps, s.Traced = append(s.Sweeps, 100/float64(1+k)), 8
			}
		}
		s := derive(f).Suites[0]
		drawn := 2*c.models <= mostTraced && c.layers+c.sweeps > 1
		if n := len(s.Traced()); n != 2*c.models || (fullTraces(s).Panels != nil) != drawn {
			t.Fatalf("%+v: %d networks under a control", c, n)
		}
		for _, pane := range s.traceFigure(s.Traced()).Panes() {
			legible(t, fmt.Sprintf("%+v in a page", c), pane, dark)
		}
		if f := fullTraces(s); f.Panels != nil {
			legible(t, fmt.Sprintf("%+v in a file", c), f, light)
		}
	}
	// An objective is drawn by its difference from the greedy start, and said so in the table.
	traced := derive(fixture()).Suites[0]
	panel := traced.objectivePanel(traced.Traced()[0])
	if got, want := panel.Series[0].Y, []float64{0, -0.5, -0.75, -0.875}; !slices.Equal(got, want) ||
		panel.Box[1] != -0.875 || panel.Box[3] != 0 ||
		!strings.HasPrefix(panel.Y, "objective − that of the greedy start") {
		t.Errorf("the objective is drawn at %v, in %v, as %q; want %v", got, panel.Box, panel.Y, want)
	}
	want := "resnet-2b | pca | None | 8 | 4.21 | −0.5 | −0.75 | −0.875"
	if got := plainly(traced.sweepTable(traced.Traced()))[0]; got != want {
		t.Errorf("sweeps: %s, want %s", got, want)
	}
	f := crowded(1) // five models under two controls
	for i := range f.Cells {
		if s := f.Cells[i].Solver; s != nil {
			s.Layers = []result.SolverLayer{{At: "input", ControlNorm: 1, Loss: 1}}
		}
	}
	s := derive(f).Suites[0]
	if v := s.Traces(); fullTraces(s).Panels != nil || v == nil || v.Figure != nil || len(v.Tables) != 2 ||
		!strings.Contains(v.Reading, "10 networks") {
		t.Errorf("ten networks: %+v", v)
	}
}
