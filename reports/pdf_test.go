package reports

import (
	"fmt"
	"image"
	"image/png"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// Every figure is a PDF too, of the SVG's size. Its table names the place of every object.
func TestPDF(t *testing.T) {
	t.Parallel()
	files, pages := report(t), 0
	box := regexp.MustCompile(`/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\]`)
	for name, doc := range files {
		if !strings.HasSuffix(name, ".pdf") {
			if strings.HasSuffix(name, ".svg") && files[strings.TrimSuffix(name, "svg")+"pdf"] == "" {
				t.Errorf("%s is no PDF", name)
			}
			continue
		}
		pages++
		at := must.Get(strconv.Atoi(regexp.MustCompile(`startxref\n(\d+)\n%%EOF\n$`).FindStringSubmatch(doc)[1]))(t)
		places := regexp.MustCompile(`(?m)^(\d{10}) 00000 n $`).FindAllStringSubmatch(doc[at:], -1)
		for i, m := range places {
			from := must.Get(strconv.Atoi(m[1]))(t)
			if !strings.HasPrefix(doc[from:], fmt.Sprintf("%d 0 obj\n", i+1)) {
				t.Errorf("%s: object %d is not at %d", name, i+1, from)
			}
		}
		size := box.FindStringSubmatch(doc)
		svg := svgSize.FindStringSubmatch(files[strings.TrimSuffix(name, "pdf")+"svg"])
		if math.Abs(float(t, size[1])-float(t, svg[1])) > 0.01 || math.Abs(float(t, size[2])-float(t, svg[2])) > 0.01 {
			t.Errorf("%s: its page is %v, the SVG %v", name, size[1:], svg[1:])
		}
	}
	if pages < 5 {
		t.Errorf("%d figures", pages)
	}
}

// A PDF shows what the PNG shows: another program draws it, and they differ by a small part of the PNG's ink.
func TestPDFLooksLikePNG(t *testing.T) {
	t.Parallel()
	pdftoppm, err := exec.LookPath("pdftoppm")
	if err != nil {
		t.Skip("pdftoppm is not on the PATH (Debian: poppler-utils); PDF figures stay unseen")
	}
	dir, files := t.TempDir(), report(t)
	files = maps.Clone(files)
	maps.Copy(files, writeTheory(t)) // with a picture among its panels
	for name, most := range map[string]float64{"radar-real": 0.1, "curve-curve": 0.1, "waterfall-real": 0.1,
		"theory-plane": 0.25} { // the PNG smooths a picture of few pixels
		must.Do(t, os.WriteFile(filepath.Join(dir, "a.pdf"), []byte(files[name+".pdf"]), 0o600))
		if out, err := exec.Command(pdftoppm, "-singlefile", "-png", "-r", "300", filepath.Join(dir, "a.pdf"),
			filepath.Join(dir, "a")).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v %s", name, err, out)
		}
		seen := must.Get(os.Open(filepath.Join(dir, "a.png")))(t)
		pdf := must.Get(png.Decode(seen))(t)
		seen.Close()
		img := must.Get(png.Decode(strings.NewReader(files[name+".png"])))(t)
		var apart, ink float64
		for y := range img.Bounds().Dy() / 16 { // in squares, as the programs smooth edges in their own ways
			for x := range img.Bounds().Dx() / 16 {
				got, want := grey(pdf, 16*x, 16*y, 16), grey(img, 16*x, 16*y, 16)
				apart, ink = apart+math.Abs(got-want), ink+255-want
			}
		}
		if b := pdf.Bounds(); b.Dx() < img.Bounds().Dx() || b.Dy() < img.Bounds().Dy() || apart > most*ink {
			t.Errorf("%s: the pictures of %v and %v differ by %.3f of their ink", name, b, img.Bounds(), apart/ink)
		}
	}
}

// grey returns the mean of a square of pixels, from 0 for black to 255; paper lies beyond the edges.
func grey(img image.Image, x, y, side int) (mean float64) {
	for i := range side * side {
		at := image.Pt(x+i%side, y+i/side)
		r, g, b, a := img.At(at.X, at.Y).RGBA()
		if a == 0 {
			r, g, b = 0xffff, 0xffff, 0xffff
		}
		mean += float64(r+g+b) / 3 / 257 / float64(side*side)
	}
	return mean
}
