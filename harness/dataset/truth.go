package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/npy"
	"selfheal/internal/numbers"
	"selfheal/internal/pillow"
	"selfheal/models/heads"
)

// truths are the images of a source whose task is not classification. Their label is the class of a right answer, and
// each has a row of numbers, its truth, that answers are compared with.
type truths struct {
	labels
	rows [][]float32 // by id; those of images that are not chosen may be nil
	// fill fills the rows of the chosen images; nil for formats that are read as a whole.
	fill func(ids []int) error
}

func (t *truths) classes() (int, []string) { return len(heads.Names), heads.Names }

// newTruths returns truths without numbers yet.
func newTruths(n int) *truths { return &truths{labels: make(labels, n), rows: make([][]float32, n)} } // heads.Right

// readTruths reads a truth for each image of a source: from a NumPy array, of any numbers, from text, see
// [numbers.Parse], or from a folder of masks. In a CSV file that lists the images, too, the first field of a line is
// the image's file.
func readTruths(fsys fs.FS, spec Spec, src source, files *closers) (_ *truths, err error) {
	n := src.count()
	t, width, values := newTruths(n), 0, []float32(nil)
	ext := strings.ToLower(path.Ext(spec.Truth))
	if isFolder(fsys, spec.Truth) {
		if ext = ""; isParquet(fsys, spec.Truth) {
			ext = ".parquet"
		}
	}
	switch ext {
	case "":
		return t, t.masks(fsys, spec, src)
	case ".parquet":
		return t, t.table(fsys, spec, files)
	case ".npy", ".npz":
		shape, names := []int(nil), []string{"truth", "targets", "y"}
		if spec.Keys != nil && spec.Truth == spec.Path {
			names = []string{spec.Keys.Y}
		}
		shape, values, err = readArray(fsys, spec.Truth, npy.ReadNumbers, names)
		if err == nil && (len(shape) == 0 || shape[0] != n) {
			err = fmt.Errorf("its shape is %v, for %d images: a row is needed for each", shape, n)
		}
		if err == nil && slices.ContainsFunc(values, func(v float32) bool { return v-v != 0 }) {
			err = errors.New("it holds numbers that are not finite")
		}
		width = len(values) / max(n, 1)
	case ".csv", ".jsonl":
		var text string
		if text, err = readText(fsys, spec.Truth); err == nil {
			width, values, err = numbers.Parse(text, spec.Truth == spec.Path)
		}
		if err == nil && len(values) != n*width {
			err = fmt.Errorf("it has %d rows for %d images: one is needed for each", len(values)/width, n)
		}
	default:
		err = errors.New("truths are a NumPy array (.npy, .npz), numbers on lines (.csv, .jsonl), a column of " +
			"Parquet files or a folder of masks")
	}
	if err == nil && width > 0 {
		t.rows = slices.Collect(slices.Chunk(values, width))
	}
	return t, err
}

// table prepares to read truths from a column of Parquet files: y of the config's keys, or one called truth or so.
func (t *truths) table(fsys fs.FS, spec Spec, files *closers) error {
	names, split := []string{"truth", "targets", "y"}, ""
	if spec.Truth == spec.Path {
		if split = spec.Split; spec.Keys != nil {
			names = []string{spec.Keys.Y}
		}
	}
	for _, name := range names {
		of := Spec{Path: spec.Truth, Truth: spec.Truth,
			Shaping: result.Shaping{Split: split, Keys: &result.Keys{X: name}, Layout: result.Flat}}
		src, err := openParquet(fsys, of, files)
		if errors.As(err, new(noColumn)) {
			continue
		}
		if err != nil {
			return err
		}
		rows := src.(*table)
		if rows.count() != len(t.rows) {
			return fmt.Errorf("it has %d rows for %d images: one is needed for each", rows.count(), len(t.rows))
		}
		t.fill = func(ids []int) error {
			err := rows.unpack(ids, files)
			for k, id := range ids {
				t.rows[id] = rows.values[k*rows.d : (k+1)*rows.d]
				if err == nil && slices.ContainsFunc(t.rows[id], func(v float32) bool { return v-v != 0 }) {
					err = fmt.Errorf("row %d holds a number that is not finite", id)
				}
			}
			return err
		}
		return nil
	}
	return fmt.Errorf("it has no column of numbers called %s", strings.Join(names, ", "))
}

// masks prepares to read masks from a folder: PNG files, named as the images or, for images without files, as many as
// these, in the order of their names.
func (t *truths) masks(fsys fs.FS, spec Spec, src source) error {
	entries, err := fs.ReadDir(fsys, spec.Truth)
	if err != nil {
		return err
	}
	if spec.Transform != nil {
		return errors.New("masks are not transformed; save images and masks in the size that the model takes")
	}
	names := lists.Map(entries, fs.DirEntry.Name)
	names = lists.Only(names, func(name string) bool { return strings.EqualFold(path.Ext(name), ".png") })
	if f, ok := src.(interface{ file(id int) string }); ok {
		of := map[string]string{} // the image of each mask
		for id := range t.rows {
			image := f.file(id)
			name := strings.TrimSuffix(image, path.Ext(image)) + ".png"
			if !isFile(fsys, path.Join(spec.Truth, name)) {
				name = path.Base(name)
			}
			if of[name] != "" {
				return fmt.Errorf("its %s would be the mask of %s and of %s; name masks as the images, in the same "+
					"folders", name, of[name], image)
			}
			of[name], names = image, append(names[:id:id], name)
		}
	} else if slices.ContainsFunc(names, func(name string) bool { return len(name) != len(names[0]) }) {
		return errors.New("its files have names of several lengths, which sort 10 before 2; name them 00.png, 01.png")
	}
	if len(names) != len(t.rows) {
		return fmt.Errorf("it has %d PNG files for %d images: a mask is needed for each", len(names), len(t.rows))
	}
	t.fill = func(ids []int) error {
		levels, first := map[float32]bool{}, [2]int{} // the first mask's width and height
		for _, id := range ids {
			classes, width, err := readMask(fsys, path.Join(spec.Truth, names[id]))
			if err != nil {
				return err
			}
			size := [2]int{width, len(classes) / width}
			if t.rows[id] = classes; id == ids[0] {
				first = size
				if _, im, err := src.read(id, nil); err != nil {
					return err
				} else if (size[1]-size[0])*(im[1]-im[2]) < 0 {
					return fmt.Errorf("%s has %d×%d pixels, and lies across its image of %d×%d", names[id], width,
						size[1], im[2], im[1])
				}
			}
			if size != first {
				return fmt.Errorf("%s has %d×%d pixels, and %s has %d×%d", names[id], width, size[1], names[ids[0]],
					first[0], first[1])
			}
			for _, class := range t.rows[id] {
				levels[class] = true
			}
		}
		if len(levels) == 2 && levels[0] && levels[255] {
			return errors.New("its masks have the levels 0 and 255 alone; their pixels should be classes: 0 and 1")
		}
		return nil
	}
	return nil
}

func readMask(fsys fs.FS, name string) (classes []float32, width int, err error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if classes, width, err = pillow.Classes(f, f.size); err != nil {
		err = fmt.Errorf("%s %w", path.Base(name), err)
	}
	return classes, width, err
}
