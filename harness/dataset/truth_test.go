package dataset

import (
	"fmt"
	stdimage "image"
	"math"
	"slices"
	"testing"
	"testing/fstest"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// Each image has the truth of its place in the file, whichever images are chosen; no labels are needed, and the set's
// hash depends on the truths.
func TestTruth(t *testing.T) {
	files := fstest.MapFS{"x.npy": {Data: floats(3, 1, 2, 2)(make([]float32, 12)...)},
		"truth.npy": {Data: floats(3, 2)(1, 2, 3, 4, 5, 6)}, "cube.npy": {Data: floats(3, 1, 2)(1, 2, 3, 4, 5, 6)},
		"truth.csv": {Data: []byte("a,b\n1,2\n3,4\n5,6\n")}, "truth.jsonl": {Data: []byte("[1, 2]\n[3, 4]\n[5, 6]\n")},
		"other.csv": {Data: []byte("1,2\n3,4\n5,7\n")}}
	hashes := map[string]bool{}
	for _, truth := range []string{"truth.npy", "cube.npy", "truth.csv", "truth.jsonl", "other.csv"} {
		spec := Spec{Format: "npz", Path: "x.npy", Truth: truth, Indices: []int{2, 0}}
		d := must.Get(Open(spec, files, 0))(t)
		defer d.Close()
		if d.Classes() != 2 || d.Label(0) != 0 || !slices.Equal(d.Truth(1), []float32{1, 2}) || d.Truth(0)[0] != 5 {
			t.Errorf("%s: %d classes, truths %v and %v", truth, d.Classes(), d.Truth(0), d.Truth(1))
		}
		hashes[d.SHA256()] = true
		digest := d.Digest()
		if again := must.Get(OpenKnown(spec, files, 0, &digest))(t); again.SHA256() != d.SHA256() {
			t.Errorf("%s: opened again it has another hash", truth)
		}
	}
	if len(hashes) != 2 {
		t.Errorf("%d hashes", len(hashes))
	}
}

// In a list of images the truth follows the file.
func TestListedTruth(t *testing.T) {
	files := fstest.MapFS{"a.png": {Data: pngFile(t, picture(10))}, "b.png": {Data: pngFile(t, picture(20))},
		"list.csv": {Data: []byte("file,angle\na.png,0.5\nb.png,-2\n")}}
	d := must.Get(Open(Spec{Format: "csv", Path: "list.csv", Truth: "list.csv"}, files, 0))(t)
	defer d.Close()
	if d.Len() != 2 || !slices.Equal(d.Truth(1), []float32{-2}) {
		t.Error(d.Len(), d.Truth(1))
	}
}

// maskFile returns a PNG file of grey levels, 3 wide and 2 high.
func maskFile(t testing.TB, levels ...uint8) *fstest.MapFile {
	im := stdimage.NewGray(stdimage.Rect(0, 0, 3, 2))
	copy(im.Pix, levels)
	return &fstest.MapFile{Data: pngFile(t, im)}
}

// Masks follow the names of the images' files, or the order of images without files. The images need no folders of
// classes.
func TestMasks(t *testing.T) {
	files := fstest.MapFS{"x.npy": {Data: floats(2, 1, 2, 3)(make([]float32, 12)...)},
		"images/b.jpg": {Data: jpegFile(t, picture(20))}, "images/a.png": {Data: pngFile(t, picture(10))},
		"masks/a.png": maskFile(t, 0, 1, 2, 3, 4, 255), "masks/b.png": maskFile(t, 9),
		"two/a.png": maskFile(t, 255), "two/b.png": maskFile(t, 0), "one/a.png": maskFile(t, 0), "none/a.txt": {},
		"ten/9.png": maskFile(t, 1), "ten/10.png": maskFile(t, 1),
		"classes/cat/a.png": {Data: pngFile(t, picture(1))}, "classes/dog/a.png": {Data: pngFile(t, picture(2))}}
	for _, spec := range []Spec{{Format: "npz", Path: "x.npy"}, {Format: "image-folder", Path: "images"}} {
		spec.Truth, spec.Indices = "masks", []int{1, 0}
		d := must.Get(Open(spec, files, 0))(t)
		if want := []float32{0, 1, 2, 3, 4, 255}; !slices.Equal(d.Truth(1), want) || d.Truth(0)[0] != 9 {
			t.Errorf("%s: %v and %v", spec.Format, d.Truth(1), d.Truth(0))
		}
	}
	for truth, want := range map[string]string{"two": "0 and 255 alone", "one": "one/b.png does not exist",
		"none": "none/a.png does not exist", "away": "away does not exist"} {
		_, err := Open(Spec{Format: "image-folder", Path: "images", Truth: truth}, files, 0)
		must.Refuse(t, err, want)
	}
	for truth, want := range map[string]string{"one": "it has 1 PNG files for 2 images",
		"ten": "names of several lengths"} {
		_, err := Open(Spec{Format: "npz", Path: "x.npy", Truth: truth}, files, 0)
		must.Refuse(t, err, want)
	}
	spec := Spec{Format: "image-folder", Path: "classes", Truth: "masks"}
	_, err := Open(spec, files, 0)
	must.Refuse(t, err, "its a.png would be the mask of cat/a.png and of dog/a.png")
	files["masks/dog/a.png"] = maskFile(t, 5)
	if d := must.Get(Open(spec, files, 0))(t); d.Truth(0)[1] != 1 || d.Truth(1)[0] != 5 {
		t.Errorf("masks in folders: %v and %v", d.Truth(0), d.Truth(1))
	}
	files["masks/dog/a.png"] = &fstest.MapFile{Data: pngFile(t, stdimage.NewGray(stdimage.Rect(0, 0, 2, 2)))}
	_, err = Open(spec, files, 0)
	must.Refuse(t, err, "dog/a.png has 2×2 pixels, and a.png has 3×2")
	files["tall.npy"] = &fstest.MapFile{Data: floats(2, 1, 3, 2)(make([]float32, 12)...)}
	_, err = Open(Spec{Format: "npz", Path: "tall.npy", Truth: "masks"}, files, 0)
	must.Refuse(t, err, "a.png has 3×2 pixels, and lies across its image of 2×3")
	shaping := result.Shaping{Transform: &result.Transform{Resize: 2, Crop: 2}}
	_, err = Open(Spec{Format: "image-folder", Path: "images", Truth: "masks", Shaping: shaping}, files, 0)
	must.Refuse(t, err, "masks are not transformed")
}

// A column of Parquet files is a truth, of lists or of numbers; images in such files need no labels then.
func TestTruthInParquet(t *testing.T) {
	type tagged struct {
		Image []byte    `parquet:"image"`
		Truth []float32 `parquet:"truth,list"`
		Age   float64   `parquet:"age"`
		Name  string    `parquet:"name"`
	}
	row := func(first uint8, age float64, truth ...float32) tagged {
		return tagged{pngFile(t, picture(first)), truth, age, "x"}
	}
	files := fstest.MapFS{"set.parquet": parquetOf(t, row(10, 30, 1, 2), row(20, 40, 3, 4), row(30, 50, 5, 6)),
		"two.parquet": parquetOf(t, row(10, 30, 1, 2), row(20, 40, 3, 4)), "x.npy": {
			Data: floats(3, 1, 2, 2)(make([]float32, 12)...)}}
	for _, c := range []struct {
		path string
		keys *result.Keys
		want []float32
	}{{"set.parquet", nil, []float32{3, 4}}, {"set.parquet", &result.Keys{X: "image", Y: "age"}, []float32{40}},
		{"x.npy", nil, []float32{3, 4}}} {
		spec := Spec{Format: must.Get(Guess(files, c.path))(t), Path: c.path, Truth: "set.parquet",
			Indices: []int{2, 1}, Shaping: result.Shaping{Keys: c.keys}}
		d := must.Get(Open(spec, files, 0))(t)
		if d.Len() != 2 || !slices.Equal(d.Truth(1), c.want) || d.Label(0) != 0 {
			t.Errorf("%s, %+v: truth %v", c.path, c.keys, d.Truth(1))
		}
	}
	nan := row(30, 50, 5, float32(math.NaN()))
	files["nan.parquet"] = parquetOf(t, row(10, 30, 1, 2), row(20, 40, 3, 4), nan)
	_, err := Open(Spec{Format: "npz", Path: "x.npy", Truth: "nan.parquet"}, files, 0)
	must.Refuse(t, err, "row 2 holds a number that is not finite")
	files["hub/set.parquet"] = files["set.parquet"]
	if d := must.Get(Open(Spec{Format: "npz", Path: "x.npy", Truth: "hub"}, files, 0))(t); d.Truth(2)[1] != 6 {
		t.Errorf("a folder: %v", d.Truth(2))
	}
	spec := Spec{Format: "parquet", Path: "set.parquet", Truth: "two.parquet"}
	_, err = Open(spec, files, 0)
	must.Refuse(t, err, "truth two.parquet: it has 2 rows for 3 images")
	spec.Truth, spec.Keys = "set.parquet", &result.Keys{X: "image", Y: "name"}
	_, err = Open(spec, files, 0)
	must.Refuse(t, err, "it has no column of numbers called name")
}

// A list of pairs has the second images as truths, resized as the first are.
func TestPairs(t *testing.T) {
	files := fstest.MapFS{"set/pairs.txt": {Data: []byte("1\t1\nA\t1\t2\nA\t2\tB\t1\n")},
		"set/pairs.csv": {Data: []byte("first,second,same\nA/A_0001.png,A/A_0002.png,1\n" +
			"A/A_0002.png,B/B_0001.png,0\n")},
		"set/A/A_0001.png": {Data: pngFile(t, picture(1))}, "set/A/A_0002.png": {Data: pngFile(t, picture(2))},
		"set/B/B_0001.png": {Data: pngFile(t, picture(3))}, "set/none.txt": {Data: []byte("A 1 2\nA 1 3\n")}}
	for _, name := range []string{"set/pairs.txt", "set/pairs.csv"} {
		for _, by := range []*result.Transform{nil, {Resize: 2, Crop: 2}} {
			d := must.Get(Open(Spec{Format: "pairs", Path: name, Shaping: result.Shaping{Transform: by}}, files, 0))(t)
			for i, same := range []float32{1, 0} {
				second := []string{"set/A/A_0002.png", "set/B/B_0001.png"}[i]
				pixels, shape := must.Get2(ReadImage(files, second, 3, by))(t)
				if !slices.Equal(d.Truth(i), append(pixels, same)) || d.Label(i) != 0 || shape != d.Shape() {
					t.Errorf("%s, %v: pair %d has another truth", name, by, i)
				}
			}
		}
	}
	if format := must.Get(Guess(files, "set/pairs.txt"))(t); format != "pairs" {
		t.Error(format)
	}
	_, err := Open(Spec{Format: "pairs", Path: "set/none.txt"}, files, 0)
	must.Refuse(t, err, "A_0003.png")
	_, err = Open(Spec{Format: "pairs", Path: "set/pairs.txt", Truth: "x.csv"}, files, 0)
	must.Refuse(t, err, "remove truth")
}

// A truth that does not fit the images is an error that names the file.
func TestWrongTruth(t *testing.T) {
	files := fstest.MapFS{"x.npy": {Data: floats(2, 1, 2, 2)(make([]float32, 8)...)},
		"a.txt":     {Data: []byte("1\n2\n")},
		"three.npy": {Data: floats(3)(1, 2, 3)}, "inf.npy": {Data: floats(2)(1, float32(math.Inf(1)))},
		"three.csv": {Data: []byte("1\n2\n3\n")}, "word.csv": {Data: []byte("1\nx\n")}}
	for truth, want := range map[string]string{
		"three.npy": "its shape is [3], for 2 images", "inf.npy": "not finite", "three.csv": "3 rows for 2 images",
		"word.csv": `line 2: "x" is no number`, "a.txt": "truths are a NumPy array",
		"none.csv": "none.csv does not exist",
	} {
		_, err := Open(Spec{Format: "npz", Path: "x.npy", Truth: truth}, files, 0)
		must.Refuse(t, err, want)
		must.Refuse(t, err, truth)
	}
	_, err := Open(Spec{Format: "npz", Path: "three.npy", Truth: "three.csv"}, files, 0)
	must.Refuse(t, err, fmt.Sprint([]int{3}))
}
