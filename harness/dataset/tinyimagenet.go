package dataset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"selfheal/internal/fault"
	"selfheal/internal/number"
)

// openTinyImageNet reads Tiny-ImageNet-200's folders as Stanford published them. The path is its root, root/val or
// root/train. The split val has the validation images, in the order of val_annotations.txt; train goes class by
// class, each folder sorted. Labels follow wnids.txt, or the given class names. The test images have no labels and
// can't be used.
func openTinyImageNet(fsys fs.FS, spec Spec, _ *closers) (source, error) {
	root, part := tinyImageNetRoot(fsys, spec.Path)
	split := cmp.Or(spec.Split, part, "val")
	switch {
	case split != "val" && split != "train":
		return nil, fmt.Errorf("split must be val or train, not %s: its test images have no labels", shorten(split))
	case part != "" && part != split:
		return nil, fmt.Errorf("split: it is %s, but the path is that of %s; remove one of the two", split, part)
	}
	text, err := readText(fsys, path.Join(root, "wnids.txt"))
	if err != nil {
		return nil, err
	}
	names := strings.Fields(text)
	if len(names) == 0 {
		return nil, errors.New("wnids.txt names no classes")
	}
	f, err := newFolder(fsys, spec, names)
	if err != nil {
		return nil, err
	}
	dir := path.Join(root, split)
	if split == "val" {
		return f, f.listValidation(dir)
	}
	classes, err := foldersIn(fsys, dir)
	if err != nil {
		return nil, err
	}
	return f, f.listClasses(dir, "images", classes)
}

// tinyImageNetRoot cuts val or train off the path of a folder that does not itself hold the list of classes.
func tinyImageNetRoot(fsys fs.FS, folder string) (root, part string) {
	if base := path.Base(folder); (base == "val" || base == "train") && !isFile(fsys, path.Join(folder, "wnids.txt")) {
		return path.Dir(folder), base
	}
	return folder, ""
}

func isTinyImageNet(fsys fs.FS, folder string) bool {
	root, _ := tinyImageNetRoot(fsys, folder)
	return isFile(fsys, path.Join(root, "wnids.txt"))
}

func (f *folder) listValidation(dir string) error {
	annotations, images := path.Join(dir, "val_annotations.txt"), path.Join(dir, "images")
	text, err := readText(f.fsys, annotations)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(strings.TrimRight(text, "\r\n"), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 2 || !isName(fields[0]) {
			return fmt.Errorf("%s:%d: a line is a file's name and its class, not %q", annotations, i+1, shorten(line))
		}
		label, ok := f.byClass[fields[1]]
		if !ok {
			return fmt.Errorf("%s:%d: %s has the class %q, which is not in the list of classes", annotations, i+1,
				shorten(fields[0]), shorten(fields[1]))
		}
		f.add(images, fields[0], label)
	}
	return nil
}

// isName reports whether a text may be a file's name. Image files are known to have such names.
func isName(s string) bool {
	const most = 255 // bytes, in common file systems
	return len(s) <= most && !strings.ContainsAny(s, `/\`) && !strings.ContainsFunc(s, hidden)
}

func readText(fsys fs.FS, name string) (string, error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const most = 64 << 20
	if f.size > most {
		return "", fmt.Errorf("%s is larger than %s", name, number.Bytes(most))
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, f.size))
	if err != nil {
		return "", fmt.Errorf("%s can't be read: %w", name, err)
	}
	list, err := Text(text)
	return list, fault.At(name, err)
}

// Text returns a list's text without the byte order mark that some editors write.
func Text(data []byte) (string, error) {
	if bytes.IndexByte(data, 0) >= 0 {
		return "", errors.New("it is no text in UTF-8 but looks like UTF-16; save it as UTF-8")
	}
	return strings.TrimPrefix(string(data), "\ufeff"), nil
}

// shorten makes a file's text fit for a message: one line, not long, printable.
func shorten(s string) string { return oneLine(s, 60) }

// oneLine returns at most so many printable characters of a text.
func oneLine(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if hidden(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(s))
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }
