package reports

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"selfheal/internal/must"
	"selfheal/internal/testbrowser"
)

// frame is where an element stands in the window, in CSS pixels.
type frame struct{ Left, Top, Right, Bottom float64 }

// places are those of the elements that a query finds.
func places(p *testbrowser.Page, query string) []frame {
	return testbrowser.Eval[[]frame](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => {
		const r = e.getBoundingClientRect();
		return { Left: r.left, Top: r.top, Right: r.right, Bottom: r.bottom }; })`, query))
}

// Figures stand beside each other where there is room and below each other on a phone, on which none of their letters
// is smaller than 8 pixels.
func TestBrowserFigures(t *testing.T) {
	ctx := testbrowser.Start(t)
	f := several(4, 4)
	p := testbrowser.Open(t, ctx, pageFile(t, f, nil))
	for _, c := range []struct {
		width   int64
		figures string
		abreast int
	}{{1280, ".overview figure", 2}, {1280, "#suite-s .figures figure", 3}, {1000, "#suite-s .figures figure", 2},
		{390, ".overview figure", 1}, {390, "#suite-s .figures figure", 1}} {
		p.Size(c.width, 800)
		all, abreast := places(p, c.figures), 0
		for i, one := range all {
			if one.Left < 0 || one.Right > float64(c.width) || one.Right-one.Left < 250 {
				t.Errorf("at %d: figure %d reaches from %v to %v", c.width, i, one.Left, one.Right)
			}
			if math.Abs(one.Top-all[0].Top) < 1 {
				abreast++
			}
		}
		if len(all) < 2 || abreast != c.abreast {
			t.Errorf("at %d: of %d %s %d stand abreast, want %d", c.width, len(all), c.figures, abreast, c.abreast)
		}
	}
	smallest := testbrowser.Eval[float64](p, `Math.min(...[...document.querySelectorAll('.fig text')].map(e =>
		parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getScreenCTM().a))`)
	if smallest < 8 {
		t.Errorf("letters of %v pixels on a phone", smallest)
	}
	p.Quiet()
}

// The first figures stand on the first screen, above the fold of a small laptop.
func TestBrowserFirstScreen(t *testing.T) {
	ctx := testbrowser.Start(t)
	for _, models := range []int{1, 4, 12} {
		p := testbrowser.Open(t, ctx, pageFile(t, several(models, 3), nil))
		for i, one := range places(p, ".overview figure") {
			if one.Bottom > 800 {
				t.Errorf("%d models: first figure %d ends at %v", models, i, one.Bottom)
			}
		}
	}
}

// A table that is wider than a phone has a shade at its right edge until it is scrolled to its end.
func TestBrowserEdges(t *testing.T) {
	ctx := testbrowser.Start(t)
	p := testbrowser.Open(t, ctx, pageFile(t, several(4, 4), nil))
	p.Size(390, 800)
	for _, theme := range []string{"light", "dark"} {
		scheme(t, p, theme)
		// The share of the right edge that is not paper.
		shaded := func(to string) float64 {
			at := testbrowser.Eval[frame](p, `(() => { const e = [...document.querySelectorAll('#suite-s .scroll')]
				.find(e => e.scrollWidth > e.clientWidth + 50);
				e.scrollIntoView({ block: 'center' }); e.scrollLeft = `+to+`;
				const r = e.getBoundingClientRect();
				return { Left: r.left, Top: r.top, Right: r.right, Bottom: r.bottom }; })()`)
			shot := must.Get(chromedp.Run(p.Context, chromedp.CaptureScreenshot()))(t)
			img := must.Get(png.Decode(bytes.NewReader(shot)))(t)
			grey := func(x, y float64) float64 {
				return float64(color.GrayModel.Convert(img.At(int(x), int(y))).(color.Gray).Y)
			}
			paper, n, dark := grey(4, at.Top), 0.0, 0.0
			for y := math.Ceil(at.Top) + 2; y < at.Bottom-2; y++ {
				if n++; math.Abs(grey(at.Right-2, y)-paper) > 20 {
					dark++
				}
			}
			return dark / n
		}
		if more, end := shaded("0"), shaded("e.scrollWidth"); more < 0.9 || end > 0.2 {
			t.Errorf("%s: %.2f of the edge is shaded where there is more, %.2f at the end", theme, more, end)
		}
	}
	if tables := places(p, ".scroll"); slices.ContainsFunc(tables, func(b frame) bool { return b.Right > 391 }) {
		t.Errorf("tables reach beyond the screen: %v", tables)
	}
}
