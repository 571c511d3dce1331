package dataset

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"selfheal/internal/numbers"
)

// pairs are the images of a list of pairs. The first of each is the image; its truth has the second's pixels, and then
// 1 if both show the same, else 0.
type pairs struct {
	list
	others list
	same   []float32
}

// openPairs reads a list of pairs, see [numbers.Pairs], of images in its folder. LFW's form gives no extensions: the
// images are PNG files if the first is, else JPEG.
func openPairs(fsys fs.FS, spec Spec, _ *closers) (source, error) {
	text, err := readText(fsys, spec.Path)
	if err != nil {
		return nil, err
	}
	listed := strings.EqualFold(path.Ext(spec.Path), ".csv")
	all, err := numbers.Pairs(text, listed)
	if err != nil {
		return nil, err
	}
	p, dir, ext := &pairs{}, path.Dir(spec.Path), ""
	for _, l := range []*list{&p.list, &p.others} {
		if l.folder, err = newFolder(fsys, spec, nil); err != nil {
			return nil, err
		}
		l.root = dir
	}
	if len(all) > 0 && !listed {
		if ext = ".jpg"; isFile(fsys, path.Join(dir, all[0].A+".png")) {
			ext = ".png"
		}
	}
	for _, pair := range all {
		p.add(listedAt(dir, pair.A+ext))
		p.others.add(listedAt(dir, pair.B+ext))
		p.same = append(p.same, pair.Same)
	}
	return p, nil
}

// truths prepares to read the second images, resized as the first.
func (p *pairs) truths(spec Spec) *truths {
	t, second := newTruths(len(p.same)), source(p.others)
	if spec.Transform != nil {
		second = &transformed{source: second, by: *spec.Transform}
	}
	t.fill = func(ids []int) error {
		var first [3]int
		for k, id := range ids {
			levels, shape, err := second.read(id, nil)
			if err != nil {
				return err
			}
			if k == 0 {
				first = shape
			}
			if shape != first {
				return fmt.Errorf("%s has shape %v, but those before it have %v: transform makes them alike",
					second.name(id), shape, first)
			}
			t.rows[id] = make([]float32, len(levels)+1)
			values(levels, t.rows[id])
			t.rows[id][len(levels)] = p.same[id]
		}
		return nil
	}
	return t
}

// listedAt returns the folder and name of a listed file, and the label 0. An absolute path is in no folder.
func listedAt(dir, name string) (string, string, int) {
	if name = filepath.ToSlash(name); path.IsAbs(name) {
		dir = ""
	}
	return dir, name, 0
}
