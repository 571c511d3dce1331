package chart

import (
	"fmt"
	"image/color"
	"math"
	"testing"

	"github.com/lucasb-eyer/go-colorful"
)

// contrastOf returns WCAG 2's ratio of two colours' luminances, 1 to 21.
func contrastOf(a, b color.Color) float64 {
	of := func(c color.Color) float64 {
		k, _ := colorful.MakeColor(c)
		_, y, _ := k.Xyz()
		return y + 0.05
	}
	return max(of(a), of(b)) / min(of(a), of(b))
}

// visions map colours to how people with the three kinds of dichromacy see them: matrices on linear sRGB by Machado,
// Oliveira and Fernandes 2009, severity 1.
var visions = map[string][3][3]float64{
	"Normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// seen returns a colour as that vision sees it.
func seen(c color.Color, vision [3][3]float64) colorful.Color {
	k, _ := colorful.MakeColor(c)
	r, g, b := k.LinearRgb()
	var out [3]float64
	for i, row := range vision {
		out[i] = min(max(row[0]*r+row[1]*g+row[2]*b, 0), 1)
	}
	return colorful.LinearRgb(out[0], out[1], out[2])
}

// lightness returns L* of CIE 1976 L*a*b*, 0 to 100.
func lightness(c colorful.Color) float64 {
	l, _, _ := c.Lab()
	return 100 * l
}

// Everybody can tell the series of a figure apart. With any kind of colour blindness any two differ by ΔE00 ≥ 8.5, and
// the baseline and the first three controls by 12. These four differ by 7.5 in L*, so that they differ in greyscale
// print. They contrast with the paper by WCAG's 3 : 1 for graphics, later ones by 2.4 : 1, text by 4.5 : 1.
func TestPalette(t *testing.T) {
	const first = 4
	for name, th := range map[string]theme{"light": light, "dark": dark} {
		for i, a := range th.lines {
			atLeast := 3.0
			if i >= first {
				atLeast = 2.4
			}
			if got := contrastOf(a, th.Paper); got < atLeast {
				t.Errorf("%s: colour %d has a contrast of %.2f", name, i, got)
			}
			for j, b := range th.lines[:i] {
				apart := 8.5
				if i < first {
					apart = 12
				}
				for vision, m := range visions {
					if got := 100 * seen(a, m).DistanceCIEDE2000(seen(b, m)); got < apart {
						t.Errorf("%s, %s: colours %d and %d are %.1f apart", name, vision, i, j, got)
					}
				}
				normal := visions["Normal"]
				if grey := math.Abs(lightness(seen(a, normal)) - lightness(seen(b, normal))); i < first && grey < 7.5 {
					t.Errorf("%s, greyscale: colours %d and %d are %.1f apart", name, i, j, grey)
				}
			}
		}
		for _, ink := range []color.Color{th.Ink, th.Muted} {
			if got := contrastOf(ink, th.Paper); got < 4.5 {
				t.Errorf("%s: text has a contrast of %.2f", name, got)
			}
		}
	}
}

// Without colour, no two of a figure's first 30 series have the same marker and dash, and no two of the first five
// share either.
func TestMarksWithoutColour(t *testing.T) {
	seen := map[string]int{}
	for i := range 30 {
		key := fmt.Sprint(i%len(dashes), i%len(shapes))
		if j, found := seen[key]; found {
			t.Errorf("series %d looks like %d", i, j)
		}
		seen[key] = i
		l := LookOf(i)
		if g := light.marker(l); g.Shape != shapes[i%len(shapes)] ||
			fmt.Sprint(light.Line(l).Dashes) != fmt.Sprint(dashes[i%len(dashes)]) {
			t.Errorf("series %d has another marker or dash", i)
		}
	}
	for i := range 5 {
		for j := range i {
			if shapes[i] == shapes[j] || fmt.Sprint(dashes[i]) == fmt.Sprint(dashes[j]) {
				t.Errorf("series %d and %d have a marker or dash in common", i, j)
			}
		}
	}
}
