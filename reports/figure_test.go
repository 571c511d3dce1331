package reports

import (
	"encoding/xml"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
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

// extreme is a white-box suite of so many models, controls and axes, whose names have about 60
// letters: accuracies from 0 to 100 %, and a cell that is missing.
func extreme(models, controls, axes int) *result.File {
	const name = "a-name-of-sixty-letters-whose-end-is-what-tells-it-from-other"
	f := &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	s := result.Suite{Name: "extreme", Title: "A suite of extremes, whose title is so long that it has to be broken",
		Dataset: "cifar10-test", Mode: "whitebox-through"}
	for i := range controls {
		s.Controls = append(s.Controls, fmt.Sprintf("%s-control-%d", name, i))
	}
	var attacks []attacked
	for i := range axes - 1 {
		a := attacked{fmt.Sprintf("aa-%d", i), []string{"linf", "l2", "l1"}[i%3], "autoattack-standard/1",
			float64(4*(i+1)) / 255}
		s.Attacks, attacks = append(s.Attacks, a.name), append(attacks, a)
	}
	var correct [][][]int
	for m := range models {
		s.Models = append(s.Models, fmt.Sprintf("%s-%d", name, m))
		of := make([][]int, controls+1)
		for d := range of {
			of[d] = []int{1000}
			for a := range attacks {
				k := max(0, d*1000/(controls+1)-31*a)
				if m == 1 && d == 1 && a == 1 {
					k = -1
				}
				of[d] = append(of[d], k)
			}
		}
		correct = append(correct, of)
	}
	addCells(f, s, 1000, attacks, correct)
	return f
}

// legible lays a sheet out: no text may meet another or leave the picture. It returns the texts.
func legible(t *testing.T, name string, s sheet, th theme) map[string]bool {
	t.Helper()
	width, height := s.size()
	have, all := map[string]bool{}, texts(t, svg(s, th))
	for a, p := range all {
		have[p.text] = true
		for _, q := range all[:a] {
			if p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom {
				t.Errorf("%s: %q meets %q", name, p.text, q.text)
			}
		}
		if p.left < 0 || p.right > width.Points() || p.bottom > 0 || -p.top > height.Points() {
			t.Errorf("%s: %q leaves the picture", name, p.text)
		}
	}
	return have
}

// TestNothingOverlaps lays out figures from one model to a crowd.
func TestNothingOverlaps(t *testing.T) {
	t.Parallel()
	long := fixture()
	for i := range long.Cells {
		long.Cells[i].Recipe = "" // names of attacks instead of short titles
		long.Cells[i].Attack = strings.Replace(long.Cells[i].Attack, "aa-", "an-attack-with-quite-a-long-name-", 1)
	}
	for name, f := range map[string]*result.File{
		"fixture": fixture(), "long": long, "one": crowded(1), "two": crowded(2),
		"four": crowded(4), "seven": crowded(7),
		"one model": extreme(1, 1, 3), "a dozen": extreme(12, 1, 4), "five controls": extreme(2, 5, 4),
		"nine axes": extreme(6, 3, 9), "two axes": extreme(1, 5, 2), "nine controls": extreme(1, 9, 9),
	} {
		for _, s := range derive(f).Suites {
			name := name + ", " + s.Name
			for _, fig := range figures {
				if f := fig.Draw(s); f.Panels != nil {
					legible(t, name+", "+fig.Name, f, light)
				}
			}
			for _, f := range slices.Concat(s.Figures(true)...) {
				legible(t, name+", a page's", f, dark)
			}
		}
		for _, overview := range derive(f).Overview() {
			legible(t, name+", the first screen's", overview, light)
		}
	}
}

// Every figure's description and texts are those of the golden file.
func TestFigureGolden(t *testing.T) {
	t.Parallel()
	var sb strings.Builder
	files := maps.Clone(report(t))
	for name, content := range textFiles(t, studyFixture(), nil) {
		if strings.HasPrefix(name, "solver-") {
			files[name] = content
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".svg") {
			_, title, _ := strings.Cut(files[name], "<title>")
			title, _, _ = strings.Cut(title, "</title>")
			fmt.Fprintf(&sb, "%s: %s\n", name, title)
			for _, x := range texts(t, files[name]) {
				fmt.Fprintf(&sb, "  %s\n", x.text)
			}
		}
	}
	golden(t, "figures.txt", sb.String())
}

func TestNumberedAxes(t *testing.T) {
	t.Parallel()
	s := derive(crowded(7)).Suites[0]
	have := legible(t, "22 axes", s.pageAccuracies(s.Models[0]), light)
	if !have["22"] || !have["22  "+s.Columns[21].Title()] {
		t.Error("22 axes are not numbered, or the numbers' key is missing")
	}
}

// pixels are the colours of a PNG file, which is so many pixels wide.
func pixels(t *testing.T, file string) (colours map[color.RGBA]bool, wide int) {
	t.Helper()
	img := must.Get(png.Decode(strings.NewReader(file)))(t)
	colours = map[color.RGBA]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			colours[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)] = true
		}
	}
	return colours, img.Bounds().Dx()
}

// shows reports whether a colour is among those of a picture.
func shows(colours map[color.RGBA]bool, c color.Color) bool {
	return colours[color.RGBAModel.Convert(c).(color.RGBA)]
}

// Every PNG is as wide as one or two columns at 300 dpi, and shows paper, baseline and control.
func TestPNG(t *testing.T) {
	t.Parallel()
	// Of these suites only the undefended network was attacked.
	attackedOnce := []string{"waterfall-real.png", "waterfall-single.png", "waterfall-curve.png"}
	for name, content := range report(t) {
		if !strings.HasSuffix(name, ".png") {
			continue
		}
		colours, wide := pixels(t, content)
		if wide != 990 && wide != 2040 {
			t.Errorf("%s is %d pixels wide", name, wide)
		}
		if !shows(colours, light.paper) ||
			!shows(colours, light.lines[0]) && !strings.HasPrefix(name, "control-") || // only controls have traces
			!shows(colours, light.lines[1]) && !slices.Contains(attackedOnce, name) {
			t.Errorf("%s lacks paper, the baseline's colour or the control's", name)
		}
	}
}
