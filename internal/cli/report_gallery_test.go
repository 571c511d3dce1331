package cli

import (
	"bytes"
	"image"
	"image/png"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// A folder's gallery is part of its report rendered again; one of another run or that is no
// gallery is refused in a line that names it, and a folder without one needs none.
func TestReportGallery(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	must.Do(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))))
	p, norm, epsilon := picture.Bytes(), "l2", 0.5
	file := &result.File{Schema: result.Schema, ConfigSHA256: "ab", Cells: []result.Cell{
		{Suite: "s", Model: "m", Defense: "none", Mode: "oblivious", Attack: "none", N: 1, Correct: 1, Accuracy: 1,
			Verdicts: "1"},
		{Suite: "s", Model: "m", Defense: "none", Mode: "oblivious", Attack: "pgd", Norm: &norm, Epsilon: &epsilon,
			N: 1, Verdicts: "0"},
	}}
	pictures := result.GalleryPictures{Width: 2, Height: 2, Clean: p, Adversarial: p, Perturbation: p,
		Magnification: 15}
	gallery := &result.Gallery{Schema: result.GallerySchema, ConfigSHA256: "ab", Cases: []result.GalleryCase{
		{Suite: "s", Model: "m", Defense: "none", Attack: "pgd", Norm: norm, Epsilon: epsilon, Kind: result.Broken,
			LabelName: "<script>", Pictures: pictures},
	}}
	dir := t.TempDir()
	must.Do(t, result.Write(filepath.Join(dir, "results.json"), file))
	path, out := filepath.Join(dir, "gallery.json"), filepath.Join(dir, "rendered")
	render := func() string {
		done(t, "report", dir, "--out", out)
		return read(t, filepath.Join(out, "report.html"))
	}
	if strings.Contains(render(), "Gallery") {
		t.Error("a gallery without one")
	}
	must.Do(t, result.WriteGallery(path, gallery))
	page := render()
	if !strings.Contains(page, "Broken: image 0, &lt;script&gt;") ||
		strings.Count(page, "data:image/png;base64,") != 3 {
		t.Error("no gallery, or its pictures are missing")
	}
	gallery.ConfigSHA256 = "cd"
	must.Do(t, result.WriteGallery(path, gallery))
	refused(t, exitFailed, "gallery.json is of another run", "report", dir, "--out", out)
	put(t, path, []byte("{"))
	refused(t, exitFailed, path, "report", dir, "--out", out)
}
