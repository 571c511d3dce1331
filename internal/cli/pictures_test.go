package cli

import (
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// --save-pictures writes each adversarial image under the name of its own file. On the levels of 8 bits the pictures
// are the images to the bit. The same command writes them again, but not over somebody's file.
func TestPictures(t *testing.T) {
	testinput.Runtime(t)
	w := newWorld(t)
	t.Chdir(w.dir)
	args := strings.Fields("attack net.onnx --data photos --epsilon 30/255 --attack pgd --param steps=3 " +
		"--pixels 8bit --save-pictures --out pictured")
	for range 2 {
		stdout := done(t, args...)
		must.Have(t, stdout, "pictures: pictured/pictures, 4 of 4 exact\n")
	}
	saved := must.Get(result.ReadSaved("pictured/adversarial/index.json"))(t)
	array := saved.Arrays[0].File
	shape, x := must.Get2(dataset.ReadArray(os.DirFS("pictured"), "adversarial/"+array))(t)
	plane, broken := shape[2]*shape[3], 0
	for i, im := range saved.Images[saved.Arrays[0].Dataset] {
		f := must.Get(os.Open(filepath.Join("pictured", "pictures", strings.TrimSuffix(array, ".npy"), im.File)))(t)
		picture := must.Get(png.Decode(f))(t)
		must.Do(t, f.Close())
		clean := must.Get(os.Open(filepath.Join("photos", im.File)))(t)
		was := must.Get(png.Decode(clean))(t)
		must.Do(t, clean.Close())
		changed := false
		for at := range plane {
			r, g, b, _ := picture.At(at%shape[3], at/shape[3]).RGBA()
			r0, _, _, _ := was.At(at%shape[3], at/shape[3]).RGBA()
			changed = changed || r != r0
			for channel, v := range []uint32{r, g, b}[:shape[1]] {
				if want := x[(i*shape[1]+channel)*plane+at]; float32(v>>8)/255 != want {
					t.Fatalf("%s: value %d of channel %d is %d, want %v", im.File, at, channel, v>>8, 255*want)
				}
			}
		}
		if changed {
			broken++
		}
	}
	if broken == 0 {
		t.Error("no picture differs from its image")
	}
	mine := filepath.Join("pictured", "pictures", strings.TrimSuffix(array, ".npy"), "cat", "0.png")
	must.Do(t, os.WriteFile(mine, []byte("mine"), 0o644))
	code, _, stderr := call(args...)
	if code != exitUsage || !strings.Contains(stderr, "cat/0.png is there, and is no report") ||
		read(t, mine) != "mine" {
		t.Errorf("somebody's picture: exit %d, %s", code, stderr)
	}
	refused(t, exitUsage, "has no use for a certificate", strings.Fields("attack net.onnx --data photos --attack "+
		"bounds --epsilon 1/255 --save-pictures --out proven")...)
	code, _, stderr = call(strings.Fields("run --config c.yaml --save-pictures --out unsaved --quiet")...)
	if code != exitFailed || !strings.Contains(stderr, "unsaved has saved no adversarial images") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
