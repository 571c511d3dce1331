package dataset

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/lists"
)

// list holds the images that a CSV file lists. It leaves none of them out: one that can't be read is an error.
type list struct {
	*folder
	n int // classes
}

func (l list) classes() (int, []string) { return l.n, l.names }

func (l list) read(id int, buf []byte) ([]byte, [3]int, error) {
	buf, shape, err := l.folder.read(id, buf)
	if e := (unreadable{}); errors.As(err, &e) {
		err = e.error
	}
	return buf, shape, err
}

// openList reads a CSV file that has a line for each image: its path, relative to the file unless it is absolute, and
// its label or, unless all are labels, the name of its class. Names are in the given order or sorted.
func openList(fsys fs.FS, spec Spec, _ *closers) (source, error) {
	text, err := readText(fsys, spec.Path)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(strings.NewReader(text))
	if spec.Truth == "" {
		r.FieldsPerRecord = 2
	}
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("a line is an image's path and its label: %w", err)
	}
	if spec.Truth != "" { // no label counts
		lines = lists.Map(lines, func(line []string) []string { return []string{line[0], "0"} })
	}
	if len(lines) > 0 && lines[0][0] == "file" && slices.Contains([]string{"label", "0"}, lines[0][1]) {
		lines = lines[1:]
	}
	const bits = 20 // of the largest label
	labels, named := make([]int, len(lines)), false
	for i, line := range lines {
		label, err := strconv.ParseUint(line[1], 10, bits)
		labels[i], named = int(label), named || err != nil
	}
	var names []string
	if named {
		names = lists.Distinct(lines, func(line []string) string { return line[1] })
		slices.Sort(names)
	}
	f, err := newFolder(fsys, spec, names)
	if err != nil {
		return nil, err
	}
	f.root = path.Dir(spec.Path)
	for i, line := range lines {
		label, ok := labels[i], true
		if named {
			label, ok = f.byClass[line[1]]
		}
		if !ok {
			return nil, fmt.Errorf("its image %d has the class %q, which is not in the list of classes", i,
				shorten(line[1]))
		}
		at := filepath.ToSlash(line[0])
		if !path.IsAbs(at) && !filepath.IsAbs(line[0]) {
			at = path.Join(path.Dir(spec.Path), at)
		}
		f.add("", at, label)
	}
	return list{f, max(len(f.names), slices.Max(append(f.labels, -1))+1)}, nil
}
