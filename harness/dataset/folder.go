package dataset

import (
	"cmp"
	"errors"
	"fmt"
	stdimage "image"
	"image/color"
	_ "image/jpeg" // registers the decoder
	_ "image/png"  // registers the decoder
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// folder is a list of labelled image files: image-folder and tiny-imagenet.
type folder struct {
	fsys    fs.FS
	entries []labelled
	names   []string       // of the classes
	labels  map[string]int // by these names
}

func newFolder(fsys fs.FS, classes []string) (*folder, error) {
	f := &folder{fsys: fsys, names: classes, labels: map[string]int{}}
	for i, name := range classes {
		if _, twice := f.labels[name]; twice {
			return nil, fmt.Errorf("the class %q is named twice", shorten(name))
		}
		f.labels[name] = i
	}
	return f, nil
}

type labelled struct {
	dir, file string
	label     int
}

func (l labelled) path() string { return path.Join(l.dir, l.file) }

// openFolder lists a folder of class folders of PNG and JPEG files, or the one of a split. Classes
// are in the order of their folders' names, or of the names given; images in
// the order of classes, then of their files' names. Other files are passed over.
func openFolder(fsys fs.FS, spec Spec) (source, error) {
	root, err := splitFolder(fsys, spec)
	if err != nil {
		return nil, err
	}
	classes, err := foldersIn(fsys, root)
	if err != nil {
		return nil, err
	}
	if len(classes) == 0 {
		return nil, errors.New("it holds no folders; every class is a folder of PNG or JPEG files")
	}
	names := classes
	if len(spec.ClassNames) > 0 {
		names = spec.ClassNames
	} else if spec.Classes > 0 && spec.Classes != len(classes) {
		return nil, fmt.Errorf("it holds %d class folders, but classes says %d; list the names of the classes in the "+
			"order of their labels", len(classes), spec.Classes)
	}
	f, err := newFolder(fsys, names)
	if err != nil {
		return nil, err
	}
	return f, f.listClasses(root, "", classes)
}

// splitNames are those that folders of a split commonly have.
var splitNames = []string{"train", "training", "val", "valid", "validation", "dev", "test", "testing"}

// splitFolder is where a split's class folders lie: the folder itself, unless all that it holds are splits.
func splitFolder(fsys fs.FS, spec Spec) (string, error) {
	folders, err := foldersIn(fsys, spec.Path)
	if err != nil {
		return "", err
	}
	var splits []string // with class folders; images of a split without have no labels
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

// some are names for a message.
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
		label, ok := f.labels[class]
		if !ok {
			return fmt.Errorf("its folder %s is not in the list of classes", shorten(class))
		}
		if err := f.list(path.Join(dir, class, part), label); err != nil {
			return err
		}
	}
	return nil
}

// foldersIn lists the folders in a folder, sorted, but for those with a dot before their names.
func foldersIn(fsys fs.FS, dir string) (names []string, err error) {
	entries, err := fs.ReadDir(fsys, dir)
	for _, e := range entries {
		info, err := fs.Stat(fsys, path.Join(dir, e.Name())) // follows links
		if err != nil {
			return nil, err
		}
		if info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// list adds the images of one folder.
func (f *folder) list(dir string, label int) error {
	files, err := fs.ReadDir(f.fsys, dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		switch strings.ToLower(path.Ext(file.Name())) {
		case ".png", ".jpg", ".jpeg":
			if !strings.HasPrefix(file.Name(), ".") && !file.IsDir() {
				f.entries = append(f.entries, labelled{dir, file.Name(), label})
			}
		}
	}
	return nil
}

func (f *folder) count() int               { return len(f.entries) }
func (f *folder) classes() (int, []string) { return len(f.names), f.names }
func (f *folder) name(id int) string       { return f.entries[id].path() }
func (f *folder) Close() error             { return nil }

func (f *folder) label(id int) (int, error) { return f.entries[id].label, nil }

func (f *folder) read(id int, buf []byte) ([]byte, [3]int, error) {
	return decode(f.fsys, f.entries[id].path(), buf)
}

func (f *folder) pixels(bytes []byte, out []float32) { values(bytes, out) }

// values writes the pixels for which bytes stand into out.
func values(bytes []byte, out []float32) {
	for i, b := range bytes {
		out[i] = value(b)
	}
}

// ReadImage reads a PNG or JPEG file as an image folder's images are read: pixels in
// [0,1], row-major CHW, of three channels, and their shape.
func ReadImage(fsys fs.FS, name string) (pixels []float32, shape [3]int, err error) {
	levels, shape, err := decode(fsys, name, nil)
	pixels = make([]float32, len(levels))
	values(levels, pixels)
	return pixels, shape, err
}

// maxPixels bounds one image file, height times width: a small file may claim many, and a decoder takes up to 24
// bytes for each.
const maxPixels = 1 << 25

// decode reads a PNG or JPEG file as RGB, channels first, into buf if it is large enough. Gray images get three
// equal channels and transparency is dropped, as torchvision's loader does; 16-bit channels keep their upper
// half. JPEG leaves decoders some freedom (the transform's rounding, how colour is interpolated), so pixels may
// lie a few levels from those of another library.
func decode(fsys fs.FS, name string, buf []byte) ([]byte, [3]int, error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return nil, [3]int{}, err
	}
	defer f.Close()
	head, _, err := stdimage.DecodeConfig(io.NewSectionReader(f, 0, f.size))
	if err != nil {
		return nil, [3]int{}, fmt.Errorf("%s is no readable PNG or JPEG: %w", name, err)
	}
	h, w := head.Height, head.Width
	if h < 1 || w < 1 || h > maxPixels/w {
		return nil, [3]int{}, fmt.Errorf("%s has %d×%d pixels, more than this program reads", name, w, h)
	}
	im, _, err := stdimage.Decode(io.NewSectionReader(f, 0, f.size))
	if err != nil {
		return nil, [3]int{}, fmt.Errorf("%s can't be decoded: %w", name, err)
	}
	if im.Bounds().Dx() != w || im.Bounds().Dy() != h {
		return nil, [3]int{}, fmt.Errorf("%s decodes to another size than its header says", name)
	}
	plane := h * w
	buf = slices.Grow(buf[:0], 3*plane)[:3*plane]
	row := rows(im)
	for y := range h {
		i := y * w
		row(y, buf[i:i+w], buf[plane+i:plane+i+w], buf[2*plane+i:2*plane+i+w])
	}
	return buf, [3]int{3, h, w}, nil
}

// rows returns a function that reads the pixels of im's row y, counted from its
// upper edge: of the two types that nearly every JPEG and PNG decodes to
// directly, of others through the colour model.
func rows(im stdimage.Image) func(y int, r, g, b []uint8) {
	at := im.Bounds().Min
	switch im := im.(type) {
	case *stdimage.YCbCr:
		return func(y int, r, g, b []uint8) {
			luma := im.Y[im.YOffset(at.X, at.Y+y):]
			for x := range r {
				c := im.COffset(at.X+x, at.Y+y)
				r[x], g[x], b[x] = color.YCbCrToRGB(luma[x], im.Cb[c], im.Cr[c])
			}
		}
	case *stdimage.RGBA: // an opaque PNG
		return func(y int, r, g, b []uint8) {
			row := im.Pix[im.PixOffset(at.X, at.Y+y):]
			for x := range r {
				r[x], g[x], b[x] = row[4*x], row[4*x+1], row[4*x+2]
			}
		}
	}
	return func(y int, r, g, b []uint8) {
		for x := range r {
			c := color.NRGBAModel.Convert(im.At(at.X+x, at.Y+y)).(color.NRGBA)
			r[x], g[x], b[x] = c.R, c.G, c.B
		}
	}
}
