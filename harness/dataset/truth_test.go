package dataset

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/fstest"

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
