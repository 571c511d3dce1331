package reports

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testbrowser"
)

// pageFile renders the page alone, which takes a tenth of the time of a whole report.
func pageFile(t *testing.T, f *result.File, recs []result.Record) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "report.html")
	must.Do(t, os.WriteFile(path, []byte(written(t, renderHTML, arranged(f, recs))), 0o644))
	return path
}

// scheme makes the page prefer light or dark.
func scheme(t *testing.T, p *testbrowser.Page, name string) {
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	must.Get(chromedp.Call(p.Context, emulation.SetEmulatedMedia, media))(t)
}

func TestBrowserFixture(t *testing.T) {
	t.Parallel()
	ctx := testbrowser.Start(t)
	f := fixture()
	f.Command = []string{"selfheal", "run", "--config", "it's mine.yaml"}
	p := testbrowser.Open(t, ctx, pageFile(t, f, records(f)))
	p.Check(1280)

	text := testbrowser.Eval[string](p, "document.body.innerText")
	must.Have(t, text, scriptName, texName, `selfheal run --config 'it'\''s mine.yaml'`)
	if n := testbrowser.Eval[int](p, "document.scripts.length"); n != 1 {
		t.Errorf("%d scripts", n)
	}

	// Both schemes: other paper, other ink, and figures that follow.
	look := func() []string {
		return testbrowser.Eval[[]string](p,
			`(() => { const page = getComputedStyle(document.body);
				const paper = getComputedStyle(document.querySelector('svg.fig path'));
				return [page.backgroundColor, page.color, paper.fill]; })()`)
	}
	scheme(t, p, "light")
	day := look()
	scheme(t, p, "dark")
	night := look()
	for i := range day {
		if day[i] == night[i] {
			t.Errorf("%s in both colour schemes", day[i])
		}
	}
	if day[0] != day[2] || night[0] != night[2] {
		t.Errorf("the page's background and the figures' differ: %v, %v", day, night)
	}

	// A phone: nothing makes the page scroll sideways, and the list of sections is folded.
	p.Check(390, 320)
	p.Do(chromedp.Reload())
	if testbrowser.Eval[bool](p, "document.querySelector('nav details').open") {
		t.Error("the list of sections is open on a phone")
	}
	p.Check(320)
	p.Quiet()
}

// On a phone no word of usual length is broken inside.
func TestBrowserWords(t *testing.T) {
	t.Parallel()
	page := must.Get(filepath.Abs("testdata/published/report.html"))(t)
	p := testbrowser.Open(t, testbrowser.Start(t), page)
	for _, width := range []int64{1280, 390, 320} {
		p.Size(width, 844)
		testbrowser.Eval[int](p, "document.querySelectorAll('details').forEach(d => d.open = true), 1")
		if broken := p.Broken(16); len(broken) > 0 {
			t.Errorf("%d pixels wide: broken inside: %q", width, broken)
		}
	}
}

func TestBrowserSorts(t *testing.T) {
	t.Parallel()
	ctx := testbrowser.Start(t)
	f := fixture()
	p := testbrowser.Open(t, ctx, pageFile(t, f, records(f)))

	// The white-box suite's table: two models under two controls, some cells missing. None is
	// "undefended / controlled" and sorts by the controlled number.
	const table = "#suite--white-box table"
	const head = table + " thead th:nth-child(3)"
	order := p.Column(table, 2)
	if len(order) != 4 {
		t.Fatalf("the table is not the one of this test: %q", order)
	}
	want := map[string][]string{
		"ascending":  {"57.70 / 59.00", "58.00 / 59.30", "57.70 / 59.90", "58.00 / –"},
		"descending": {"57.70 / 59.90", "58.00 / 59.30", "57.70 / 59.00", "58.00 / –"},
		"":           order,
	}
	sorted := func(how, state string) {
		t.Helper()
		if got := testbrowser.Eval[string](p, fmt.Sprintf("document.querySelector(%q).getAttribute('aria-sort') ?? ''",
			head)); got != state {
			t.Errorf("after %s aria-sort is %q, want %q", how, got, state)
		}
		if got := p.Column(table, 2); !slices.Equal(got, want[state]) {
			t.Errorf("after %s the rows are %q, want %q", how, got, want[state])
		}
	}
	click := chromedp.Click(chromedp.CSS(head + " button"))
	for _, state := range []string{"ascending", "descending", ""} {
		p.Do(click)
		sorted("a click", state)
	}
	p.Do(chromedp.Focus(chromedp.CSS(head + " button")))
	p.Do(chromedp.KeyEvent("\r"))
	sorted("Enter", "ascending")
	p.Do(chromedp.KeyEvent(" "))
	sorted("Space", "descending")
	// Missing values stay below in both directions; the two numbers are of the first and third line.
	const gaps = table + " thead th:nth-child(5) button"
	for _, want := range [][]string{{"0.00 / 30.10", "0.10 / 32.20", "0.00 / –", "0.10 / –"},
		{"0.10 / 32.20", "0.00 / 30.10", "0.00 / –", "0.10 / –"}} {
		p.Do(chromedp.Click(chromedp.CSS(gaps)))
		if got := p.Column(table, 4); !slices.Equal(got, want) {
			t.Errorf("with gaps the rows are %q, want %q", got, want)
		}
	}
	if c := testbrowser.Eval[string](p, fmt.Sprintf("getComputedStyle(document.querySelector(%q)).color",
		table+" tbody th.repeat")); c != testbrowser.Eval[string](p, "getComputedStyle(document.body).color") {
		t.Errorf("a row heading that repeated the line above is %s when it no longer does", c)
	}

	// Names sort as words, durations by their seconds, and sums stay below.
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('details').forEach(d => { d.open = true; })"))
	costs := testbrowser.Eval[string](p,
		`(() => { const t = [...document.querySelectorAll('#suite-real table')].find(t => t.tFoot);
			t.id = 'costs'; return t.caption.textContent; })()`)
	if !strings.Contains(costs, "Time") {
		t.Fatalf("sums of %q", costs)
	}
	p.Do(chromedp.Click(chromedp.CSS("#costs thead th:last-child button")))
	seconds := testbrowser.Eval[[]float64](p,
		`[...document.querySelector('#costs').tBodies[0].rows].map(r => Number(r.lastElementChild.dataset.value))`)
	if len(seconds) != 8 || !slices.IsSorted(seconds) || seconds[0] == seconds[7] {
		t.Errorf("durations in the order %v", seconds)
	}
	if foot := testbrowser.Eval[string](p,
		"document.querySelector('#costs').rows[document.querySelector('#costs').rows.length - "+
			"1].innerText"); !strings.HasPrefix(foot, "Sum") {
		t.Errorf("the last row is %q", foot)
	}
	p.Quiet()
}

// big makes a run of 30 cells and more than 10,000 records, and a gallery of as many pictures as a run keeps.
func big() (*result.File, []result.Record) {
	f := &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	linf, l2, l1 := "linf", "l2", "l1"
	attacks := []attacked{{"aa-linf", linf, "autoattack-standard/1", 8. / 255},
		{"aa-l2", l2, "autoattack-standard/1", 0.5}, {"aa-l1", l1, "autoattack-standard/1", 12}, {"pgd", linf, "pgd/1",
			8. / 255}}
	s := result.Suite{Name: "big", Dataset: "cifar10-test", Mode: "whitebox-through", Models: []string{"a", "b", "c"},
		Controls: []string{"pca"}, Attacks: []string{"aa-linf", "aa-l2", "aa-l1", "pgd"}}
	const n = 334
	var correct [][][]int
	for m := range s.Models {
		correct = append(correct, [][]int{{310 - m, 20, 30 + m, 10, 25}, {300 + m, 150 - m, 160, 120 + m, 155}})
	}
	addCells(f, s, n, attacks, correct)
	rng := rand.New(rand.NewPCG(1, 2))
	var recs []result.Record
	for _, c := range f.Cells {
		for i := range n {
			r := result.Record{ID: cell.Of(c.Suite, c.Model, c.Defense, c.Attack, c.Epsilon).In("", c.Mode), Image: i,
				Label: i % 10, Margin: result.Margin(rng.NormFloat64())}
			if i < c.Correct {
				r.Verdict = 1
			} else if c.Epsilon != 0 {
				first, queries, margin := i%100, i, rng.Float64()
				r.Norm, r.FirstSuccess, r.Queries, r.CleanMargin = float64(c.Epsilon), &first, &queries, &margin
			}
			recs = append(recs, r)
		}
	}
	f.Gallery = &result.Gallery{Schema: result.GallerySchema}
	noise := func() []byte { // does not compress
		img := image.NewNRGBA(image.Rect(0, 0, 64, 64))
		for i := range 64 * 64 {
			x := rng.Uint32()
			img.SetNRGBA(i%64, i/64, color.NRGBA{uint8(x), uint8(x >> 8), uint8(x >> 16), 255})
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			panic(err)
		}
		return b.Bytes()
	}
	for bytes := 0; bytes < 3<<19; { // 1.5 MiB
		m, a := len(f.Gallery.Cases)%3, len(f.Gallery.Cases)%4
		c := fixtureCase("big", s.Models[m], "pca", attacks[a].name, attacks[a].norm, attacks[a].epsilon, result.Broken,
			64, 64)
		c.Image = len(f.Gallery.Cases)
		for _, p := range []*[]byte{&c.Pictures.Clean, &c.Pictures.Adversarial, &c.Pictures.Perturbation,
			&c.Pictures.Healed} {
			*p = noise()
			bytes += len(*p)
		}
		f.Gallery.Cases = append(f.Gallery.Cases, c)
	}
	return f, recs
}

func TestBrowserBig(t *testing.T) {
	t.Parallel()
	ctx := testbrowser.Start(t)
	f, recs := big()
	if len(f.Cells) != 30 || len(recs) < 10000 {
		t.Fatalf("%d cells, %d records", len(f.Cells), len(recs))
	}
	path := pageFile(t, f, recs)
	info := must.Get(os.Stat(path))(t)
	if info.Size() >= 5<<20 {
		t.Errorf("the page has %d bytes", info.Size())
	}
	p := testbrowser.Open(t, ctx, path)
	// The main thread is timed by processor time, which other programs on the machine do not affect.
	ticks := performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}
	must.Get(chromedp.Call(p.Context, performance.Enable, ticks))(t)
	p.Do(chromedp.Reload())
	var busy time.Duration
	for _, m := range must.Get(chromedp.Call(p.Context, performance.GetMetrics, cdp.Empty{}))(t).Metrics {
		if m.Name == "TaskDuration" {
			busy = time.Duration(m.Value * float64(time.Second))
		}
	}
	if busy <= 0 || busy > time.Second {
		t.Errorf("opening the page takes %v of processor time", busy)
	}
	if shown := testbrowser.Eval[int](p, "document.querySelectorAll('img').length"); shown < 4*len(f.Gallery.Cases)-1 {
		t.Errorf("%d pictures of %d cases", shown, len(f.Gallery.Cases))
	}

	// Words filter the rows of a long table, in any order and whatever their case.
	const fold = "#suite-big details.fold"
	p.Do(chromedp.Evaluate[chromedp.Void](`(() => { const d = [...document.querySelectorAll('` + fold +
		`')].find(d => d.querySelector('summary').textContent.includes('by class'));
			d.id = 'classes'; d.open = true; })()`))
	const table = "#classes table"
	if all := p.Column(table, 0); len(all) != 30 {
		t.Fatalf("%d rows of 3 models and 10 classes", len(all))
	}
	p.Do(chromedp.SendKeys(chromedp.CSS("#classes input"), "7 B"))
	got := p.Column(table, 0)
	if len(got) == 0 || len(got) == 30 || slices.ContainsFunc(got, func(m string) bool { return m != "b" }) {
		t.Errorf("after the words 7 and B the rows are of the models %q", got)
	}
	if said := testbrowser.Eval[string](p, "document.querySelector('#classes "+
		"output').value"); said != fmt.Sprintf("%d of 30 rows", len(got)) {
		t.Errorf("the count says %q of %d rows", said, len(got))
	}
	p.Check(1280)

	// On a phone everything that explains the results is folded, which leaves at most ten screens; a link unfolds it.
	p.Size(390, 844)
	p.Do(chromedp.Reload())
	const tall = "document.documentElement.scrollHeight"
	if height := testbrowser.Eval[float64](p, tall); height > 10*844 {
		t.Errorf("on a phone the page has %.1f screens", height/844)
	}
	before := testbrowser.Eval[float64](p, tall)
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = 'reading-gallery'"))
	p.Do(chromedp.Evaluate[chromedp.Void]("new Promise(r => setTimeout(r, 100))"))
	if height := testbrowser.Eval[float64](p, tall); height <= before {
		t.Errorf("a link into a folded part leaves the page at %v pixels", height)
	}
	p.Quiet()
}

// frame is an element's place in the window, in CSS pixels.
type frame struct{ Left, Top, Right, Bottom float64 }

// places returns the places of the elements that a query finds.
func places(p *testbrowser.Page, query string) []frame {
	return testbrowser.Eval[[]frame](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => {
		const r = e.getBoundingClientRect();
		return { Left: r.left, Top: r.top, Right: r.right, Bottom: r.bottom }; })`, query))
}

// Figures stand side by side if there is room and below each other on a phone, where none of their letters is smaller
// than 8 pixels.
func TestBrowserFigures(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// A table that is wider than a phone is shaded at its right edge until it is scrolled to its end.
func TestBrowserEdges(t *testing.T) {
	t.Parallel()
	ctx := testbrowser.Start(t)
	p := testbrowser.Open(t, ctx, pageFile(t, several(4, 4), nil))
	p.Size(390, 800)
	for _, theme := range []string{"light", "dark"} {
		scheme(t, p, theme)
		// shaded is the fraction of the right edge that does not have the paper's colour.
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
