package dataset

import (
	"encoding/json"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/pillow"
)

// levelsFolder has the output of scripts/goldens/picture_samples.py: files, and the levels that Pillow 13 reads from
// them.
const levelsFolder = "testdata/levels"

// Pictures of every kind have the levels that Pillow's convert("RGB") and convert("L") give, also resized, alone and in
// a folder for a network of one channel or three.
func TestLevels(t *testing.T) {
	var samples []struct {
		File   string
		By     *result.Transform
		Shape  [3]int
		Levels []byte
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(path.Join(levelsFolder, "levels.json")))(t), &samples))
	if len(samples) < 80 {
		t.Fatalf("%d samples", len(samples))
	}
	for _, s := range samples {
		want := make([]float32, len(s.Levels))
		values(s.Levels, want)
		data := must.Get(os.ReadFile(path.Join(levelsFolder, s.File)))(t)
		fsys := fstest.MapFS{"set/a/" + s.File: {Data: data}, "set/b/" + s.File: {Data: data}}
		spec := Spec{Format: "image-folder", Path: "set", Channels: func() int { return s.Shape[0] },
			Shaping: result.Shaping{Transform: s.By}}
		d := must.Get(Open(spec, fsys, 0))(t)
		_, inFolder, _ := must.Get3(d.Image(1))(t)
		alone, shape, err := ReadImage(fsys, "set/a/"+s.File, s.Shape[0], s.By)
		if err != nil || shape != s.Shape || d.Shape() != s.Shape || !slices.Equal(alone, want) ||
			!slices.Equal(inFolder, want) {
			t.Errorf("%s, %d channels, %+v: %v; shapes %v and %v, want %v; other levels than Pillow's", s.File,
				s.Shape[0], s.By, err, shape, d.Shape(), s.Shape)
		}
	}
	grey16 := fstest.MapFS{"x.png": {Data: must.Get(os.ReadFile(path.Join(levelsFolder, "grey16.png")))(t)}}
	for _, channels := range []int{1, 3} {
		_, _, err := ReadImage(grey16, "x.png", channels, nil)
		must.Refuse(t, err, "x.png", "grey of 16 bits", "save it in 8 bits")
	}
}

// A Parquet file's images have as many channels as a folder's.
func TestGreyParquet(t *testing.T) {
	open := func(channels int) *Dataset {
		spec := Spec{Format: "parquet", Path: "zstd.parquet", Channels: func() int { return channels }}
		return must.Get(Open(spec, samples, 0))(t)
	}
	grey, colour := open(1), open(3)
	if grey.Shape()[0] != 1 || colour.Shape()[0] != 3 {
		t.Fatalf("shapes %v and %v", grey.Shape(), colour.Shape())
	}
	_, luma, _ := must.Get3(grey.Image(0))(t)
	_, rgb, _ := must.Get3(colour.Image(0))(t)
	for i, v := range luma {
		level := func(c int) uint8 { return uint8(math.Round(float64(rgb[c*len(luma)+i] * 255))) }
		if v != value(pillow.Luma(level(0), level(1), level(2))) {
			t.Fatalf("value %d is %v", i, v)
		}
	}
}

// Formats whose decoders some package registers are not read, as their levels are not tested against Pillow's.
func TestOtherFormats(t *testing.T) {
	for name, data := range map[string]string{"x.gif": "GIF89a", "x.tif": "II*\x00", "x.bmp": "BM", "x.png": "RIFF"} {
		_, _, err := ReadImage(fstest.MapFS{name: {Data: []byte(data + strings.Repeat("\x00", 40))}}, name, 3, nil)
		must.Refuse(t, err, name+" is no readable PNG, JPEG or WebP")
	}
}

// A cut or false animation is an error, whichever of its bytes is wrong.
func TestBrokenAnimations(t *testing.T) {
	whole := must.Get(os.ReadFile(path.Join(levelsFolder, "first-lossy-clear.webp")))(t)
	read := func(data []byte) error {
		_, _, err := ReadImage(fstest.MapFS{"x.webp": {Data: data}}, "x.webp", 3, nil)
		return err
	}
	must.Do(t, read(whole))
	frame := strings.Index(string(whole), "ANMF")
	for end := range frame + 200 {
		if read(whole[:end]) == nil {
			t.Errorf("the first %d bytes are read", end)
		}
	}
	for at, value := range map[int]byte{24: 1, frame + 4: 3, frame + 7: 255, frame + 8: 200, frame + 14: 3} {
		broken := slices.Clone(whole)
		if broken[at] = value; read(broken) == nil {
			t.Errorf("byte %d as %d is read", at, value)
		}
	}
}

// A file that can't be read is left out with a reason; the ids of the others stay.
func TestUnreadable(t *testing.T) {
	good := func(first uint8) *fstest.MapFile { return &fstest.MapFile{Data: pngFile(t, picture(first))} }
	fsys := fstest.MapFS{"set/a/0.png": good(0), "set/a/1.png": {Data: []byte("broken")}, "set/a/2.png": good(1),
		"set/b/0.png": {}, "set/b/1.png": good(2), "set/b/2.png": good(3)}
	d := must.Get(Open(Spec{Format: "image-folder", Path: "set"}, fsys, 0))(t)
	var ids, labels []int
	for i := range d.Len() {
		id, pixels, label := must.Get3(d.Image(i))(t)
		ids, labels = append(ids, id), append(labels, label)
		if pixels[0] != float32(i)/255 {
			t.Errorf("image %d is another", id)
		}
	}
	left := d.LeftOut()
	if !slices.Equal(ids, []int{0, 2, 4, 5}) || !slices.Equal(labels, []int{0, 0, 1, 1}) || left.Unreadable != 2 ||
		len(left.Reasons) != 2 || !slices.Equal(d.Images().IDs, ids) {
		t.Errorf("images %v of classes %v, %+v", ids, labels, left)
	}
	must.Have(t, left.Changed(), "2 in number", "set/a/1.png is no readable PNG", "set/b/0.png")
	for _, name := range []string{"set/a/0.png", "set/a/2.png", "set/b/1.png", "set/b/2.png"} {
		fsys[name] = &fstest.MapFile{Data: []byte("broken")}
	}
	_, err := Open(Spec{Format: "image-folder", Path: "set"}, fsys, 0)
	must.Refuse(t, err, "set/a/0.png is no readable PNG")
}

// A broken link costs one image, or nothing outside the folders of images.
func TestDanglingLinks(t *testing.T) {
	dir := t.TempDir()
	for _, class := range []string{"a", "b"} {
		must.Do(t, os.MkdirAll(path.Join(dir, class), 0o755))
		for i, name := range []string{"0.png", "1.png"} {
			must.Do(t, os.WriteFile(path.Join(dir, class, name), pngFile(t, picture(uint8(i))), 0o644))
		}
	}
	for _, name := range []string{"a/00.png", "c", "d"} {
		must.Do(t, os.Symlink("nowhere", path.Join(dir, name)))
	}
	d := must.Get(Open(Spec{Format: "image-folder", Path: "."}, os.DirFS(dir), 0))(t)
	left := d.LeftOut()
	if !slices.Equal(d.ids, []int{0, 2, 3, 4}) || left.Unreadable != 1 ||
		!strings.Contains(left.Reasons[0], "00.png") || left.Files != 2 ||
		!slices.Equal(d.ClassNames(), []string{"a", "b"}) {
		t.Errorf("images %v of %v, %+v", d.ids, d.ClassNames(), left)
	}
}

// Values that rounding has put outside [0,1] are clipped: the set equals one of images clipped by hand.
func TestClipped(t *testing.T) {
	open := func(values ...float32) (*Dataset, error) {
		fsys := files(map[string][]byte{"f": archive(t, floats(1, 1, 2, 2)(values...), ints(0))})
		return Open(Spec{Format: "npz", Path: "f"}, fsys, 0)
	}
	by := must.Get(open(0, 1, 0.5, 0))(t)
	over := must.Get(open(-2.98e-8, 1.0000001, 0.5, -rounding))(t)
	if over.SHA256() != by.SHA256() || over.LeftOut().Clipped != 3 || by.LeftOut().Clipped != 0 {
		t.Errorf("%d values clipped, hash %s, want %s", over.LeftOut().Clipped, over.SHA256(), by.SHA256())
	}
	if _, pixels, _ := must.Get3(over.Image(0))(t); !slices.Equal(pixels, []float32{0, 1, 0.5, 0}) {
		t.Errorf("pixels %v", pixels)
	}
	left := over.LeftOut()
	must.Have(t, left.Changed(), "clipped, 3 in number")
	for _, c := range []struct {
		value float32
		want  string
	}{
		{-2 * rounding, "a little outside, as resizing and half precision leave them: save numpy.clip"},
		{1.001, "a little outside"}, {-1, "as if scaled to [-1,1]"}, {float32(math.NaN()), "must be numbers"},
	} {
		_, err := open(0, 1, 0.5, c.value)
		must.Refuse(t, err, c.want)
	}
}

// The network's channels tell the layout of arrays, then one or three channels, then equal sides.
func TestChannelsLast(t *testing.T) {
	for _, c := range []struct {
		shape    []int
		channels int
		last     bool
		unknown  bool
	}{
		{shape: []int{9, 3, 32, 32}}, {shape: []int{9, 32, 32, 3}, last: true}, {shape: []int{9, 3, 32, 3}},
		{shape: []int{9, 5, 32, 32}}, {shape: []int{9, 32, 32, 5}, last: true}, {shape: []int{9, 200, 16, 16}},
		{shape: []int{9, 16, 16, 200}, last: true}, {shape: []int{9, 4, 16, 20}},
		{shape: []int{9, 16, 20, 4}, last: true}, {shape: []int{9, 5, 16, 20}, unknown: true},
		{shape: []int{9, 5, 16, 20}, channels: 5}, {shape: []int{9, 16, 20, 5}, channels: 5, last: true},
		{shape: []int{9, 8, 3, 3}, channels: 8}, {shape: []int{9, 3, 32, 32}, channels: 7},
	} {
		last, err := channelsLast(c.shape, c.channels)
		if last != c.last || (err != nil) != c.unknown {
			t.Errorf("%v for %d channels: last %v, %v", c.shape, c.channels, last, err)
		}
	}
}
