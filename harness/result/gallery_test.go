package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"selfheal/harness/cell"
	"selfheal/internal/must"
)

func picture(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))))
	return b.Bytes()
}

// galleryOf returns a gallery that a run might write, of one picture of 3×2 pixels.
func galleryOf(p []byte) *Gallery {
	return &Gallery{Schema: GallerySchema, ConfigSHA256: "ab", Notes: []GalleryNote{{"s", "note"}},
		Cases: []GalleryCase{{ID: cell.Of("s", "<m>", "c", "a", 0.5), Norm: "l2", Kind: Healed, Image: 3, Label: 1,
			LabelName: "cat", Perturbation: 0.4, Undefended: GalleryAnswers{GalleryAnswer{1, "cat", 2}, GalleryAnswer{0,
				"dog", -1}}, Controlled: &GalleryAnswers{GalleryAnswer{1, "cat", 1.5}, GalleryAnswer{1, "cat", 0.25}},
			Pictures: GalleryPictures{Width: 3, Height: 2, Clean: p, Adversarial: p, Perturbation: p,
				Magnification: 15, Healed: p}, Trace: []GallerySweep{{4, []SolverLayer{{"input", 1, 4}}}, {3,
				[]SolverLayer{{"input", 1.5, 3}}}}}}}
}

// Reading a gallery returns what was written. A gallery that no run writes is refused.
func TestGalleryFile(t *testing.T) {
	p := picture(t, 3, 2)
	good := func() *Gallery { return galleryOf(p) }
	dir := t.TempDir()
	path := filepath.Join(dir, "gallery.json")
	if _, err := ReadGallery(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	for range 2 { // the second time over the first
		must.Do(t, WriteGallery(path, good()))
	}
	if got, err := ReadGallery(path); err != nil || !reflect.DeepEqual(got, good()) {
		t.Errorf("%+v, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
	must.Refuse(t, WriteGallery(filepath.Join(dir, "absent", "gallery.json"), good()), "gallery.json")
	for want, change := range map[string]func(g *Gallery, c *GalleryCase){
		"schema":                  func(g *Gallery, _ *GalleryCase) { g.Schema = "selfheal.gallery/2" },
		`unknown kind "nice"`:     func(_ *Gallery, c *GalleryCase) { c.Kind = "nice" },
		`defense "none"`:          func(_ *Gallery, c *GalleryCase) { c.Defense = "none" },
		`defense "c"`:             func(_ *Gallery, c *GalleryCase) { c.Controlled = nil },
		`"clean" is no PNG`:       func(_ *Gallery, c *GalleryCase) { c.Pictures.Clean = nil },
		`"healed" is no PNG`:      func(_ *Gallery, c *GalleryCase) { c.Pictures.Healed = []byte("<svg/>") },
		"has 49 cases":            func(g *Gallery, c *GalleryCase) { g.Cases = slices.Repeat(g.Cases, 49) },
		`"clean" is no whole PNG`: func(_ *Gallery, c *GalleryCase) { c.Pictures.Clean = p[:len(p)-20] },
		`"clean" has 5000×1 pixels, m`: func(_ *Gallery, c *GalleryCase) {
			c.Pictures.Width, c.Pictures.Height, c.Pictures.Clean = 5000, 1, picture(t, 5000, 1)
		},
		"bytes of pictures": func(g *Gallery, c *GalleryCase) {
			c.Pictures.Healed = append(slices.Clone(p), make([]byte, GalleryBytes)...)
		},
		`"adversarial" has 2×3`:       func(_ *Gallery, c *GalleryCase) { c.Pictures.Adversarial = picture(t, 2, 3) },
		"sweeps of 1 and of 0 layers": func(_ *Gallery, c *GalleryCase) { c.Trace[1].Layers = nil },
		"case 0, image 3: its trace": func(_ *Gallery, c *GalleryCase) {
			c.Trace[1].Layers = append(c.Trace[1].Layers, SolverLayer{})
		},
	} {
		g := good()
		change(g, &g.Cases[0])
		must.Do(t, os.WriteFile(path, must.Get(json.Marshal(g))(t), 0o644))
		_, err := ReadGallery(path)
		must.Refuse(t, err, "gallery.json")
		must.Refuse(t, err, want)
	}
}

// A case of the gallery fits its kind: an image that was right, is wrong, and for kind healed is right again.
func TestBelievable(t *testing.T) {
	answers := func(clean, adversarial int) GalleryAnswers {
		return GalleryAnswers{Clean: GalleryAnswer{Class: clean}, Adversarial: GalleryAnswer{
			Class: adversarial}}
	}
	of := func(kind string, alone, controlled GalleryAnswers) GalleryCase {
		return GalleryCase{Kind: kind, Label: 1, Perturbation: 0.5, Undefended: alone, Controlled: &controlled}
	}
	right, wrong, broken := answers(1, 1), answers(2, 2), answers(1, 2)
	for i, c := range []struct {
		of   GalleryCase
		want bool
	}{
		{of(Healed, broken, right), true},
		{of(Healed, broken, broken), false},
		{of(Healed, right, right), false},
		{of(Healed, wrong, right), false},
		{of(Broken, right, broken), true},
		{of(Broken, broken, right), false},
		{of(Broken, broken, wrong), false},
		{GalleryCase{Kind: Broken, Label: 1, Perturbation: 0.5, Undefended: broken}, true},
		{GalleryCase{Kind: Broken, Label: 1, Undefended: broken}, false},
		{GalleryCase{Kind: Broken, Label: 1, Perturbation: 0.5, Undefended: broken,
			Trace: []GallerySweep{{Objective: math.NaN()}}}, false},
	} {
		if got := c.of.Believable(); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}
