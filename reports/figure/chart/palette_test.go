package chart

import (
	"fmt"
	"image/color"
	"math"
	"testing"
)

type triple [3]float64

func times(m [3]triple, v triple) (out triple) {
	for i, row := range m {
		out[i] = row[0]*v[0] + row[1]*v[1] + row[2]*v[2]
	}
	return out
}

// linear is a colour in linear-light sRGB, 0 to 1 (IEC 61966-2-1).
func linear(c color.Color) (out triple) {
	r, g, b, _ := c.RGBA()
	for i, v := range []uint32{r, g, b} {
		x := float64(v) / 0xffff
		if out[i] = x / 12.92; x > 0.04045 {
			out[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	return out
}

// toXYZ takes linear sRGB to CIE XYZ under D65.
var toXYZ = [3]triple{{0.4124564, 0.3575761, 0.1804375}, {0.2126729, 0.7151522, 0.0721750},
	{0.0193339, 0.1191920, 0.9503041}}

// lab is CIE 1976 L*a*b* under D65.
func lab(v triple) triple {
	xyz := times(toXYZ, v)
	var f triple
	for i, white := range []float64{0.95047, 1, 1.08883} {
		t := max(xyz[i], 0) / white
		if f[i] = math.Cbrt(t); t <= 216./24389 {
			f[i] = (24389./27*t + 16) / 116
		}
	}
	return triple{116*f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])}
}

// contrast is WCAG 2's ratio of two colours' luminances, 1 to 21.
func contrastOf(a, b color.Color) float64 {
	p, q := times(toXYZ, linear(a))[1], times(toXYZ, linear(b))[1]
	return (max(p, q) + 0.05) / (min(p, q) + 0.05)
}

// ciede2000 is the colour difference ΔE00 of CIE 142-2001, computed as in Sharma, Wu and
// Dalal 2005; about 1 is just noticeable side by side, 10 at a glance.
func ciede2000(p, q triple) float64 {
	rad := func(d float64) float64 { return d * math.Pi / 180 }
	deg := func(r float64) float64 { return r * 180 / math.Pi }
	mean := (math.Hypot(p[1], p[2]) + math.Hypot(q[1], q[2])) / 2
	g := 0.5 * (1 - math.Sqrt(math.Pow(mean, 7)/(math.Pow(mean, 7)+math.Pow(25, 7))))
	a1, a2 := p[1]*(1+g), q[1]*(1+g)
	c1, c2 := math.Hypot(a1, p[2]), math.Hypot(a2, q[2])
	hue := func(b, a float64) float64 { return math.Mod(deg(math.Atan2(b, a))+360, 360) }
	h1, h2 := hue(p[2], a1), hue(q[2], a2)
	turn, middle := h2-h1, (h1+h2)/2
	switch {
	case c1*c2 == 0:
		turn, middle = 0, h1+h2
	case math.Abs(turn) > 180 && h1+h2 < 360:
		turn, middle = turn-math.Copysign(360, turn), middle+180
	case math.Abs(turn) > 180:
		turn, middle = turn-math.Copysign(360, turn), middle-180
	}
	light, chroma := (p[0]+q[0])/2, (c1+c2)/2
	t := 1 - 0.17*math.Cos(rad(middle-30)) + 0.24*math.Cos(rad(2*middle)) +
		0.32*math.Cos(rad(3*middle+6)) - 0.2*math.Cos(rad(4*middle-63))
	sl := 1 + 0.015*math.Pow(light-50, 2)/math.Sqrt(20+math.Pow(light-50, 2))
	sc, sh := 1+0.045*chroma, 1+0.015*chroma*t
	rt := -math.Sin(rad(60*math.Exp(-math.Pow((middle-275)/25, 2)))) * 2 * math.Sqrt(math.Pow(chroma,
		7)/(math.Pow(chroma, 7)+math.Pow(25, 7)))
	dl, dc, dh := (q[0]-p[0])/sl, (c2-c1)/sc, 2*math.Sqrt(c1*c2)*math.Sin(rad(turn/2))/sh
	return math.Sqrt(dl*dl + dc*dc + dh*dh + rt*dc*dh)
}

// visions are how colours look to people with the three kinds of dichromacy: matrices on
// linear sRGB of Machado, Oliveira and Fernandes 2009, severity 1.
var visions = map[string][3]triple{
	"Normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// seen is a colour in L*a*b* as that vision has it.
func seen(c color.Color, vision [3]triple) triple {
	v := times(vision, linear(c))
	for i := range v {
		v[i] = min(max(v[i], 0), 1)
	}
	return lab(v)
}

// The measures of this file, on published values: the pairs are Sharma, Wu and Dalal's (2005),
// numbers 1, 9, 17 and 25 of their table 1.
func TestColourMeasures(t *testing.T) {
	for _, c := range []struct {
		p, q triple
		want float64
	}{
		{triple{50, 2.6772, -79.7751}, triple{50, 0, -82.7485}, 2.0425},
		{triple{50, 2.4900, -0.0010}, triple{50, -2.4900, 0.0009}, 7.1792},
		{triple{50, 2.5, 0}, triple{73, 25, -18}, 27.1492},
		{triple{60.2574, -34.0099, 36.2677}, triple{60.4626, -34.1751, 39.4387}, 1.2644},
	} {
		if got := ciede2000(c.p, c.q); math.Abs(got-c.want) > 5e-5 {
			t.Errorf("ΔE of %v and %v is %.4f, want %.4f", c.p, c.q, got, c.want)
		}
	}
	if got := lab(linear(hex(0xff0000))); math.Abs(got[0]-53.24) > 0.01 || math.Abs(got[1]-80.09) > 0.02 ||
		math.Abs(got[2]-67.20) > 0.02 {
		t.Errorf("red is %v in L*a*b*", got)
	}
	if got := contrastOf(hex(0), hex(0xffffff)); math.Abs(got-21) > 1e-4 {
		t.Errorf("black on white has a contrast of %v", got)
	}
}

// Series of a figure stay apart to everybody: any two by ΔE00 ≥ 8.5, the baseline and the first three controls by 12,
// whichever kind of colour blindness; those four by 7.5 in L*, so that they differ in greyscale print. They stand out
// from the paper by WCAG's 3 : 1 for graphics, and later ones by 2.4 : 1; text by 4.5 : 1.
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
					if got := ciede2000(seen(a, m), seen(b, m)); got < apart {
						t.Errorf("%s, %s: colours %d and %d are %.1f apart", name, vision, i, j, got)
					}
				}
				if grey := math.Abs(seen(a, visions["Normal"])[0] - seen(b, visions["Normal"])[0]); i < first &&
					grey < 7.5 {
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

// Without any colour, no two of a figure's first 30 series have marker and dash in common,
// and no two of the first five either of them.
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
