package dataset

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// pictures are image files in Parquet files, as data sets on the Hugging Face hub have them: a column of structs
// {bytes, path}, or of bytes, and one of labels. Parquet allows no random access, so the chosen images are copied,
// still encoded, into a temporary file.
type pictures struct {
	labels
	parts []picturePart
	names []string // of the classes; nil if the files don't name them
	n     int      // number of classes without names: the largest label plus one
	grey  bool     // images have one channel
	// unlabelled files need no labels, as there is a truth
	unlabelled bool
	copied     io.ReaderAt
	at         []int64 // position of each image in it
	size       []int32
}

type picturePart struct {
	file
	name  string
	about string // begins errors; "" for the data set's only file, which its own errors name
	pages *parquet.File
	image int // index of the column
	first int // id of its first image
}

// Names of columns, in the order in which they are tried.
var (
	imageColumns = []string{"image", "img"}
	labelColumns = []string{"label", "fine_label", "labels"}
)

const (
	maxParquetFooter = 256 << 20 // bytes
	maxParquetDepth  = 3         // depth of folders within the data set's that is searched for files
)

func openParquet(fsys fs.FS, spec Spec, files *closers) (source, error) {
	names, err := parquetSplit(fsys, spec)
	if err != nil {
		return nil, err
	}
	p, t := &pictures{grey: spec.grey(), unlabelled: spec.Truth != ""}, (*table)(nil)
	if spec.Layout == result.Flat {
		t = &table{pictures: p}
	}
	for _, name := range names {
		f, err := files.open(fsys, name)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, picturePart{file: f, name: name, first: len(p.labels),
			about: strings.TrimPrefix(name+": ", spec.Path+": ")})
		part := &p.parts[len(p.parts)-1]
		err = guarded(func() error {
			if err := p.open(part); err != nil {
				return err
			}
			if t != nil {
				return t.columns(part, spec.Keys)
			}
			return p.columns(part, spec.Keys)
		})
		if err != nil {
			return nil, fmt.Errorf("%s%w", part.about, err)
		}
	}
	if t != nil {
		return t, nil
	}
	return p, nil
}

// guarded runs a function that uses the library, and turns the library's panics on broken files into errors.
func guarded(run func() error) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("it is broken: %s", shorten(fmt.Sprint(broken)))
		}
	}()
	return run()
}

// open reads a file's metadata.
func (p *pictures) open(part *picturePart) (err error) {
	var tail [8]byte // length of the metadata, and the format's magic number
	if part.size < int64(len(tail)) {
		return errors.New("it is no Parquet file: it is too short")
	}
	if err := readAt(part, tail[:], part.size-int64(len(tail))); err != nil {
		return err
	}
	if length := binary.LittleEndian.Uint32(tail[:]); int64(length) > min(part.size, maxParquetFooter) {
		return fmt.Errorf("it is no Parquet file: what it says of itself has %s", number.Bytes(int64(length)))
	}
	part.pages, err = parquet.OpenFile(part.file, part.size, parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("it is no Parquet file: %s", shorten(err.Error()))
	}
	if rows := part.pages.NumRows(); rows < 0 || rows > int64(maxImages-len(p.labels)) {
		return fmt.Errorf("it claims %d images; %d in all are read", rows, maxImages)
	}
	return nil
}

// columns finds the images and reads the labels of a file.
func (p *pictures) columns(part *picturePart, keys *result.Keys) error {
	x, y := imageColumns, labelColumns
	if keys != nil {
		x, y = []string{keys.X}, []string{keys.Y}
	}
	image, _, err := column(part.pages, "images", x)
	if err != nil {
		return err
	}
	part.image = image.ColumnIndex
	_, err = p.readLabels(part, y)
	return err
}

// readLabels reads a file's labels, from the first of the named columns, and returns this.
func (p *pictures) readLabels(part *picturePart, columns []string) (label parquet.LeafColumn, err error) {
	label, name, err := column(part.pages, "labels", columns)
	if p.unlabelled {
		p.labels = append(p.labels, make(labels, part.pages.NumRows())...)
		if err != nil {
			label.ColumnIndex = -1
		}
		return label, nil
	}
	if err != nil {
		return label, err
	}
	if p.names == nil {
		p.names = classNames(part.pages, name)
	}
	err = each(part.pages, label.ColumnIndex, nil, func(row int, v parquet.Value) error {
		if v.IsNull() || v.Kind() != parquet.Int32 && v.Kind() != parquet.Int64 {
			return fmt.Errorf("its column %s: row %d holds %s, not the number of a class", shorten(name), row,
				kindOf(v))
		}
		n := v.Int64()
		if v.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		if n < 0 || n > maxClasses {
			return fmt.Errorf("its column %s: row %d is %d, not the number of a class", shorten(name), row, n)
		}
		p.labels, p.n = append(p.labels, int(n)), max(p.n, int(n)+1)
		return nil
	})
	if rows := part.pages.NumRows(); err == nil && int64(len(p.labels)-part.first) != rows {
		err = fmt.Errorf("it has %d labels for %d images", len(p.labels)-part.first, rows)
	}
	return label, err
}

func kindOf(v parquet.Value) string {
	if v.IsNull() {
		return "nothing"
	}
	return strings.ToLower(v.Kind().String())
}

// column finds the first of the named columns that a file has. In a struct it is the field bytes.
func column(f *parquet.File, what string, names []string) (leaf parquet.LeafColumn, name string, err error) {
	for _, name := range names {
		leaf, ok := f.Schema().Lookup(name, "bytes")
		if !ok {
			leaf, ok = f.Schema().Lookup(name)
		}
		if ok && leaf.MaxRepetitionLevel == 0 {
			return leaf, name, nil
		}
	}
	held := lists.Map(f.Schema().Columns(), func(c []string) string { return strings.Join(c, ".") })
	return leaf, "", fmt.Errorf("it has no column of %s called %s but %s; name it by keys: {x: IMAGES, y: LABELS} or "+
		"--keys IMAGES,LABELS", what, some(names), cmp.Or(some(held), "none"))
}

// classNames returns the classes' names that the hub's library writes into the metadata of a file.
func classNames(f *parquet.File, column string) []string {
	var about struct {
		Info struct {
			Features map[string]struct {
				Names []string `json:"names"`
			} `json:"features"`
		} `json:"info"`
	}
	text, _ := f.Lookup("huggingface")
	if json.Unmarshal([]byte(text), &about) != nil { // other programs may write anything there
		return nil
	}
	return about.Info.Features[column].Names
}

// each reads a column's values in the row groups for which wanted is true (nil: all). A value is valid during the
// call.
func each(f *parquet.File, column int, wanted func(first, n int) bool, do func(row int, v parquet.Value) error) error {
	first := 0
	for _, group := range f.RowGroups() {
		n := int(group.NumRows())
		if wanted == nil || wanted(first, n) {
			if err := eachOf(group.ColumnChunks()[column], first, do); err != nil {
				return err
			}
		}
		first += n
	}
	return nil
}

func eachOf(chunk parquet.ColumnChunk, row int, do func(row int, v parquet.Value) error) error {
	r := parquet.NewColumnChunkValueReader(chunk)
	defer r.Close()
	values := make([]parquet.Value, 256)
	for {
		n, err := r.ReadValues(values)
		for _, v := range values[:n] {
			if err := do(row, v); err != nil {
				return err
			}
			row++
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("its rows from %d can't be read: %s", row, shorten(err.Error()))
		}
	}
}

// unpack copies the encoded images of ids into a temporary file.
func (p *pictures) unpack(ids []int, files *closers) (err error) {
	p.at, p.size = make([]int64, len(p.labels)), make([]int32, len(p.labels))
	chosen := slices.Sorted(slices.Values(ids))
	p.copied, err = files.temporary(func(w io.Writer) error {
		end := int64(0)
		for i := range p.parts {
			part := &p.parts[i]
			wanted := func(first, n int) bool {
				k, _ := slices.BinarySearch(chosen, part.first+first)
				return k < len(chosen) && chosen[k] < part.first+first+n
			}
			err := guarded(func() error {
				return each(part.pages, part.image, wanted, func(row int, v parquet.Value) error {
					id := part.first + row
					if _, ok := slices.BinarySearch(chosen, id); !ok || id >= len(p.at) {
						return nil
					}
					if v.Kind() != parquet.ByteArray || v.IsNull() {
						return fmt.Errorf("row %d holds %s, not an image; files with only the paths of images are "+
							"not read", row, kindOf(v))
					}
					data := v.ByteArray()
					p.at[id], p.size[id] = end, int32(len(data))
					end += int64(len(data))
					_, err := w.Write(data)
					return err
				})
			})
			if err != nil {
				return fmt.Errorf("%s%w", part.about, err)
			}
		}
		return nil
	})
	return err
}

func (p *pictures) classes() (int, []string) { return max(p.n, len(p.names)), p.names }

func (p *pictures) name(id int) string {
	i := len(p.parts) - 1
	for p.parts[i].first > id {
		i--
	}
	return fmt.Sprintf("row %d of %s", id-p.parts[i].first, p.parts[i].name)
}

func (p *pictures) read(id int, buf []byte) ([]byte, [3]int, error) {
	data := make([]byte, p.size[id])
	if err := readBytes(p, id, p.copied, data, p.at[id]); err != nil {
		return nil, [3]int{}, err
	}
	return decode(file{ReaderAt: bytes.NewReader(data), size: int64(len(data))}, p.name(id), p.grey, buf)
}

// parquetSplit lists the files of a split: a file itself, or the files of a folder whose names contain the split, as
// the hub finds them. If no name contains any split, it lists all files.
func parquetSplit(fsys fs.FS, spec Spec) ([]string, error) {
	if !isFolder(fsys, spec.Path) {
		if spec.Split != "" {
			return nil, errors.New("split: a single file has no splits; remove it, or give the folder that has several")
		}
		return []string{spec.Path}, nil
	}
	all, err := parquetFiles(fsys, spec.Path, ".", maxParquetDepth)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no .parquet files")
	}
	of := func(split string) (files []string) {
		says := regexp.MustCompile(`(?i)(^|[^a-z0-9])` + regexp.QuoteMeta(split) + `([^a-z0-9]|$)`)
		for _, name := range all {
			if split == "" || says.MatchString(name) {
				files = append(files, path.Join(spec.Path, name))
			}
		}
		return files
	}
	split, err := commonSplit(spec.Split, func(split string) bool { return len(of(split)) > 0 },
		"files of split", "no name of its files says "+shorten(spec.Split)+"; remove it")
	return of(split), err
}

// parquetFiles lists the Parquet files in a folder and, down to a depth, in its folders, sorted.
func parquetFiles(fsys fs.FS, root, folder string, depth int) (files []string, err error) {
	entries, err := fs.ReadDir(fsys, path.Join(root, folder))
	if err != nil {
		return nil, err
	}
	var inner []string
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case strings.EqualFold(path.Ext(name), ".parquet") && isFile(fsys, path.Join(root, name)):
			files = append(files, name)
		// only among few entries, as each is a system call
		case !e.Type().IsRegular() && isFolder(fsys, path.Join(root, name)):
			inner = append(inner, name)
		}
	}
	const few = 32 // a folder with more has the classes of an image folder
	if depth == 0 || len(inner) > few {
		return files, nil
	}
	for _, name := range inner {
		more, err := parquetFiles(fsys, root, name, depth-1)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

func isParquet(fsys fs.FS, name string) bool {
	files, err := parquetFiles(fsys, name, ".", maxParquetDepth)
	return err == nil && len(files) > 0
}
