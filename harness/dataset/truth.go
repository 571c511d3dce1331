package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"selfheal/internal/npy"
	"selfheal/internal/numbers"
	"selfheal/models/heads"
)

// truths are the images of a source whose task is not classification. Their label is the class of a right answer, and
// each has a row of numbers, its truth, that answers are compared with.
type truths struct {
	labels
	width  int
	values []float32 // row by row
}

func (t *truths) classes() (int, []string) { return len(heads.Names), heads.Names }

// of returns an image's truth.
func (t *truths) of(id int) []float32 { return t.values[id*t.width : (id+1)*t.width : (id+1)*t.width] }

// readTruths reads a truth for each of n images: from a NumPy array, of any numbers, or from text, see
// [numbers.Parse]. In a CSV file that lists the images, too, the first field of a line is the image's file.
func readTruths(fsys fs.FS, spec Spec, n int) (_ *truths, err error) {
	t := &truths{labels: make(labels, n)} // heads.Right
	switch ext := strings.ToLower(path.Ext(spec.Truth)); ext {
	case ".npy", ".npz":
		shape, names := []int(nil), []string{"truth", "targets", "y"}
		if spec.Keys != nil && spec.Truth == spec.Path {
			names = []string{spec.Keys.Y}
		}
		shape, t.values, err = readArray(fsys, spec.Truth, npy.ReadNumbers, names)
		if err == nil && (len(shape) == 0 || shape[0] != n) {
			err = fmt.Errorf("its shape is %v, for %d images: a row is needed for each", shape, n)
		}
		if err == nil && slices.ContainsFunc(t.values, func(v float32) bool { return v-v != 0 }) {
			err = errors.New("it holds numbers that are not finite")
		}
		t.width = len(t.values) / max(n, 1)
	case ".csv", ".jsonl":
		var text string
		if text, err = readText(fsys, spec.Truth); err == nil {
			t.width, t.values, err = numbers.Parse(text, spec.Truth == spec.Path)
		}
		if err == nil && len(t.values) != n*t.width {
			err = fmt.Errorf("it has %d rows for %d images: one is needed for each", len(t.values)/t.width, n)
		}
	default:
		err = errors.New("truths are a NumPy array (.npy, .npz) or numbers on lines (.csv, .jsonl)")
	}
	return t, err
}
