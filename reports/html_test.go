package reports

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lucasb-eyer/go-colorful"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/figure/chart"
	"selfheal/reports/table"
	"selfheal/reports/view"
)

// No two elements of a page have the same id, and links have targets, whatever the suites' names.
func TestIDsAreUnique(t *testing.T) {
	t.Parallel()
	f := fixture()
	names := []string{"rule", "headline", "knowledge", "provenance", "reading", "theory", "fits", "radars", "results",
		"gallery", "headline-loop", "suite", ".headline", "reading-gallery"}
	cells, cases := slices.Clone(f.Cells), slices.Clone(f.Gallery.Cases)
	for _, name := range names {
		for _, of := range []string{"real", "../white box"} {
			s := f.Suites[slices.IndexFunc(f.Suites, func(s result.Suite) bool { return s.Name == of })]
			s.Name = name + s.Name[len(s.Name)-4:]
			if of == "real" {
				s.Name = name
			}
			f.Suites = append(f.Suites, s)
			for _, c := range cells {
				if c.Suite == of {
					c.Suite = s.Name
					f.Cells = append(f.Cells, c)
				}
			}
			for _, c := range cases {
				if c.Suite == of {
					c.Suite = s.Name
					f.Gallery.Cases = append(f.Gallery.Cases, c)
				}
			}
		}
	}
	f.Solver = studyFixture().Solver
	for i := range f.Solver {
		f.Solver[i].Suite = names[i%len(names)]
	}
	v := arranged(f, nil)
	v.Theory = theoryFixture()
	page := written(t, renderHTML, v)
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(`<[a-z0-9]+ [^<>]*?\bid="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]]++; ids[m[1]] == 2 {
			t.Errorf("two elements have the id %s", m[1])
		}
	}
	for _, want := range []string{"reading-gallery", "gallery-rule", "headline", "theory", "note-.headline-loop",
		"note-.knowledge-loop", "note-headline-loop", "note-knowledge-loop"} {
		if ids[want] == 0 {
			t.Errorf("nothing has the id %s", want)
		}
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("a link leads to %s, which is nowhere", m[1])
			ids[m[1]] = -1
		}
	}
}

// Names are plain text in every format, and a page fetches nothing.
func TestNamesAreText(t *testing.T) {
	t.Parallel()
	for name, content := range textFiles(t, arranged(fixture(), nil)) {
		if name == "tables.csv" || name == "tables.txt" || name == "tables.tex" {
			continue
		}
		content = strings.Replace(content, "<script>"+script+"</script>", "", 1) // the page's own
		if strings.Contains(content, "<script") || strings.Contains(content, "<b>results") {
			t.Errorf("%s takes a name or a warning for markup", name)
		}
		if name == "report.html" {
			fetchesNothing(t, content)
		}
	}
}

// fetchesNothing fails the test if a browser would fetch anything for the page.
func fetchesNothing(t *testing.T, page string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?:src|srcset|href|action)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "data:image/") && !strings.HasPrefix(m[1], "#") {
			t.Errorf("refers to %q", m[1])
		}
	}
	for _, s := range []string{"@import", "url(", "http:", "https:", "<link", "ZgotmplZ"} {
		if strings.Contains(page, s) {
			t.Errorf("holds %s", s)
		}
	}
}

// luminance returns a colour's luminance, #rgb or #rrggbb, by WCAG 2.2: 0 to 1.
func luminance(t *testing.T, digits string) float64 {
	_, y, _ := must.Get(colorful.Hex("#" + digits))(t).Xyz()
	return y
}

// TestContrast checks that the page's text meets WCAG 2.2's level AA in both colour schemes, and that marks with a
// meaning meet the 3:1 for other content.
func TestContrast(t *testing.T) {
	t.Parallel()
	variable := regexp.MustCompile(`--([a-z]+): #([0-9a-fA-F]+)\b`)
	schemes, at := map[string]map[string]float64{"light": {}, "dark": {}}, "light"
	for line := range strings.Lines(styleSheet + string(chart.SeriesStyle())) {
		if strings.HasPrefix(line, "@media") && strings.Contains(line, "prefers-color-scheme: dark") {
			at = "dark"
		}
		for _, m := range variable.FindAllStringSubmatch(line, -1) {
			schemes[at][m[1]] = luminance(t, m[2])
		}
		if strings.HasPrefix(line, "}") || strings.HasSuffix(line, "}\n") && strings.HasPrefix(line, "@media") {
			at = "light"
		}
	}
	for name, c := range schemes {
		for _, pair := range []struct {
			ink, paper string
			least      float64
		}{
			{"ink", "paper", 4.5}, {"muted", "paper", 4.5}, {"accent", "paper", 4.5}, {"fail", "paper", 4.5},
			{"ink", "soft", 4.5}, {"muted", "soft", 4.5}, {"accent", "soft", 4.5}, {"ink", "bar", 4.5},
			{"undefended", "paper", 3}, {"controlled", "paper", 3},
		} {
			a, ok := c[pair.ink]
			b, there := c[pair.paper]
			if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); !ok || !there || got < pair.least {
				t.Errorf("%s: contrast of %s on %s is %.2f, want %g", name, pair.ink, pair.paper, got, pair.least)
			}
		}
	}
	if schemes["light"]["paper"] < schemes["dark"]["paper"] {
		t.Error("the dark scheme is the light one")
	}
}

// A page contains each figure once, in a form that follows its colour scheme, as its pictures do.
func TestInline(t *testing.T) {
	t.Parallel()
	f := theoryFixture().Figures[0].Sheet()
	f.Alt = `a <sketch> & "more"`
	got := string(f.Drawing())
	const paper = "FFFFFF-1B1C1E"
	must.Have(t, got,
		`<svg class="fig" role="img" aria-label="a &lt;sketch&gt; &amp; &#34;more&#34;" viewBox="0 0 489.6 `,
		`style="fill:var(--`+paper+
			`)"`, `stroke:var(--`, `<image class="day" x=`, `<image class="night" x=`, `>(a) Classes</text>`, `</svg>`)
	if strings.Contains(got, "font-family") || strings.Contains(got, "<?xml") {
		t.Error("the drawing has what the page says")
	}
	styled := chart.WithInks("<style>a{}</style><p>" + got + got)
	if n := strings.Count(styled, "--"+paper+":#"); n != 2 {
		t.Errorf("the paper's colour is defined %d times, want once a scheme:\n%.500s", n, styled)
	}
	for use := range strings.SplitSeq(got, "var(--") {
		if name, _, ok := strings.Cut(use, ")"); ok && len(name) == 13 &&
			!strings.Contains(styled, "--"+name+":#"+name[:6]) {
			t.Errorf("colour %s is used and not defined", name)
		}
	}
}

// Every figure names the attacker that its numbers belong to; for tables see the goldens.
func TestAttackerIsSaid(t *testing.T) {
	t.Parallel()
	v := arranged(fixture(), records(fixture()))
	for name, doc := range drawn(t, v) {
		if !strings.Contains(doc, ">adversarial images made ") {
			t.Errorf("%s does not say what the attacker knows", name)
		}
	}
	figures := regexp.MustCompile(`(?s)<figure>.*?</figure>`).FindAllString(written(t, renderHTML, v), -1)
	named := regexp.MustCompile(`<figcaption>[^<]*; attacker: ((oblivious|whitebox-[a-z]+)(, )?)+` +
		`(, which bounds [a-z ]+)?</figcaption>`)
	for _, f := range figures {
		if !named.MatchString(f) {
			t.Errorf("figure without attacker: %.100s", dataURI.ReplaceAllString(f, ""))
		}
	}
	if len(figures) < len(v.Suites) {
		t.Errorf("%d figures for %d suites", len(figures), len(v.Suites))
	}
}

// A suite without controls is an attack on the network itself, whatever mode a file of an older version gives it: it is
// never called oblivious, and no report speaks of controls.
func TestNoControl(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	for _, mode := range result.ModeNames() {
		if mode == result.Transfer { // its networks are attacked through other networks
			continue
		}
		f := fixture()
		f.Suites = f.Suites[:1]
		f.Suites[0].Controls, f.Suites[0].Mode, f.Gallery = nil, mode, nil
		f.Cells = slices.DeleteFunc(f.Cells, func(c result.Cell) bool {
			return c.Suite != "real" || c.Defense != "none"
		})
		for i := range f.Cells {
			f.Cells[i].Mode = mode
		}
		f.Solver, f.Fits, f.Controls = nil, nil, nil
		must.Do(t, result.Write(path, f))
		files := textFiles(t, arranged(must.Get(result.Read(path))(t), nil))
		_, body, _ := strings.Cut(files["report.html"], "</style>") // which has classes of such names
		files["report.html"], _, _ = strings.Cut(body, "<script>")
		for _, name := range strings.Fields("report.html tables.md tables.tex tables.csv summary.md radar-real.svg") {
			for _, no := range append(result.ModeNames()[1:], "obliviously", "no bound", "ttacker:", "ontrol",
				"ndefended", "ealed") {
				if strings.Contains(files[name], no) && (name != "tables.csv" || no != "ealed") { // a column's name
					t.Errorf("%s, %s: it says %s", mode, name, no)
				}
			}
		}
		must.Have(t, files["tables.csv"], ",whitebox,")
	}
}

// With several seeds every figure and table says which seeds its numbers belong to.
func TestOfWhichSeed(t *testing.T) {
	t.Parallel()
	f := fixture()
	for i := range f.Cells {
		c := &f.Cells[i]
		for k, seed := range []uint64{7, 11, 3} {
			if c.Attack != "none" {
				c.Seeds = append(c.Seeds, result.SeedScore{Seed: seed, Accuracy: c.Accuracy / float64(k+1),
					Verdicts: c.Verdicts})
			}
		}
	}
	v := arranged(f, records(f))
	page := written(t, renderHTML, v)
	for _, of := range []*regexp.Regexp{regexp.MustCompile(`<figcaption>([^<]*)`),
		regexp.MustCompile(`<caption>([^<]*)`),
		regexp.MustCompile(`aria-label="((?:Radar plot|Bars|Robustness curves|Accuracy in % on|Control: )[^"]*)`)} {
		found := of.FindAllStringSubmatch(page, -1)
		if len(found) < 3 {
			t.Errorf("%s: %d captions", of, len(found))
		}
		for _, m := range found {
			ofAll := slices.ContainsFunc([]string{"Data sets", "Models", "Attacks", "Controls", "Fitted", "Spread over",
				"Accuracy in %, on clean", "Accuracy in % of controlled"}, // for all seeds, for none, or with a note
				func(s string) bool { return strings.HasPrefix(m[1], s) })
			if !ofAll && !strings.Contains(m[1], "first seed") && !strings.Contains(m[1], "over 3 seeds") {
				t.Errorf("does not say of which seed: %s", m[1])
			}
		}
	}
	if !slices.Contains(v.Provenance(), view.Fact{Term: "Seeds of the attacks", Text: "7, 11, 3"}) {
		t.Errorf("provenance %v names not all seeds", v.Provenance())
	}
}

// A published number for an attacker with other knowledge is no comparison, and the table says so.
func TestComparisonAttacker(t *testing.T) {
	t.Parallel()
	f := compareFixture()
	f.Suites[0].Published.Mode = "oblivious"
	f.Suites[0].Published.Source = "config"
	must.Have(t, markdownForm.render(arranged(f, nil)), "ours beside the numbers that the config gives",
		"Not the same attacker: the published one is oblivious, ours whitebox-through")
	f.Suites[0].Published = nil
	if rows := (table.Of(view.Of(f)).Suites[0].ComparisonTable()).Rows; rows != nil {
		t.Error("a suite without published numbers has a table of them")
	}
}

// In a report of two suites, of which one has two modes, each suite shows its own pictures.
func TestGalleryOfSeveralModes(t *testing.T) {
	t.Parallel()
	f := fixture()
	c := f.Gallery.Cases[0]
	both := result.Suite{Name: "both", Dataset: "d", Mode: result.Oblivious, Models: []string{"m"},
		Controls: []string{"healing"}, Modes: []string{result.Oblivious, result.WhiteboxThrough}}
	f.Suites = append(f.Suites, both)
	one := fixtureCase("both", "m", "healing", "pgd-fast", "l2", 0.8, result.Broken, 4, 4)
	one.Mode = result.WhiteboxThrough
	f.Gallery.Cases = append(f.Gallery.Cases, one)
	f.Cells = append(f.Cells, result.Cell{ID: one.ID, Norm: new("l2"), Recipe: "pgd/1"}.Judged("10"))
	v := table.Of(view.Of(f))
	for _, s := range v.Suites {
		for _, shown := range append(cards(gallery(s, f.Gallery)), "") {
			if own := strings.Contains(shown, "m · healing"); shown != "" && own != (s.Name == "both") ||
				own && !strings.Contains(shown, result.WhiteboxThrough) {
				t.Errorf("suite %s shows %s", s.Name, shown)
			}
		}
	}
	if last := v.Suites[len(v.Suites)-1]; len(cards(gallery(last, f.Gallery))) != 1 || c.Suite == "both" {
		t.Errorf("suite %s shows %d pictures", last.Name, len(cards(gallery(last, f.Gallery))))
	}
}

// cards returns the facts of a gallery's cases.
func cards(g *galleryView) (facts []string) {
	if g == nil {
		return nil
	}
	for _, c := range g.Cases {
		facts = append(facts, c.Facts)
	}
	return facts
}

// pngOf makes a picture of one colour.
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

// fixtureCase makes a case of the fixture with label 3; broken says which network answers 5 on the adversarial image.
func fixtureCase(suite, model, defense, attack, norm string, epsilon float64, kind string, w,
	h int) result.GalleryCase {
	right, wrong := result.GalleryAnswer{Class: 3, Name: "cat", Margin: 2.125}, result.GalleryAnswer{Class: 5,
		Name: "<i>dog</i>", Margin: -1.5}
	c := result.GalleryCase{ID: cell.Of(suite, model, defense, attack, cell.Epsilon(epsilon)).In("d", ""), Norm: norm,
		Kind:  kind,
		Image: 17, Label: 3, LabelName: "cat", Perturbation: epsilon, Undefended: result.GalleryAnswers{Clean: right,
			Adversarial: wrong}, Pictures: result.GalleryPictures{Width: w, Height: h, Clean: pngOf(w, h,
			color.NRGBA{200,
				0, 0, 255}),
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

// fixtureGallery has every kind of case, one with an awkward name, and one without a cell.
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

// addTraces adds control traces to cells of three suites: two layers and three sweeps, one layer without sweeps.
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
