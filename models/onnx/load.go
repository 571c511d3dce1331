package onnx

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/fault"
	"selfheal/internal/input"
	pb "selfheal/models/onnx/onnxpb"
)

// maxExternalFiles bounds how many files a model's weights may lie in: exporters
// write one, or one a tensor.
const maxExternalFiles = 4096

// external is where a tensor's data lies, as the file says.
type external struct {
	location     string
	offset, size int64 // in bytes; size is what the tensor's shape needs
	checksum     string
}

// externalData reads where an external tensor's data lies.
func externalData(t *pb.TensorProto) external {
	_, size, err := dataSize(t)
	x := external{size: Sure(size, err)}
	length := size
	for _, e := range t.ExternalData {
		v := e.GetValue()
		n, err := strconv.ParseInt(v, 10, 64)
		switch e.GetKey() {
		case "location":
			x.location = v
		case "offset":
			Require(err == nil && n >= 0, "its data lies at offset %.80q, which is no position in a file", v)
			x.offset = n
		case "length":
			Require(err == nil && n >= 0, "its data has length %.80q, which is none", v)
			length = n
		case "checksum":
			x.checksum = v
		}
	}
	Require(x.location != "", "its data lies in another file, which it doesn't name")
	// ValidPath refuses absolute paths and ".."; \ and : are separators on Windows.
	Require(fs.ValidPath(x.location) && x.location != "." && !strings.ContainsAny(x.location, `\:`),
		"its data lies in %.80q, which is not a file in the model's folder", x.location)
	Require(length == size, "shape %v needs %d bytes, its external data has %d", t.Dims, size, length)
	return x
}

// embed returns the model's bytes with the data of its external tensors, which
// is read from folder, inside; data itself where it has none. The hash gets
// what SHA256 of a [File] says of the external files. folder must not lead outside itself.
func embed(data []byte, folder fs.FS, sum hash.Hash) ([]byte, error) {
	m, err := parse(data)
	if err != nil {
		return nil, err
	}
	e := &embedder{folder: folder, total: int64(len(data)), checksums: map[string]string{}}
	nodes := slices.Clone(m.Graph.Node)
	for _, f := range m.Functions {
		nodes = append(nodes, f.Node...)
	}
	for _, n := range nodes {
		for _, a := range n.Attribute {
			x, err := e.place(a.T, fmt.Sprintf("node %.80q: attribute %.80q", n.GetName(), a.GetName()))
			if x != nil && err == nil {
				a.T.RawData, err = e.read(x, make([]byte, 0, x.size))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	weights := make([]*external, len(m.Graph.Initializer)) // nil: inside
	for i, t := range m.Graph.Initializer {
		if weights[i], err = e.place(t, fmt.Sprintf("initializer %.80q", t.GetName())); err != nil {
			return nil, err
		}
	}
	if len(e.checksums) == 0 {
		return data, nil
	}
	if err := e.digest(sum); err != nil {
		return nil, err
	}
	size := func(i int) int64 {
		if weights[i] == nil {
			return -1
		}
		return weights[i].size
	}
	write := func(i int, out []byte) ([]byte, error) { return e.read(weights[i], out) }
	return assemble(m, m.Graph.Initializer, size, write)
}

// embedder reads external files. It holds none open: a model may have thousands.
type embedder struct {
	folder    fs.FS
	total     int64             // bytes of the model so far
	checksums map[string]string // of the files, where they are given
}

// place finds a tensor's data and lets the tensor forget it; nil where that is inside. It asks
// whether the file can be read and is as long as the tensor needs.
func (e *embedder) place(t *pb.TensorProto, what string) (x *external, err error) {
	if t.GetDataLocation() != pb.TensorProto_EXTERNAL {
		return nil, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
	}()
	defer Refused(&err)
	found := externalData(t)
	x = &found
	_, seen := e.checksums[x.location]
	Require(seen || len(e.checksums) < maxExternalFiles, "its data lies in more than %d files", maxExternalFiles)
	e.checksums[x.location] = cmp.Or(x.checksum, e.checksums[x.location])
	t.DataLocation, t.ExternalData = nil, nil
	if err := e.use(x.location, func(_ fs.File, have int64) error {
		if x.offset > have || x.size > have-x.offset {
			return fmt.Errorf("holds %d bytes, too few for %d bytes from %d on", have, x.size, x.offset)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	e.total += x.size
	Require(e.total <= MaxFileSize, "with it the model has more than 2 GiB of weights, which is not supported")
	return x, nil
}

// use opens a file for a function, which also gets its size; errors name the file once.
func (e *embedder) use(location string, do func(f fs.File, size int64) error) error {
	info, err := fs.Stat(e.folder, location) // before opening, which waits at a pipe
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("is not a file")
	case info.Size() > 2*MaxFileSize:
		err = fmt.Errorf("holds %d bytes, more than a model's weights", info.Size())
	default:
		var f fs.File
		if f, err = e.folder.Open(location); err == nil {
			err = do(f, info.Size())
			f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("external data file %.80q: %w", location, fault.Reason(err))
	}
	return nil
}

// digest reads each file from its start to its end: for the model's hash, and
// where the format's own checksum, a SHA-1, is given, to check that.
func (e *embedder) digest(sum hash.Hash) error {
	for _, location := range sortedKeys(e.checksums) {
		err := e.use(location, func(f fs.File, _ int64) error {
			own, want := sha1.New(), e.checksums[location]
			_, err := io.Copy(io.MultiWriter(sum, own), f)
			if err == nil && want != "" && !strings.EqualFold(want, hex.EncodeToString(own.Sum(nil))) {
				err = errors.New("its SHA-1 is not the checksum that the model gives")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read appends x's bytes to out, which has room for them.
func (e *embedder) read(x *external, out []byte) ([]byte, error) {
	at := len(out)
	out = out[:at+int(x.size)]
	return out, e.use(x.location, func(f fs.File, _ int64) (err error) {
		if r, ok := f.(io.ReaderAt); ok {
			_, err = io.ReadFull(io.NewSectionReader(r, x.offset, x.size), out[at:])
		} else if _, err = io.CopyN(io.Discard, f, x.offset); err == nil { // a file system that can't seek
			_, err = io.ReadFull(f, out[at:])
		}
		return err
	})
}

// ReadFS reads a model file with the weights that lie in other files of its
// folder. Names follow [fs.ValidPath]. External files are opened through fsys:
// give the FS of an [os.Root] where symbolic links must not lead out of it.
// Errors name the external file, not path.
func ReadFS(fsys fs.FS, name string) (*File, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("is a folder, not an ONNX file")
	}
	if info.Size() > MaxFileSize {
		return nil, fmt.Errorf("holds %d bytes, more than an ONNX file can (2 GiB)", info.Size())
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, err
	}
	folder, err := fs.Sub(fsys, path.Dir(name))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(data)
	whole, err := embed(data, folder, sum)
	if err != nil {
		return nil, err
	}
	apart := len(data) > 0 && &whole[0] != &data[0]
	return &File{Data: whole, SHA256: hex.EncodeToString(sum.Sum(nil)), apart: apart}, nil
}

// MaxFileSize bounds the model files that are read, and a model's weights:
// protobuf's own limit.
const MaxFileSize = 2 << 30

// File is a model as it was read.
type File struct {
	// Data is the model in one piece: the file's own bytes, or, where weights
	// lie in other files, an equal model with them inside.
	Data []byte
	// SHA256, in hexadecimal, is that of the file as given. Where weights lie in
	// other files, these follow it, each once and whole, in the order of their
	// names: what "cat model.onnx model.onnx.data | sha256sum" prints.
	SHA256 string
	// Path is the file's own, where weights lie in other files beside it and it was read by its path; "" elsewhere.
	Path  string
	apart bool // weights lie in other files
}

// Read reads a model file, with the weights that lie in other files of its
// folder: no path and no symbolic link may lead out of that. Errors name the file.
func Read(path string) (f *File, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("model %s: %w", path, fault.Reason(err))
		}
	}()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		data, err := input.Read(path, MaxFileSize) // a pipe: it has no folder
		sum := sha256.Sum256(data)
		return &File{Data: data, SHA256: hex.EncodeToString(sum[:])}, err
	}
	at := path
	if link, err := os.Lstat(path); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		// The user may name a link: its target's folder is the model's.
		if at, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(filepath.Dir(at))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := filepath.Base(at)
	if !fs.ValidPath(name) || name == "." || name == ".." {
		return nil, errors.New("is a folder, not an ONNX file")
	}
	if f, err = ReadFS(root.FS(), name); err == nil && f.apart {
		f.Path = at
	}
	return f, err
}
