package reports

import (
	"encoding/xml"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/result"
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
				out = append(out, svgText{left: x, right: x + num(a["textLength"]), top: y - 0.72*size, bottom: y + 0.2*size})
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
	s := result.Suite{Name: "extreme", Title: "A suite of extremes, whose title is so long that it has to be broken", Dataset: "cifar10-test", Mode: "whitebox-through"}
	for i := range controls {
		s.Controls = append(s.Controls, fmt.Sprintf("%s-control-%d", name, i))
	}
	var attacks []attacked
	for i := range axes - 1 {
		a := attacked{fmt.Sprintf("aa-%d", i), []string{"linf", "l2", "l1"}[i%3], "autoattack-standard/1", float64(4*(i+1)) / 255}
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

// TestNothingOverlaps lays out figures from one model to a crowd: no text may
// meet another or leave the picture.
func TestNothingOverlaps(t *testing.T) {
	long := fixture()
	for i := range long.Cells {
		long.Cells[i].Recipe = "" // names of attacks instead of short titles
		long.Cells[i].Attack = strings.Replace(long.Cells[i].Attack, "aa-", "an-attack-with-quite-a-long-name-", 1)
	}
	for name, f := range map[string]*result.File{"fixture": fixture(), "long": long, "one": crowded(1), "two": crowded(2), "four": crowded(4), "seven": crowded(7),
		"one model": extreme(1, 1, 3), "a dozen": extreme(12, 1, 4), "five controls": extreme(2, 5, 4), "nine axes": extreme(6, 3, 9), "two axes": extreme(1, 5, 2), "nine controls": extreme(1, 9, 9)} {
		for _, s := range derive(f).Suites {
			figures := []picture{fullFigure(s, light), fullCurves(s, light)}
			for _, m := range s.Models {
				figures = append(figures, panelFigure(s, m, dark))
			}
			for _, c := range s.Curves() {
				figures = append(figures, panelCurves(s, c, dark))
			}
			if hasWaterfalls(s) {
				figures = append(figures, fullWaterfalls(s, light), waterfallPanel(s, s.Models[0], dark))
			}
			for i, fig := range figures {
				all := texts(t, svg(fig))
				width, height := fig.size()
				for a, p := range all {
					for _, q := range all[:a] {
						if p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom {
							t.Errorf("%s, %s, figure %d: %q meets %q", name, s.Name, i, p.text, q.text)
						}
					}
					if p.left < 0 || p.right > width.Points() || p.bottom > 0 || -p.top > height.Points() {
						t.Errorf("%s, %s, figure %d: %q leaves the picture", name, s.Name, i, p.text)
					}
				}
			}
		}
	}
}

func TestFigureText(t *testing.T) {
	files := report(t)
	for file, want := range map[string][]string{
		"radar-real.svg": {"CIFAR-10, adversarially trained", "accuracy in % · cifar10-test · n = 200 · oblivious", "resnet-2b", "None", "AA ℓ∞", "ε = 8/255", "AA ℓ2", "ε = 0.5",
			"AA ℓ1", "ε = 12", "20", "100%", "baseline", "controlled: pca (optimisation loop)", "adversarial images made on the undefended network, then", "given to every defense", "82.0", "80.5", "25.5", "46.0", "33.0"},
		"radar--white-box.svg": {scriptName, texName, "–", "controlled: auto_encoder (optimisation loop)", "ε = 4/255", "aa-l1"},
		"radar-single.svg":     {"0 %", "80 %", "100 %", "Square ℓ∞", "ε = 0.05", "38.5", "0.0", "controlled: pca"},
		"curve-curve.svg":      {"Robustness curves", "accuracy in % · cifar10-test · n = 200 · oblivious", "resnet-2b", "FAB-T ℓ∞", "Bisection ℓ2", "0", "4/255", "8/255", "0.5", "1", "ε", "60 %", "baseline"},
	} {
		have := map[string]bool{}
		for _, x := range texts(t, files[file]) {
			have[x.text] = true
		}
		for _, w := range want {
			if !have[w] {
				t.Errorf("%s lacks %q", file, w)
			}
		}
		if !strings.Contains(files[file], "<title>") {
			t.Errorf("%s has no title", file)
		}
	}
	if strings.Contains(files["radar-single.svg"], "stroke-dasharray") || !strings.Contains(files["radar-single.svg"], "<title>Bars") {
		t.Error("a suite with two axes is not drawn as bars")
	}
}

func TestNumberedAxes(t *testing.T) {
	s := derive(crowded(7)).Suites[0]
	f := panelFigure(s, s.Models[0], light)
	if !f.axes().numbered {
		t.Fatal("22 axes are not numbered")
	}
	have := map[string]bool{}
	for _, x := range texts(t, svg(f)) {
		have[x.text] = true
	}
	if !have["22"] || !have["22  "+s.Columns[21].Title()] {
		t.Error("the numbers' key is missing")
	}
}

func TestPNG(t *testing.T) {
	whitebox := map[string]bool{"waterfall--white-box.png": true, "waterfall-detached.png": true, "waterfall-bpda.png": true, "waterfall-through.png": true}
	for name, content := range report(t) {
		if !strings.HasSuffix(name, ".png") {
			continue
		}
		img, err := png.Decode(strings.NewReader(content))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w := img.Bounds().Dx(); w != 990 && w != 2040 { // 3.3 and 6.8 inches at 300 dpi
			t.Errorf("%s is %d pixels wide", name, w)
		}
		colours := map[uint32]bool{}
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				r, g, b, _ := img.At(x, y).RGBA()
				colours[r>>8<<16|g>>8<<8|b>>8] = true
			}
		}
		for i, c := range []color.Color{light.paper, light.lines[0], light.lines[1]} { // and baseline, first control
			if i == 2 && strings.HasPrefix(name, "waterfall-") && !whitebox[name] || // only the undefended network was attacked
				i == 1 && strings.HasPrefix(name, "control-") { // only controls have traces
				continue
			}
			if r, g, b, _ := c.RGBA(); !colours[r>>8<<16|g>>8<<8|b>>8] {
				t.Errorf("%s has no pixel of colour %d", name, i)
			}
		}
		if !strings.Contains(content[:80], "pHYs") {
			t.Errorf("%s does not say its resolution", name)
		}
	}
}
