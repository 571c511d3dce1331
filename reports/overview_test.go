package reports

import (
	"fmt"
	"image/color"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/recorder"

	"selfheal/harness/result"
)

// several is a suite of so many models under one control; the i-th has 90 − 7·i right images of 100 under its worst
// attack, and under control as many more as it has attacks.
func several(models, attacks int) *result.File {
	f := &result.File{Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	s := result.Suite{Name: "s", Dataset: "d", Mode: result.Oblivious, Controls: []string{"pca"}}
	var all []attacked
	var correct [][][]int
	for a := range attacks {
		s.Attacks = append(s.Attacks, fmt.Sprint("a", a))
		all = append(all, attacked{s.Attacks[a], "linf", "", float64(a+1) / 255})
	}
	for m := range models {
		s.Models = append(s.Models, fmt.Sprintf("m%02d", m))
		alone, healed := []int{95}, []int{92}
		for a := range attacks {
			alone, healed = append(alone, 90-7*m-a+attacks-1), append(healed, 90-7*m-a+2*attacks-1)
		}
		correct = append(correct, [][]int{alone, healed})
	}
	addCells(f, s, 100, all, correct)
	return f
}

// The first screen compares all models: one by itself, up to six over each other, more in order.
func TestOverview(t *testing.T) {
	kinds := func(f *result.File) (out []string) {
		for _, sheet := range derive(f).Overview() {
			switch p := sheet.Panels[0].(type) {
			case accuracyPanel:
				out = append(out, fmt.Sprintf("%s: %d lines", p.model, len(p.lines)))
			case rankPanel:
				out = append(out, fmt.Sprintf("%d ranked", len(p)))
			}
		}
		return out
	}
	two := several(2, 3)
	other := several(1, 3)
	other.Suites[0].Name = "another"
	two.Suites = append(two.Suites, other.Suites...)
	for i := range other.Cells {
		other.Cells[i].Suite = "another"
	}
	two.Cells = append(two.Cells, other.Cells...)
	for _, c := range []struct {
		name string
		f    *result.File
		want []string
	}{
		{"one", several(1, 3), []string{"m00: 2 lines"}},
		{"one, without axes enough", several(1, 1), []string{"m00: 2 lines"}},
		{"four", several(4, 3), []string{"undefended: 4 lines", "controlled: pca: 4 lines"}},
		{"six", several(6, 2), []string{"undefended: 6 lines", "controlled: pca: 6 lines"}},
		{"four, without axes enough", several(4, 1), []string{"4 ranked"}},
		{"seven", several(7, 3), []string{"7 ranked"}},
		{"of two suites", two, []string{"3 ranked"}},
		{"thirty", several(30, 1), []string{"24 ranked"}},
		{"none", &result.File{}, nil},
	} {
		if got := kinds(c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if paperView().Overview() != nil {
		t.Error("published numbers have a first figure")
	}
	if f := derive(several(30, 1)).Overview()[0]; !strings.Contains(f.Caption, "the first 24 of 30") {
		t.Errorf("caption %q", f.Caption)
	}
	alt := derive(several(4, 3)).Overview()[1].Alt
	if !strings.Contains(alt, "m03, pca: None 92.0, a0 ℓ∞ (1/255) 74.0, a1 ℓ∞ (2/255) 73.0, "+
		"a2 ℓ∞ (3/255) 72.0.") {
		t.Errorf("read aloud: %s", alt)
	}
}

// Bars stand in the order of robustness, whatever the order of the config, and say their numbers.
func TestRanking(t *testing.T) {
	f := several(8, 3)
	slices.Reverse(f.Suites[0].Models)
	ranked := derive(f).Overview()[0]
	var names []string
	for _, one := range ranked.Panels[0].(rankPanel) {
		names = append(names, one.Name)
	}
	if !slices.IsSorted(names) || len(names) != 8 {
		t.Errorf("in the order %q", names)
	}
	have := legible(t, "ranked", ranked, light)
	for _, text := range []string{"m00", "90.0", "93.0", "m07", "41.0", "44.0", "undefended", "controlled: pca"} {
		if !have[text] {
			t.Errorf("no %q in %v", text, have)
		}
	}
	if want := " m07, controlled: pca: 44.0, clean 92.0."; !strings.Contains(ranked.Alt, want) {
		t.Errorf("read aloud: %s", ranked.Alt)
	}
}

// fills are the colours that a sheet is filled with, in order.
func fills(s sheet) (out []color.Color) {
	var c recorder.Canvas
	s.draw(&c, light)
	var now color.Color
	for _, a := range c.Actions {
		switch a := a.(type) {
		case *recorder.SetColor:
			now = a.Color
		case *recorder.Fill:
			out = append(out, now)
		}
	}
	return out
}

// counted are how often a colour is filled.
func counted(all []color.Color, c color.Color) (n int) {
	for _, one := range all {
		if color.NRGBAModel.Convert(one) == color.NRGBAModel.Convert(c) {
			n++
		}
	}
	return n
}

// Nothing looks like a defect: bars have no holes, and corners of a radar plot that meet have one marker.
func TestMarkersAreFew(t *testing.T) {
	bars := derive(several(1, 1)).Suites[0].pageAccuracies("m00")
	if n := counted(fills(bars), light.paper); n != 1 { // the sheet's own
		t.Errorf("bars have %d patches of paper", n-1)
	}
	for _, group := range derive(fixture()).Suites[0].Figures(false) {
		for _, f := range group {
			if n := counted(fills(f), light.paper); n != 1 {
				t.Errorf("%s: bars have %d patches of paper", f.Caption, n-1)
			}
		}
	}
	f := several(1, 4)
	for i := range f.Cells {
		if c := &f.Cells[i]; c.Attack != "none" && c.Defense == "none" {
			c.Accuracy = 0
		}
	}
	radar := fills(derive(f).Suites[0].pageAccuracies("m00"))
	// Of the baseline the clean corner and the middle, and the legend's.
	if n := counted(radar, light.lines[0]); n != 3 {
		t.Errorf("the baseline has %d markers", n)
	}
	if n := counted(radar, light.lines[1]); n != 6 {
		t.Errorf("the control has %d markers of 5 corners", n)
	}
	if near(vg.Point{}, vg.Point{X: 3, Y: 4}, 5) || !near(vg.Point{}, vg.Point{X: 3, Y: 4}, 5.1) {
		t.Error("five points are not five points")
	}
}

// A strength that is a multiple of a grey level is written as one wherever a reader meets it; any other is a decimal.
func TestStrengths(t *testing.T) {
	for _, c := range []struct {
		norm string
		x    float64
		want string
	}{
		{"linf", 2. / 255, "2/255"}, {"linf", float64(float32(0.5+8./255)) - 0.5, "8/255"}, {"linf", 0.03, "0.03"},
		{"l2", 0.5, "0.5"}, {"l2", 2. / 255, "0.00784"}, {"linf", 0, "0"}, {"linf", 1.5 / 255, "0.00588"},
	} {
		if got := strength(c.norm, c.x); got != c.want {
			t.Errorf("%v in %s reads %s, want %s", c.x, c.norm, got, c.want)
		}
	}
	decimal := regexp.MustCompile(`\b0\.(0314|0157|00784|0078|03137)[0-9]*\b`) // of 8, 4 and 2/255
	for name, content := range report(t) {
		if strings.HasSuffix(name, ".png") || name == "tables.csv" {
			continue
		}
		for _, line := range strings.Split(content, "\n") {
			if found := decimal.FindString(line); found != "" {
				t.Errorf("%s says %s: %.200s", name, found, line)
			}
		}
	}
}
