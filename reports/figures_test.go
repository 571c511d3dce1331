package reports

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/reports/figure"
	"selfheal/reports/view"
)

// svgText is a text of an SVG with the box it takes.
type svgText struct {
	text                     string
	left, right, top, bottom float64
}

var fontSize = regexp.MustCompile(`font-size:([0-9.]+)px`)

// texts parses an SVG and returns its texts.
func texts(t *testing.T, doc string) []svgText {
	t.Helper()
	var out []svgText
	dec := xml.NewDecoder(strings.NewReader(doc))
	inside := false
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			if inside = e.Name.Local == "text"; inside {
				a := map[string]string{}
				for _, at := range e.Attr {
					a[at.Name.Local] = at.Value
				}
				num := func(s string) float64 { x, _ := strconv.ParseFloat(s, 64); return x }
				size := num(fontSize.FindStringSubmatch(a["style"])[1])
				x, y := num(a["x"]), num(a["y"])
				out = append(out, svgText{left: x, right: x + num(a["textLength"]), top: y - 0.72*size, bottom: y +
					0.2*size})
			}
		case xml.CharData:
			if inside {
				out[len(out)-1].text += string(e)
			}
		case xml.EndElement:
			inside = false
		}
	}
}

var (
	svgSize = regexp.MustCompile(`<svg width="([0-9.]+)pt" height="([0-9.]+)pt"`)
	svgBox  = regexp.MustCompile(`viewBox="0 0 ([0-9.]+) ([0-9.]+)"`)
)

// float parses a match.
func float(t *testing.T, s string) float64 {
	t.Helper()
	return must.Get(strconv.ParseFloat(s, 64))(t)
}

// legible checks that no text of a picture overlaps another or leaves the picture, and that its letters are large
// enough for print. It returns the texts.
func legible(t *testing.T, name, doc string) map[string]bool {
	t.Helper()
	size := svgSize.FindStringSubmatch(doc)
	if size == nil { // in a page
		size = svgBox.FindStringSubmatch(doc)
	}
	width, height := float(t, size[1]), float(t, size[2])
	have, all := map[string]bool{}, texts(t, doc)
	for a, p := range all {
		have[p.text] = true
		for _, q := range all[:a] {
			if p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom {
				t.Errorf("%s: %q meets %q", name, p.text, q.text)
			}
		}
		if p.left < 0 || p.right > width || p.bottom > 0 || -p.top > height {
			t.Errorf("%s: %q leaves the picture", name, p.text)
		}
	}
	for _, s := range fontSize.FindAllStringSubmatch(doc, -1) {
		if float(t, s[1]) < 7 {
			t.Errorf("%s has letters of %s points", name, s[1])
		}
	}
	return have
}

// drawn returns a report's figures as SVG, by their files' names.
func drawn(t *testing.T, v page) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range v.files() {
		if strings.HasSuffix(file.name, ".svg") {
			out[file.name] = written(t, func(w io.Writer, _ page) error { return file.render(w) }, v)
		}
	}
	return out
}

// traced makes a file whose controls have traces: a suite of so many models, layers, sweeps and epsilons.
func traced(models, layers, sweeps, epsilons int) *result.File {
	f := crowded(epsilons)
	f.Suites[0].Models = f.Suites[0].Models[:models]
	f.Cells = slices.DeleteFunc(f.Cells,
		func(x result.Cell) bool { return !slices.Contains(f.Suites[0].Models, x.Model) })
	for i := range f.Cells {
		s := f.Cells[i].Solver
		if s == nil {
			continue
		}
		for l := range layers {
			s.Layers = append(s.Layers, result.SolverLayer{At: fmt.Sprintf("/blocks/blocks.%d/Add_output_0", l),
				ControlNorm: math.Pow(10, -float64(l%4)) * float64(1+i%7), Loss: 1})
		}
		for k := range sweeps {
			s.Sweeps, s.Traced = append(s.Sweeps, 100/float64(1+k)), 8
		}
	}
	return f
}

// TestNothingOverlaps lays out figures from one model to a crowd, in files, which are as wide as one or two columns of
// print, and in pages. Usual ones are no higher than a printed page. Some sizes between others are laid out with
// SELFHEAL_TEST_LARGE.
func TestNothingOverlaps(t *testing.T) {
	t.Parallel()
	long := fixture()
	for i := range long.Cells {
		long.Cells[i].Recipe = "" // names of attacks instead of short titles
		long.Cells[i].Attack = strings.Replace(long.Cells[i].Attack, "aa-", "an-attack-with-quite-a-long-name-", 1)
	}
	whole := arranged(fixture(), records(fixture()))
	whole.Theory = theoryFixture()
	between := []string{"usual five models", "usual nine", "two", "four", "five controls", "two axes", "two layers",
		"two traced"}
	for name, v := range map[string]page{
		"usual": whole, "usual study": arranged(studyFixture(), nil), "usual seeds": arranged(seeded(), nil),
		"usual corruptions": arranged(corruptedFile(), nil), "usual bounds": arranged(boundedFile(), nil),
		"usual five models": arranged(several(5, 2), nil), "usual nine": arranged(several(9, 2), nil),
		"usual twelve": arranged(several(12, 2), nil), "overlaid": arranged(several(6, 3), nil),
		"long": arranged(long, nil), "one": arranged(crowded(1), nil), "two": arranged(crowded(2), nil),
		"four": arranged(crowded(4), nil), "seven": arranged(crowded(7), nil),
		"one model": arranged(extreme(1, 1, 3), nil), "a dozen": arranged(extreme(12, 1, 4), nil),
		"five controls": arranged(extreme(2, 5, 4), nil), "nine axes": arranged(extreme(6, 3, 9), nil),
		"two axes": arranged(extreme(1, 5, 2), nil), "nine controls": arranged(extreme(1, 9, 9), nil),
		"one layer": arranged(traced(1, 1, 0, 1), nil), "two layers": arranged(traced(1, 2, 3, 1), nil),
		"two traced": arranged(traced(2, 3, 1, 2), nil), "forty sweeps": arranged(traced(3, 6, 40, 3), nil),
		"twelve layers": arranged(traced(3, 12, 3, 1), nil),
	} {
		if slices.Contains(between, name) && !testinput.Large() {
			continue
		}
		for i, doc := range dataURI.FindAllString(written(t, renderHTML, v), -1) {
			legible(t, fmt.Sprintf("%s, figure %d of the page", name, i), doc)
		}
		for file, doc := range drawn(t, v) {
			legible(t, name+", "+file, doc)
			size := svgSize.FindStringSubmatch(doc)
			width, height := float(t, size[1]), float(t, size[2])
			if math.Min(math.Abs(width-3.3*72), math.Abs(width-6.8*72)) > 0.01 ||
				height > 10.7*72 && strings.HasPrefix(name, "usual") {
				t.Errorf("%s, %s is %v by %v points", name, file, width, height)
			}
		}
	}
}

// Axes whose labels would overlap are numbered, values stand below plots if a page has room, and beyond the limit of a
// figure of traces, networks have only tables.
func TestCrowds(t *testing.T) {
	t.Parallel()
	have := legible(t, "22 axes", drawn(t, arranged(crowded(7), nil))["radar-crowded.svg"])
	if !have["22"] || !have["22  AA ℓ1 (28/255)"] {
		t.Errorf("22 axes are not numbered, or the numbers' key is missing: %v", have)
	}
	for models, want := range map[int]bool{9: true, 12: false} {
		doc := drawn(t, arranged(several(models, 2), nil))["radar-s.svg"]
		if have := legible(t, "values", doc); have["95.0"] != want {
			t.Errorf("%d models: values below the plots: %v", models, have["95.0"])
		}
	}
	ten := arranged(traced(5, 1, 0, 1), nil)
	must.Have(t, written(t, renderHTML, ten), "10 networks under a control are more than one shows")
	if drawn(t, ten)["control-crowded.svg"] != "" {
		t.Error("ten networks have a figure of traces")
	}
}

// Shortening names of any length takes a time that does not grow with the square of the length. The test passes if it
// ends.
func TestEndlessNames(t *testing.T) {
	t.Parallel()
	f := fixture()
	f.Solver = studyFixture().Solver
	names := map[string]bool{}
	for i, s := range f.Suites {
		f.Suites[i].Title = "Robustness curves"
		for _, name := range slices.Concat(s.Models, s.Controls, s.Attacks, []string{f.Suites[i].Title}) {
			names[name] = true
		}
	}
	for i, c := range f.Cells {
		f.Cells[i].Recipe = "" // the attack's name is its title
		for _, step := range c.Steps {
			names[step.Attack] = true
		}
		if c.Solver != nil {
			for _, l := range c.Solver.Layers {
				names[l.At] = true
			}
		}
	}
	quoted := func(s string) string { return string(must.Get(json.Marshal(s))(t)) }
	var pairs []string
	long := map[string]string{}
	for name := range names {
		long[name] = name + strings.Repeat("endless-", 6000) + name
		pairs = append(pairs, quoted(name), quoted(long[name]))
	}
	recs := records(f)
	for i := range recs {
		for _, name := range []*string{&recs[i].Model, &recs[i].Defense, &recs[i].Attack} {
			*name = cmp.Or(long[*name], *name)
		}
	}
	data := must.Get(json.Marshal(f))(t)
	f = &result.File{}
	must.Do(t, json.Unmarshal([]byte(strings.NewReplacer(pairs...).Replace(string(data))), f))
	all := drawn(t, arranged(f, recs))
	if len(all) < 15 {
		t.Errorf("%d figures", len(all))
	}
	for name, doc := range all {
		_, picture, _ := strings.Cut(doc, "</title>") // it holds the full names
		if picture == "" || strings.Contains(picture, strings.Repeat("endless-", 100)) {
			t.Errorf("%s has a name in full, or nothing", name)
		}
	}
}

// pixels returns the colours of a PNG file, and its width in pixels.
func pixels(t *testing.T, file string) (colours map[color.RGBA]bool, wide int) {
	t.Helper()
	img := must.Get(png.Decode(strings.NewReader(file)))(t)
	colours = map[color.RGBA]bool{}
	var last color.Color
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if c := img.At(x, y); c != last { // neighbours are mostly equal
				colours[color.RGBAModel.Convert(c).(color.RGBA)], last = true, c
			}
		}
	}
	return colours, img.Bounds().Dx()
}

// Every PNG is as wide as one or two columns at 300 dpi, which it says, and shows paper and the colours of the
// undefended network and a control.
func TestPNG(t *testing.T) {
	t.Parallel()
	// In these suites only the undefended network was attacked.
	attackedOnce := []string{"waterfall-real.png", "waterfall-single.png", "waterfall-curve.png"}
	paper, baseline := color.RGBA{255, 255, 255, 255}, color.RGBA{0xb5, 0x46, 0, 255}
	control := color.RGBA{4, 0x53, 0x89, 255}
	for name, content := range report(t) {
		if !strings.HasSuffix(name, ".png") {
			continue
		}
		colours, wide := pixels(t, content)
		if wide != 990 && wide != 2040 {
			t.Errorf("%s is %d pixels wide", name, wide)
		}
		at := strings.Index(content[:80], "pHYs")
		if at < 0 || binary.BigEndian.Uint32([]byte(content[at+4:])) != 11811 || content[at+12] != 1 { // dots per metre
			t.Errorf("%s is not of 300 dpi", name)
		}
		if !colours[paper] || !colours[baseline] && !strings.HasPrefix(name, "control-") || // only controls have traces
			!colours[control] && !slices.Contains(attackedOnce, name) {
			t.Errorf("%s lacks paper, the undefended network's colour or the control's", name)
		}
	}
}

// Nothing looks like a defect: bars have no holes, and corners of a radar plot that meet have one marker.
func TestMarkersAreFew(t *testing.T) {
	t.Parallel()
	fills := func(doc, colour string) int { return strings.Count(doc, "fill:#"+colour) }
	bars := drawn(t, arranged(several(1, 1), nil))["radar-s.svg"]
	waterfall := drawn(t, arranged(fixture(), nil))["waterfall-real.svg"]
	if fills(bars, "FFFFFF") != 1 || fills(waterfall, "FFFFFF") != 1 { // the sheet's own
		t.Errorf("bars have %d and %d patches of paper", fills(bars, "FFFFFF"), fills(waterfall, "FFFFFF"))
	}
	f := several(1, 4)
	for i := range f.Cells {
		if c := &f.Cells[i]; c.Attack != "none" && c.Defense == "none" {
			c.Accuracy = 0
		}
	}
	radar := drawn(t, arranged(f, nil))["radar-s.svg"]
	// The undefended network has its clean corner and the middle, the control five corners, both the legend's and the
	// table's.
	if a, b := fills(radar, "B54600"), fills(radar, "045389"); a != 2+2 || b != 5+2 {
		t.Errorf("the undefended network has %d markers, the control %d", a, b)
	}
}

// The first screen compares all models: one by itself, up to six over each other, more in the order of robustness.
func TestOverview(t *testing.T) {
	t.Parallel()
	two, other := several(2, 3), several(1, 3)
	other.Suites[0].Name = "another"
	for _, c := range other.Cells {
		c.Suite = "another"
		two.Cells = append(two.Cells, c)
	}
	two.Suites = append(two.Suites, other.Suites...)
	back := several(8, 3)
	slices.Reverse(back.Suites[0].Models)
	const radar, bars = "Radar plot of accuracy in %, s (d · n = 100 · oblivious), ", "Bars of all models, the most "
	for _, c := range []struct {
		name string
		v    *view.Report
		want []string // how each figure's description begins
		has  string   // the last one's
	}{
		{"one", view.Of(several(1, 3)), []string{"Radar plot of accuracy in %, s"}, ""},
		{"one, without axes enough", view.Of(several(1, 1)), []string{"Bars of accuracy in %, s"}, ""},
		{"four", view.Of(several(4, 3)), []string{radar + "undefended", radar + "controlled: pca"},
			"m03, pca: Clean 92.0, a0 ℓ∞ (1/255) 74.0, a1 ℓ∞ (2/255) 73.0, a2 ℓ∞ (3/255) 72.0."},
		{"six", view.Of(several(6, 2)), []string{radar + "undefended", radar + "controlled: pca"}, "m05, pca"},
		{"four, without axes enough", view.Of(several(4, 1)), []string{bars}, ""},
		{"eight", view.Of(back), []string{bars}, " m00, controlled: pca: 93.0, clean 92.0. m01, undefended: 83.0"},
		{"of two suites", view.Of(two), []string{bars}, "m00 · another, undefended: 90.0, clean 95.0."},
		{"thirty", view.Of(several(30, 1)), []string{bars}, "the first 24 of 30"},
		{"none", view.Of(&result.File{}), nil, ""},
		{"published", view.Paper(), nil, ""},
	} {
		got := figure.Overview(c.v)
		if len(got) != len(c.want) {
			t.Fatalf("%s: %d figures", c.name, len(got))
		}
		for i, f := range got {
			if !strings.HasPrefix(f.Alt, c.want[i]) || i == len(got)-1 && !strings.Contains(f.Alt, c.has) {
				t.Errorf("%s: figure %d: %s", c.name, i, f.Alt)
			}
		}
	}
}
