package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"selfheal/attacks/corruption"
)

// selection is the part of a set of corrupted images that a split names.
type selection struct {
	names      []string // of corruptions
	severities []int
}

// selected reads a split: NAME/SEVERITY, NAME for all severities of one corruption, or all. there lists the set's
// corruptions.
func selected(split string, there []string) (s selection, err error) {
	say := func(problem string) error {
		return fmt.Errorf("split: %s; it is a corruption and a severity, as fog/3, a corruption, or all; there are: %s",
			problem, some(there))
	}
	name, severity, one := strings.Cut(split, "/")
	if one {
		n, err := strconv.Atoi(severity)
		if err != nil || n < 1 || n > corruption.Severities {
			return s, say(fmt.Sprintf("there is no severity %q, they go from 1 to %d", shorten(severity),
				corruption.Severities))
		}
		s.severities = []int{n}
	} else {
		for n := range corruption.Severities {
			s.severities = append(s.severities, n+1)
		}
	}
	switch {
	case split == "":
		return s, say("it says which images")
	case split != "all" && !slices.Contains(there, name):
		return s, say(fmt.Sprintf("there is no corruption %q", shorten(name)))
	case split != "all":
		s.names = []string{name}
		return s, nil
	}
	for _, name := range corruption.Names() { // the authors' four extra corruptions do not count
		if slices.Contains(there, name) {
			s.names = append(s.names, name)
		}
	}
	if s.names == nil {
		err = say("it has none of the 15 that count")
	}
	return s, err
}

// block is a part of a set of arrays: its images from first on.
type block struct {
	*npz
	first int
}

type blocks struct {
	*npz // any of them
	labels
	list []block
	each int // images of one
}

func (b *blocks) at(id int) (*npz, int) {
	part := b.list[id/b.each]
	return part.npz, part.first + id%b.each
}

func (b *blocks) name(id int) string           { z, i := b.at(id); return z.name(i) }
func (b *blocks) unpack([]int, *closers) error { return nil } // .npy files are never compressed
func (b *blocks) classes() (n int, _ []string) {
	if b.n == len(cifarNames[0]) {
		return b.n, cifarNames[0]
	}
	return b.n, nil
}

func (b *blocks) read(id int, buf []byte) ([]byte, [3]int, error) {
	z, i := b.at(id)
	return z.read(i, buf)
}

const labelsFile = "labels"

// openCIFARC opens the authors' arrays: one for each corruption, whose rows begin with severity 1, and one of labels,
// which may be written once for all severities. An image's id is its index in the split; within one severity it is
// the clean image's id.
func openCIFARC(fsys fs.FS, spec Spec, files *closers) (source, error) {
	if !isFolder(fsys, spec.Path) {
		return nil, errors.New("it is no folder; the arrays lie in one, CIFAR-10-C, with labels.npy beside them")
	}
	set, err := openArrays(fsys, spec.Path, files)
	if err != nil {
		return nil, err
	}
	var there []string
	for _, a := range set.list {
		if a.name != labelsFile {
			there = append(there, a.name)
		}
	}
	labels := set.find(labelsFile)
	if labels == nil {
		return nil, fmt.Errorf("it has no labels.npy beside the corruptions; it holds: %s", set.names())
	}
	chosen, err := selected(spec.Split, there)
	if err != nil {
		return nil, err
	}
	b := &blocks{}
	for _, name := range chosen.names {
		z, err := corruptedArray(set, name, *labels, path.Join(spec.Path, name+".npy"), files)
		if err != nil {
			return nil, fmt.Errorf("%s.npy: %w", shorten(name), err)
		}
		each := z.images() / corruption.Severities
		for _, severity := range chosen.severities {
			first := (severity - 1) * each
			b.list = append(b.list, block{z, first})
			for i := first; i < first+each; i++ {
				b.labels = append(b.labels, z.label(i%z.count()))
			}
		}
		switch {
		case b.npz == nil:
			b.npz, b.each = z, each
		case z.shape != b.shape || z.last != b.last || each != b.each:
			return nil, fmt.Errorf("%s.npy has %d images of shape %v, %s.npy others", shorten(name), z.images(),
				z.shape, shorten(chosen.names[0]))
		}
	}
	return b, nil
}

// corruptedArray opens the images of a corruption at all severities.
func corruptedArray(set arrays, name string, labels array, file string, files *closers) (*npz, error) {
	z := &npz{path: file}
	if err := z.openImages(*set.find(name), 3, files); err != nil {
		return nil, err
	}
	switch n := z.images(); {
	case z.h.Name != "uint8":
		return nil, fmt.Errorf("its images are %s, the authors' are uint8", z.h.Name)
	case n == 0 || n%corruption.Severities != 0:
		return nil, fmt.Errorf("%d images are not as many of each of the %d severities", n, corruption.Severities)
	}
	var err error
	if z.labels, err = labels.classes(); err != nil {
		return nil, fmt.Errorf("labels.npy: %w", err)
	}
	z.n = z.used()
	if n := z.count(); n != z.images() && n*corruption.Severities != z.images() {
		return nil, fmt.Errorf("it has %d images, labels.npy %d labels", z.images(), n)
	}
	return z, nil
}

func isCIFARC(fsys fs.FS, name string) bool {
	return isFile(fsys, path.Join(name, labelsFile+".npy")) && slices.ContainsFunc(corruption.Names(),
		func(c string) bool { return isFile(fsys, path.Join(name, c+".npy")) })
}

// corruptionFolders returns the folders of corruptions in a folder, or one level deeper, as the authors' archives
// group them.
func corruptionFolders(fsys fs.FS, root string) (map[string]string, error) {
	found := map[string]string{}
	look := func(dir string) ([]string, error) {
		names, err := foldersIn(fsys, dir)
		for _, name := range names {
			if isFolder(fsys, path.Join(dir, name, "1")) {
				found[name] = path.Join(dir, name)
			}
		}
		return names, err
	}
	groups, err := look(root)
	for _, group := range groups {
		if err == nil && len(groups) <= 10 && found[group] == "" {
			_, err = look(path.Join(root, group))
		}
	}
	return found, err
}

// openImageNetC opens folders CORRUPTION/SEVERITY/CLASS of images. Classes are in the order of their folders' names.
func openImageNetC(fsys fs.FS, spec Spec, _ *closers) (source, error) {
	folders, err := corruptionFolders(fsys, spec.Path)
	if err != nil {
		return nil, err
	}
	there := slices.Sorted(maps.Keys(folders))
	if len(there) == 0 {
		return nil, errors.New("it holds no folders such as fog/3/CLASS, with the images of a corruption and a " +
			"severity; unpack the archives into one folder and name that")
	}
	chosen, err := selected(spec.Split, there)
	if err != nil {
		return nil, err
	}
	var f *folder
	for _, name := range chosen.names {
		for _, severity := range chosen.severities {
			dir := path.Join(folders[name], strconv.Itoa(severity))
			classes, err := foldersIn(fsys, dir)
			if err != nil {
				return nil, err
			}
			if f == nil {
				f, err = newFolder(fsys, spec, classes)
			}
			if err == nil {
				err = f.listClasses(dir, "", classes)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// isImageNetC reports whether a folder contains a corruption's folder of such images.
func isImageNetC(fsys fs.FS, name string) bool {
	folders, err := corruptionFolders(fsys, name)
	return err == nil && slices.ContainsFunc(corruption.Names(), func(c string) bool { return folders[c] != "" })
}
