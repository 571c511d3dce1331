package cli

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/harness/result"
)

// A folder's gallery is part of its report rendered again; one of another run or that is no
// gallery is refused in a line that names it, and a folder without one needs none.
func TestReportGallery(t *testing.T) {
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	p := picture.Bytes()
	norm, epsilon := "l2", 0.5
	file := &result.File{Schema: result.Schema, ConfigSHA256: "ab", Cells: []result.Cell{
		{Suite: "s", Model: "m", Defense: "none", Mode: "oblivious", Attack: "none", N: 1, Correct: 1, Accuracy: 1, Verdicts: "1"},
		{Suite: "s", Model: "m", Defense: "none", Mode: "oblivious", Attack: "pgd", Norm: &norm, Epsilon: &epsilon, N: 1, Verdicts: "0"}}}
	gallery := &result.Gallery{Schema: result.GallerySchema, ConfigSHA256: "ab", Cases: []result.GalleryCase{{Suite: "s", Model: "m", Defense: "none", Attack: "pgd", Norm: norm, Epsilon: epsilon, Kind: result.Broken,
		LabelName: "<script>", Pictures: result.GalleryPictures{Width: 2, Height: 2, Clean: p, Adversarial: p, Perturbation: p, Magnification: 15}}}}
	dir := t.TempDir()
	if err := result.Write(filepath.Join(dir, "results.json"), file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "gallery.json")
	render := func() (code int, page, stderr string) {
		out := t.TempDir()
		var stdout, errors bytes.Buffer
		code = run(context.Background(), repository, []string{"report", dir, "--out", out}, &stdout, &errors)
		data, _ := os.ReadFile(filepath.Join(out, "report.html"))
		return code, string(data), errors.String()
	}
	if code, page, stderr := render(); code != exitOK || strings.Contains(page, "Gallery") {
		t.Errorf("without a gallery: exit %d, %s", code, stderr)
	}
	if err := result.WriteGallery(path, gallery); err != nil {
		t.Fatal(err)
	}
	if code, page, stderr := render(); code != exitOK || !strings.Contains(page, "Broken: image 0, &lt;script&gt;") || strings.Count(page, "data:image/png;base64,") != 3 {
		t.Errorf("with a gallery: exit %d, %s", code, stderr)
	}
	gallery.ConfigSHA256 = "cd"
	if err := result.WriteGallery(path, gallery); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := render(); code != exitFailed || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "gallery.json is of another run") {
		t.Errorf("another run's gallery: exit %d, %s", code, stderr)
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := render(); code != exitFailed || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, path) {
		t.Errorf("half a gallery: exit %d, %s", code, stderr)
	}
}
