package reports

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"

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

// fixtureCase is a case of the fixture whose label is 3; broken says which network answers 5 on the adversarial image.
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

// addTraces gives cells of three suites control traces: of two layers and three sweeps, of one layer without sweeps.
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
