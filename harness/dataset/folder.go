package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"selfheal/internal/lists"
)

// folder is a list of labelled image files, of image-folder or tiny-imagenet.
type folder struct {
	labels
	fsys    fs.FS
	root    string // the data set's path
	entries []entry
	names   []string       // of the classes
	byClass map[string]int // labels by class name
	grey    bool           // images have one channel

	left      int      // number of files and folders that are not images; hidden ones and notes do not count
	leftNames []string // of the first of them
}

// noteExtensions are of files that hold no image, such as lists of labels.
var noteExtensions = []string{".csv", ".html", ".json", ".jsonl", ".md", ".tsv", ".txt", ".xml", ".yaml", ".yml"}

// leave counts a file or folder that is not an image, but may hold one.
func (f *folder) leave(name string, e fs.DirEntry) {
	const most = 10 // most names that are kept
	if !e.IsDir() && slices.Contains(noteExtensions, strings.ToLower(path.Ext(name))) {
		return
	}
	if f.left++; len(f.leftNames) < most {
		f.leftNames = append(f.leftNames, shorten(name))
	}
}

// newFolder returns a folder without images yet. Its classes are the spec's, if that has any.
func newFolder(fsys fs.FS, spec Spec, classes []string) (*folder, error) {
	if len(spec.ClassNames) > 0 {
		classes = spec.ClassNames
	}
	f := &folder{fsys: fsys, root: spec.Path, names: classes, byClass: map[string]int{}, grey: spec.grey()}
	for i, name := range classes {
		if _, twice := f.byClass[name]; twice {
			return nil, fmt.Errorf("the class %q is named twice", shorten(name))
		}
		f.byClass[name] = i
	}
	return f, nil
}

type entry struct{ dir, file string }

func (e entry) path() string { return path.Join(e.dir, e.file) }

func (f *folder) add(dir, file string, label int) {
	f.entries, f.labels = append(f.entries, entry{dir, file}), append(f.labels, label)
}

// openFolder lists a folder of class folders with PNG, JPEG and WebP files, or the class folders of a split. Classes
// are in the order of their folders' names, or of the given names; images are in the order of classes, then of their
// files' names. Other files are left out and counted; hidden ones are ignored.
func openFolder(fsys fs.FS, spec Spec, _ *closers) (source, error) {
	root, err := splitFolder(fsys, spec)
	if err != nil {
		return nil, err
	}
	classes, err := foldersIn(fsys, root)
	if err != nil {
		return nil, err
	}
	if len(classes) == 0 && spec.Truth != "" { // images need no class
		f, err := newFolder(fsys, spec, nil)
		if err != nil {
			return nil, err
		}
		return f, f.list(root, 0)
	}
	if len(classes) == 0 {
		return nil, errors.New("it holds no folders; every class is a folder of PNG, JPEG or WebP files, unless a " +
			"task's truth is given (--truth)")
	}
	if len(spec.ClassNames) == 0 && spec.Classes > 0 && spec.Classes != len(classes) {
		return nil, fmt.Errorf("it holds %d class folders, but classes says %d; list the names of the classes in the "+
			"order of their labels", len(classes), spec.Classes)
	}
	f, err := newFolder(fsys, spec, classes)
	if err != nil {
		return nil, err
	}
	beside, err := fs.ReadDir(fsys, root)
	if err != nil {
		return nil, err
	}
	for _, e := range beside {
		if !slices.Contains(classes, e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			f.leave(e.Name(), e)
		}
	}
	return f, f.listClasses(root, "", classes)
}

// splitNames are common names of splits' folders.
var splitNames = []string{"train", "training", "val", "valid", "validation", "dev", "test", "testing"}

// commonSplit returns the split that is asked for, by default test. If a set has none of the usual ones it returns
// "", or an error with the reason none if a split is asked for. what names a split in messages: "files of split".
func commonSplit(asked string, has func(split string) bool, what, none string) (string, error) {
	split := cmp.Or(asked, "test")
	if has(split) {
		return split, nil
	}
	splits := lists.Only(splitNames, has)
	switch {
	case len(splits) > 0:
		return "", fmt.Errorf("it has no %s %s; choose one by split: %s", what, shorten(split), some(splits))
	case asked != "":
		return "", errors.New("split: " + none)
	}
	return "", nil
}

// splitFolder returns the folder with a split's class folders: the path itself, unless it holds nothing but splits.
func splitFolder(fsys fs.FS, spec Spec) (string, error) {
	folders, err := foldersIn(fsys, spec.Path)
	if err != nil {
		return "", err
	}
	var splits []string // splits with class folders; images of others have no labels
	for _, name := range folders {
		if name != spec.Split && !slices.Contains(splitNames, strings.ToLower(name)) {
			if spec.Split == "" {
				return spec.Path, nil
			}
			continue
		}
		inner, err := foldersIn(fsys, path.Join(spec.Path, name))
		if err != nil {
			return "", err
		}
		if len(inner) > 0 {
			splits = append(splits, name)
		}
	}
	split := cmp.Or(spec.Split, "test")
	switch {
	case slices.Contains(splits, split):
		return path.Join(spec.Path, split), nil
	case len(splits) > 0:
		return "", fmt.Errorf("it has no split %s of class folders; choose one by split: %s", shorten(split),
			some(splits))
	case spec.Split != "":
		return "", fmt.Errorf("split: it has no folder %s with class folders in it; remove it", shorten(split))
	}
	return spec.Path, nil
}

// some joins the first names for a message.
func some(names []string) string {
	var list []string
	for i, name := range names {
		if i == 20 {
			list = append(list, "…")
			break
		}
		list = append(list, shorten(name))
	}
	return strings.Join(list, ", ")
}

// listClasses adds the images in a part of each class's folder.
func (f *folder) listClasses(dir, part string, classes []string) error {
	for _, class := range classes {
		label, ok := f.byClass[class]
		if !ok {
			return fmt.Errorf("its folder %s is not in the list of classes", shorten(class))
		}
		if err := f.list(path.Join(dir, class, part), label); err != nil {
			return err
		}
	}
	return nil
}

// foldersIn lists the folders in a folder, sorted, without those whose names begin with a dot.
func foldersIn(fsys fs.FS, dir string) (names []string, err error) {
	entries, err := fs.ReadDir(fsys, dir)
	for _, e := range entries {
		info, err := fs.Stat(fsys, path.Join(dir, e.Name())) // follows links
		if err != nil && e.Type()&fs.ModeSymlink != 0 {      // a broken link
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

var imageExtensions = []string{".png", ".jpg", ".jpeg", ".webp"}

func (f *folder) list(dir string, label int) error {
	files, err := fs.ReadDir(f.fsys, dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		isImage := slices.Contains(imageExtensions, strings.ToLower(path.Ext(file.Name())))
		switch {
		case strings.HasPrefix(file.Name(), "."):
		case isImage && !file.IsDir():
			f.add(dir, file.Name(), label)
		default:
			f.leave(path.Join(path.Base(dir), file.Name()), file)
		}
	}
	return nil
}

func (f *folder) classes() (int, []string) { return len(f.names), f.names }
func (f *folder) name(id int) string       { return f.entries[id].path() }

func (f *folder) file(id int) string {
	return strings.TrimPrefix(f.entries[id].path(), path.Clean(f.root)+"/")
}

func (f *folder) read(id int, buf []byte) ([]byte, [3]int, error) {
	return decodeFile(f.fsys, f.entries[id].path(), f.grey, buf)
}
