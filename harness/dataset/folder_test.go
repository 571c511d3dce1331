package dataset

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	stdimage "image"
	"image/color"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
)

func pngFile(t testing.TB, im stdimage.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, png.Encode(&b, im))
	return b.Bytes()
}

func jpegFile(t testing.TB, im stdimage.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, jpeg.Encode(&b, im, &jpeg.Options{Quality: 100}))
	return b.Bytes()
}

// picture is 3 wide and 2 high; red counts the pixels from first.
func picture(first uint8) *stdimage.NRGBA {
	im := stdimage.NewNRGBA(stdimage.Rect(0, 0, 3, 2))
	for i := range 6 {
		im.SetNRGBA(i%3, i/3, color.NRGBA{first + uint8(i), 100, 200, 255})
	}
	return im
}

func TestImageFolder(t *testing.T) {
	gray := stdimage.NewGray(stdimage.Rect(0, 0, 3, 2))
	gray.SetGray(1, 0, color.Gray{50})
	transparent := picture(60)
	transparent.SetNRGBA(0, 0, color.NRGBA{60, 100, 200, 0}) // transparency is dropped, the colour kept
	fsys := fstest.MapFS{
		"set/dog/b.png":     {Data: pngFile(t, picture(10))},
		"set/dog/a.PNG":     {Data: pngFile(t, picture(20))},
		"set/cat/z.png":     {Data: pngFile(t, gray)},
		"set/cat/y.png":     {Data: pngFile(t, transparent)},
		"set/cat/notes.txt": {Data: []byte("passed over")},
		"set/.git/x.png":    {Data: []byte("passed over")},
		"set/cat/.x.png":    {Data: []byte("passed over")},
		"set/README":        {Data: []byte("passed over")},
	}
	d := must.Get(Open(Spec{Format: "image-folder", Path: "set"}, fsys, 0))(t)
	if d.Shape() != [3]int{3, 2, 3} || !slices.Equal(d.ClassNames(), []string{"cat", "dog"}) || d.Classes() != 2 {
		t.Fatalf("shape %v, %d classes %v", d.Shape(), d.Classes(), d.ClassNames())
	}
	for i, want := range []struct {
		label int
		red   [2]float32 // of the first two pixels
	}{{0, [2]float32{60, 61}}, {0, [2]float32{0, 50}}, {1, [2]float32{20, 21}}, {1, [2]float32{10, 11}}} {
		id, pixels, label := must.Get3(d.Image(i))(t)
		if id != i || label != want.label || pixels[0] != want.red[0]/255 || pixels[1] != want.red[1]/255 {
			t.Errorf("image %d: id %d, label %d, pixels %v", i, id, label, pixels)
		}
	}
	if _, pixels, _ := must.Get3(d.Image(2))(t); pixels[6] != float32(100)/255 || pixels[12] != float32(200)/255 {
		t.Errorf("green %v and blue %v", pixels[6], pixels[12])
	}
	if _, pixels, _ := must.Get3(d.Image(1))(t); pixels[1] != pixels[7] || pixels[1] != pixels[13] {
		t.Errorf("gray %v", pixels)
	}

	// Given names decide the labels, and unused images are not opened.
	fsys["set/dog/c.png"] = &fstest.MapFile{Data: []byte("broken")}
	d = must.Get(Open(Spec{Format: "image-folder", Path: "set", ClassNames: []string{"fox", "dog", "cat"}, Limit: 3},
		fsys, 0))(t)
	if _, _, label := must.Get3(d.Image(0))(t); label != 2 || d.Classes() != 3 || d.Len() != 3 {
		t.Errorf("label %d of %d classes, %d images", label, d.Classes(), d.Len())
	}

	fsys["big/a/1.png"] = &fstest.MapFile{Data: pngFile(t, picture(0))}
	fsys["big/a/2.png"] = &fstest.MapFile{Data: pngFile(t, stdimage.NewGray(stdimage.Rect(0, 0, 4, 4)))}
	fsys["none/a/x.txt"] = &fstest.MapFile{}
	bomb := pngFile(t, picture(0)) // claims 2^30 × 2^30
	copy(bomb[16:24], []byte{0x40, 0, 0, 0, 0x40, 0, 0, 0})
	fsys["bomb/a/1.png"] = &fstest.MapFile{Data: bomb}
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Path: "set", Indices: []int{4}}, "set/dog/c.png is no readable PNG, JPEG or WebP: "},
		{Spec{Path: "set", Classes: 10}, "it holds 2 class folders, but classes says 10; list the names"},
		{Spec{Path: "set", ClassNames: []string{"cat", "fox"}}, "its folder dog is not in the list of classes"},
		{Spec{Path: "big"}, "big/a/2.png has shape [3 4 4], but the images before it have [3 2 3]; all must have the"},
		{Spec{Path: "none"}, "it holds no images"},
		{Spec{Path: "bomb"}, "bomb/a/1.png is no readable PNG, JPEG or WebP: png: unsupported feature: dimension"},
	} {
		c.spec.Format = "image-folder"
		refused(t, c.spec, fsys, c.want)
	}
}

func TestDecodeBounds(t *testing.T) {
	huge := pngFile(t, picture(0)) // its header claims 9000×9000
	copy(huge[16:24], []byte{0, 0, 0x23, 0x28, 0, 0, 0x23, 0x28})
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	_, _, err := decodeFile(fstest.MapFS{"x.png": {Data: huge}}, "x.png", false, nil)
	if err == nil || err.Error() != "x.png has 9000×9000 pixels, more than this program reads" {
		t.Errorf("9000×9000: %v", err)
	}
}

func TestTinyImageNet(t *testing.T) {
	grayJPEG := stdimage.NewGray(stdimage.Rect(0, 0, 3, 2))
	for i := range grayJPEG.Pix {
		grayJPEG.Pix[i] = 128
	}
	fsys := fstest.MapFS{
		"tiny/wnids.txt": {Data: []byte("n02\nn01\r\nn03\n")},
		"tiny/val/val_annotations.txt": {Data: []byte("val_0.JPEG\tn01\t0\t0\t1\t1\r\n" +
			"val_1.JPEG\tn02\t0\t0\t1\t1\nval_10.JPEG\tn03\t0\t0\t1\t1\n\n")},
		"tiny/val/images/val_0.JPEG":          {Data: jpegFile(t, grayJPEG)},
		"tiny/val/images/val_1.JPEG":          {Data: pngFile(t, picture(10))},
		"tiny/val/images/val_10.JPEG":         {Data: pngFile(t, picture(20))},
		"tiny/train/n01/images/n01_1.JPEG":    {Data: pngFile(t, picture(1))},
		"tiny/train/n01/n01_boxes.txt":        {Data: []byte("n01_1.JPEG 0 0 1 1")},
		"tiny/train/n02/images/n02_1.JPEG":    {Data: pngFile(t, picture(2))},
		"tiny/train/n02/images/n02_0.JPEG":    {Data: pngFile(t, picture(3))},
		"odd/wnids.txt":                       {Data: []byte("n01\n")},
		"odd/val/val_annotations.txt":         {Data: []byte("val_0.JPEG\tn01\nval_1.JPEG\n")},
		"odd/train/n77/images/x.JPEG":         {},
		"strange/wnids.txt":                   {Data: []byte("n01\n")},
		"strange/val/val_annotations.txt":     {Data: []byte("val_0.JPEG\tn09\n")},
		"climbing/wnids.txt":                  {Data: []byte("n01\n")},
		"climbing/val/val_annotations.txt":    {Data: []byte("../../x.JPEG\tn01\n")},
		"twice/wnids.txt":                     {Data: []byte("n01 n01")},
		"empty/wnids.txt":                     {},
		"unlabelled/wnids.txt":                {Data: []byte("n01")},
		"unlabelled/val/images/val_0.JPEG":    {},
		"lost/wnids.txt":                      {Data: []byte("n01")},
		"lost/val/val_annotations.txt":        {Data: []byte("val_0.JPEG\tn01\n")},
		"unlabelled/test/images/test_10.JPEG": {},
	}
	for _, c := range []struct {
		path   string
		names  []string
		labels []int
		red    []float32
		split  string
	}{
		{path: "tiny", labels: []int{1, 0, 2}, red: []float32{128, 10, 20}, split: "val"},
		{path: "tiny", labels: []int{1, 0, 0}, red: []float32{1, 3, 2}, split: "train"},
		{path: "tiny/train", labels: []int{1, 0, 0}, red: []float32{1, 3, 2}, split: "train"},
		{path: "tiny", labels: []int{1, 0, 2}, red: []float32{128, 10, 20}},
		{path: "tiny/val", labels: []int{1, 0, 2}, red: []float32{128, 10, 20}},
		{path: "tiny/val", names: []string{"n01", "n02", "n03"}, labels: []int{0, 1, 2}, red: []float32{128, 10, 20}},
		{path: "tiny/train", labels: []int{1, 0, 0}, red: []float32{1, 3, 2}},
	} {
		spec := of("tiny-imagenet", c.path, c.split, nil)
		spec.ClassNames = c.names
		d := must.Get(Open(spec, fsys, 0))(t)
		if d.Len() != len(c.labels) || d.Classes() != 3 || d.Shape() != [3]int{3, 2, 3} {
			t.Errorf("%s: %d images, %d classes, shape %v", c.path, d.Len(), d.Classes(), d.Shape())
			continue
		}
		for i := range d.Len() {
			if _, pixels, label := must.Get3(d.Image(i))(t); label != c.labels[i] || pixels[0] != c.red[i]/255 {
				t.Errorf("%s: image %d has label %d and red %v, want %d and %v", c.path, i, label, pixels[0]*255,
					c.labels[i], c.red[i])
			}
		}
	}
	for path, want := range map[string]string{
		"odd":        `odd/val/val_annotations.txt:2: a line is a file's name and its class, not "val_1.JPEG"`,
		"odd/train":  "its folder n77 is not in the list of classes",
		"strange":    `strange/val/val_annotations.txt:1: val_0.JPEG has the class "n09"`,
		"climbing":   `climbing/val/val_annotations.txt:1: a line is a file's name and its class`,
		"twice":      `the class "n01" is named twice`,
		"empty":      "wnids.txt names no classes",
		"unlabelled": "unlabelled/val/val_annotations.txt does not exist",
		"lost":       "lost/val/images/val_0.JPEG does not exist",
	} {
		refused(t, of("tiny-imagenet", path, "", nil), fsys, want) // the default split's
	}
	for _, path := range []string{"tiny", "tiny/val"} {
		refused(t, of("tiny-imagenet", path, "test", nil), fsys,
			"split must be val or train, not test: its test images have no labels")
	}
	refused(t, of("tiny-imagenet", "tiny/val", "train", nil), fsys,
		"split: it is train, but the path is that of val; remove one of the two")
}

func TestGuess(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{}
	for _, name := range []string{"tiny/wnids.txt", "tiny/val/x", "tiny/train/x", "folder/cat/x", "val/cat/x",
		"a.NPZ", "a.bin", "a.dat"} {
		fsys[name] = &fstest.MapFile{}
	}
	for name, want := range map[string]string{
		"tiny": "tiny-imagenet", "tiny/val": "tiny-imagenet", "tiny/train": "tiny-imagenet",
		"folder": "image-folder", "val": "image-folder", "a.NPZ": "npz", "a.bin": "cifar10-bin",
	} {
		if got, err := Guess(fsys, name); got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"a.dat": "does not follow from its name", "absent": "not exist"} {
		if _, err := Guess(fsys, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A folder of splits is read by its split, which must be given if there is no test.
func TestSplitFolders(t *testing.T) {
	fsys := fstest.MapFS{}
	for i, name := range []string{"all/train/cat/a", "all/train/dog/b", "all/val/cat/c", "all/test/cat/d",
		"all/test/dog/e", "two/train/cat/f", "two/val/cat/g", "two/test/h", "odd/test/cat/i", "odd/bus/a/k",
		"flat/train/l", "flat/test/m"} {
		fsys[name+".png"] = &fstest.MapFile{Data: pngFile(t, picture(uint8(i)))}
	}
	for _, c := range []struct {
		path, split string
		red         []float32
		want        string // in the error
	}{
		{"all", "", []float32{3, 4}, ""}, {"all", "train", []float32{0, 1}, ""}, {"all", "val", []float32{2}, ""},
		{"all/train", "", []float32{0, 1}, ""}, {"two", "val", []float32{6}, ""}, {"odd", "test", []float32{8}, ""},
		{"odd", "", nil, ""}, {"flat", "", []float32{11, 10}, ""},
		{"two", "", nil, "it has no split test of class folders; choose one by split: train, val"},
		{"all", "dev", nil, "it has no split dev of class folders; choose one by split: test, train, val"},
		{"all/train", "val", nil, "split: it has no folder val with class folders in it; remove it"},
	} {
		d, err := Open(of("image-folder", c.path, c.split, nil), fsys, 0)
		switch {
		case c.want != "":
			must.Refuse(t, err, c.want)
			continue
		case c.red == nil: // classes without images
			must.Refuse(t, err, "it holds no images")
			continue
		case err != nil:
			t.Errorf("%s, %s: %v", c.path, c.split, err)
			continue
		}
		for i, want := range c.red {
			if _, pixels, _ := must.Get3(d.Image(i))(t); d.Len() != len(c.red) || pixels[0] != want/255 {
				t.Errorf("%s, %s: %d images, red %v of image %d", c.path, c.split, d.Len(), pixels[0]*255, i)
			}
		}
	}
}
