package dataset

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"selfheal/internal/lists"
)

// Format is a way to store labelled images: a row of the table of formats.
type Format struct {
	Name string
	Doc  string // one line
	// Ext is the extension, in lower case, by which [Guess] recognises the format; "" for none.
	Ext string
	// Layout describes the folder or file by which Guess recognises the format; "" for none.
	Layout string
	// Classes is the number of classes of every such set; 0 if it differs.
	Classes int
	Needs   string // describes what belongs at an empty path, in a sentence
	// Keys says what the config's keys name in such a set; "" if it takes none.
	Keys string
	// Splits describes the config's split in such a set, or its default, if it is not the usual; else "".
	Splits string
	// ByClass says that each class has a folder, and that the order of folders is the order of labels.
	ByClass bool
	Rows    bool   // such a set may hold rows of features, by layout: flat
	Trained string // the name for scripts/zoo/train.py; "" if it does not train on it
	// is reports whether what lies at a path has that layout.
	is   func(fsys fs.FS, path string) bool
	open func(fsys fs.FS, spec Spec, files *closers) (source, error)
}

// corruptedSplits describes the splits of corrupted images.
const corruptedSplits = "a corruption and severity as fog/3, a corruption, or all"

// Table is the table of formats. [Guess] asks its rows in order.
var Table = []Format{
	{Name: "cifar10-bin", Doc: "CIFAR-10's binary version, one label byte and 3072 pixels a record: its folder, its " +
		"`.tar.gz` or one of its files. The classes have CIFAR-10's names, or those that a " +
		"`batches.meta.txt` beside it lists",
		Ext: ".bin", Layout: "`cifar-10-batches-bin`, `cifar-10-binary.tar.gz`", Classes: 10, Trained: "cifar10",
		is: cifar10Bin.is, open: cifar10Bin.open,
		Needs: "CIFAR-10's binary version, records of a label byte and 3072 pixel bytes: cifar-10-binary.tar.gz " +
			"from https://www.cs.toronto.edu/~kriz/cifar.html"},
	{Name: "cifar100-bin", Doc: "CIFAR-100's, of a coarse and a fine label byte and the pixels; the fine one counts. " +
		"Names as above, by `fine_label_names.txt`",
		Layout: "`cifar-100-binary`, `cifar-100-binary.tar.gz`", Classes: 100, Trained: "cifar100",
		is: cifar100Bin.is, open: cifar100Bin.open,
		Needs: "CIFAR-100's binary version, records of a coarse and a fine label byte and 3072 pixel bytes: " +
			"cifar-100-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html"},
	{Name: "cifar10-python", Doc: "CIFAR-10's Python version, as torchvision downloads it: its folder, its `.tar.gz` " +
		"or one of its files",
		Layout: "`cifar-10-batches-py`, `cifar-10-python.tar.gz`", Classes: 10,
		is: cifar10Python.is, open: cifar10Python.open,
		Needs: "CIFAR-10's Python version, the folder cifar-10-batches-py: cifar-10-python.tar.gz from " +
			"https://www.cs.toronto.edu/~kriz/cifar.html"},
	{Name: "cifar100-python", Doc: "CIFAR-100's; the fine labels count",
		Layout: "`cifar-100-python`, `cifar-100-python.tar.gz`", Classes: 100,
		is: cifar100Python.is, open: cifar100Python.open,
		Needs: "CIFAR-100's Python version, the folder cifar-100-python: cifar-100-python.tar.gz from " +
			"https://www.cs.toronto.edu/~kriz/cifar.html"},
	{Name: "tiny-imagenet", Doc: "Tiny-ImageNet's folder, or its `val` or `train`",
		Layout: "a folder with `wnids.txt` in it or beside it", Trained: "tiny-imagenet", Splits: "val",
		is: isTinyImageNet, open: openTinyImageNet,
		Needs: "Tiny-ImageNet's folder, with wnids.txt, train/CLASS/images/ and val/ (val_annotations.txt and " +
			"images/): http://cs231n.stanford.edu/tiny-imagenet-200.zip"},
	{Name: "cifar10-c", Doc: "CIFAR-10-C: a folder of the authors' arrays, `fog.npy` and so on, and `labels.npy` " +
		"(CIFAR-100-C too). `split` names a corruption and a severity, as `fog/3`, a corruption, or `all`",
		Layout: "a folder with `labels.npy` and a corruption's array", Splits: corruptedSplits,
		is: isCIFARC, open: openCIFARC,
		Needs: "CIFAR-10-C's folder of .npy files: https://zenodo.org/record/2535967"},
	{Name: "imagenet-c", Doc: "ImageNet-C and Tiny-ImageNet-C: folders CORRUPTION/SEVERITY/CLASS of images; `split` " +
		"as in `cifar10-c`",
		Layout: "a folder with folders as `fog/1`", ByClass: true, Splits: corruptedSplits,
		is: isImageNetC, open: openImageNetC,
		Needs: "ImageNet-C's folders, all archives unpacked into one: https://zenodo.org/record/2235448"},
	{Name: "npz", Doc: "NumPy's arrays in an archive, or `.npy` files: `x`, uint8 or float32, NCHW or NHWC, and " +
		"`y`, integers, or of other names; by `layout: flat` x is [N, d] of any numbers",
		Ext: ".npz", Layout: "a `.npy` file, a folder with such", Keys: "arrays", Rows: true,
		is: isArrays, open: openNPZ,
		Needs: "a NumPy archive of x, images as uint8 or float32, and y, integer labels"},
	{Name: "parquet", Doc: "Parquet files of the Hugging Face hub: a file, or a folder with those of each split. " +
		"Columns `image` or `img`, image files or structs with such as `bytes`, and `label` or `fine_label`; by " +
		"`layout: flat` a column `features` of lists of numbers, or all columns beside `label`, `target` or `y`",
		Ext: ".parquet", Layout: "a folder with such files", Keys: "columns", Rows: true,
		is: isParquet, open: openParquet,
		Needs: "Parquet files of the Hugging Face hub with a column of images and one of labels"},
	{Name: "csv", Doc: "a CSV file with a line for each image: its file, PNG, JPEG or WebP, relative to the list, " +
		"and its label or its class's name; the first line may be `file,label`",
		Ext: ".csv", open: openList,
		Needs: "a CSV file of image files and their labels"},
	{Name: "pairs", Doc: "pairs of images, the same or not, for a task that verifies: LFW's `pairs.txt` in the " +
		"folder of its images, or a CSV file of two files and 1 or 0 a line",
		Ext: ".txt", open: openPairs,
		Needs: "a list of pairs, in LFW's form (.txt) or as CSV: two images and 1 or 0"},
	{Name: "image-folder", Doc: "a folder for each class, of PNG, JPEG or WebP files, or a folder of such for each " +
		"split",
		Layout: "any other folder", ByClass: true, is: isFolder, open: openFolder,
		Needs: "a folder of images, PNG, JPEG or WebP, one folder a class"},
}

// Keyed returns the formats that take keys.
func Keyed() []string {
	return lists.Map(lists.Only(Table, func(f Format) bool { return f.Keys != "" }), nameOf)
}

// WithRows returns the formats that may hold rows of features.
func WithRows() []string {
	return lists.Map(lists.Only(Table, func(f Format) bool { return f.Rows }), nameOf)
}

// Find returns the row of a format, or an empty one.
func Find(name string) (f Format) {
	if i := slices.Index(Formats(), name); i >= 0 {
		f = Table[i]
	}
	return f
}

// Formats returns the names of the formats.
func Formats() []string { return lists.Map(Table, nameOf) }

func nameOf(f Format) string { return f.Name }

// Guess recognises the format of the file or folder at name by its extension or its layout.
func Guess(fsys fs.FS, name string) (string, error) {
	if _, err := fs.Stat(fsys, name); err != nil {
		return "", err
	}
	for _, f := range Table {
		switch {
		case f.is != nil && f.is(fsys, name),
			f.Ext != "" && strings.EqualFold(path.Ext(name), f.Ext) && !isFolder(fsys, name):
			return f.Name, nil
		}
	}
	return "", fmt.Errorf("its format does not follow from its name; formats: %s", strings.Join(Formats(), ", "))
}

func isFolder(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}
