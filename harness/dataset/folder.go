package dataset

import (
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
	pixels  []byte
}

func newFolder(fsys fs.FS, classes []string) (*folder, error) {
	f := &folder{fsys: fsys, names: classes, labels: map[string]int{}}
	for i, name := range classes {
		if _, twice := f.labels[name]; twice {
			return nil, fmt.Errorf("the class %q is named twice", name)
		}
		f.labels[name] = i
	}
	return f, nil
}

type labelled struct {
	path  string
	label int
}

// openFolder lists a folder of class folders of PNG and JPEG files. Classes
// are in the order of their folders' names, or of the names given; images in
// the order of classes, then of their files' names. Other files are passed over.
func openFolder(fsys fs.FS, spec Spec) (source, error) {
	classes, err := foldersIn(fsys, spec.Path)
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
	return f, f.listClasses(spec.Path, "", classes)
}

// listClasses adds the images in a part of each class's folder.
func (f *folder) listClasses(dir, part string, classes []string) error {
	for _, class := range classes {
		label, ok := f.labels[class]
		if !ok {
			return fmt.Errorf("its folder %s is not in the list of classes", class)
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
				f.entries = append(f.entries, labelled{path.Join(dir, file.Name()), label})
			}
		}
	}
	return nil
}

func (f *folder) count() int               { return len(f.entries) }
func (f *folder) classes() (int, []string) { return len(f.names), f.names }
func (f *folder) Close() error             { return nil }

func (f *folder) read(id int) (image, error) {
	e := f.entries[id]
	pixels, shape, err := decode(f.fsys, e.path, f.pixels)
	if err != nil {
		return image{}, err
	}
	f.pixels = pixels
	return image{shape: shape, bytes: pixels, label: e.label, name: e.path}, nil
}

// ReadImage reads a PNG or JPEG file as an image folder's images are read: pixels in
// [0,1], row-major CHW, of three channels, and their shape.
func ReadImage(fsys fs.FS, name string) (pixels []float32, shape [3]int, err error) {
	levels, shape, err := decode(fsys, name, nil)
	for _, b := range levels {
		pixels = append(pixels, value(b))
	}
	return pixels, shape, err
}

// maxPixels bounds one image file, height times width.
const maxPixels = 1 << 26

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
	at, pixel := im.Bounds().Min, reader(im)
	for y := range h {
		for x := range w {
			i := y*w + x
			buf[i], buf[plane+i], buf[2*plane+i] = pixel(at.X+x, at.Y+y)
		}
	}
	return buf, [3]int{3, h, w}, nil
}

// reader returns a function that reads im's pixels: the two types that nearly
// every JPEG and PNG decodes to directly, others through the colour model.
func reader(im stdimage.Image) func(x, y int) (r, g, b uint8) {
	switch im := im.(type) {
	case *stdimage.YCbCr:
		return func(x, y int) (r, g, b uint8) {
			c := im.YCbCrAt(x, y)
			return color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
		}
	case *stdimage.RGBA: // an opaque PNG
		return func(x, y int) (r, g, b uint8) {
			c := im.RGBAAt(x, y)
			return c.R, c.G, c.B
		}
	}
	return func(x, y int) (r, g, b uint8) {
		c := color.NRGBAModel.Convert(im.At(x, y)).(color.NRGBA)
		return c.R, c.G, c.B
	}
}
