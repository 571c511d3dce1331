package onnx

import (
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
	"strconv"
	"strings"

	"selfheal/internal/fault"
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

// externalLocation returns the name of the file that holds a tensor's data, or "".
func externalLocation(t *pb.TensorProto) string {
	for _, e := range t.ExternalData {
		if e.GetKey() == "location" {
			return e.GetValue()
		}
	}
	return ""
}

// externalData reads where an external tensor's data lies.
func externalData(t *pb.TensorProto) (external, error) {
	_, size, err := dataSize(t)
	if err != nil {
		return external{}, err
	}
	x, length := external{size: size}, size
	for _, e := range t.ExternalData {
		v := e.GetValue()
		switch e.GetKey() {
		case "location":
			x.location = v
		case "offset":
			x.offset, err = strconv.ParseInt(v, 10, 64)
			if err != nil || x.offset < 0 {
				return x, fmt.Errorf("its data lies at offset %s, which is no position in a file", clip(v))
			}
		case "length":
			length, err = strconv.ParseInt(v, 10, 64)
			if err != nil || length < 0 {
				return x, fmt.Errorf("its data has length %s, which is none", clip(v))
			}
		case "checksum":
			x.checksum = v
		}
	}
	switch {
	case x.location == "":
		return x, errors.New("its data lies in another file, which it doesn't name")
	case !fs.ValidPath(x.location) || x.location == "." || strings.ContainsAny(x.location, `\:`):
		// ValidPath refuses absolute paths and ".."; \ and : are separators on Windows.
		return x, fmt.Errorf("its data lies in %s, which is not a file in the model's folder", clip(x.location))
	case length != size:
		return x, fmt.Errorf("shape %v needs %d bytes, its external data has %d", t.Dims, size, length)
	}
	return x, nil
}

// tensors calls visit for the model's initializers and for the tensors in nodes' attributes.
func tensors(m *pb.ModelProto, visit func(what string, t *pb.TensorProto) error) error {
	for _, t := range m.Graph.Initializer {
		if err := visit(fmt.Sprintf("initializer %s", clip(t.GetName())), t); err != nil {
			return err
		}
	}
	attributes := func(nodes []*pb.NodeProto) error {
		for _, n := range nodes {
			for _, a := range n.Attribute {
				if a.T == nil {
					continue
				}
				if err := visit(fmt.Sprintf("node %s: attribute %s", clip(n.GetName()), clip(a.GetName())),
					a.T); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, f := range m.Functions {
		if err := attributes(f.Node); err != nil {
			return err
		}
	}
	return attributes(m.Graph.Node)
}

func isExternal(t *pb.TensorProto) bool { return t.GetDataLocation() == pb.TensorProto_EXTERNAL }

// embed returns the model's bytes with the data of its external tensors, which
// is read from folder, inside; data itself where it has none. The hash gets
// what SHA256 of a [File] says of the external files. folder must not lead outside itself.
func embed(data []byte, folder fs.FS, sum hash.Hash) ([]byte, error) {
	m, err := parse(data)
	if err != nil {
		return nil, err
	}
	e := &embedder{folder: folder, sizes: map[string]int64{}}
	places := map[*pb.TensorProto]external{}
	total := int64(len(data))
	err = tensors(m, func(what string, t *pb.TensorProto) error {
		if !isExternal(t) {
			return nil
		}
		x, err := externalData(t)
		if err == nil {
			err = e.check(x)
		}
		if err == nil {
			if total += x.size; total > MaxFileSize {
				err = errors.New("with it the model has more than 2 GiB of weights, which is not supported")
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		places[t] = x
		t.DataLocation, t.ExternalData = nil, nil
		return nil
	})
	if err != nil || len(places) == 0 {
		return data, err
	}
	if err := e.digest(places, sum); err != nil {
		return nil, err
	}
	initializers := m.Graph.Initializer
	large := map[*pb.TensorProto]bool{} // copied once, below
	for _, t := range initializers {
		large[t] = true
	}
	for t, x := range places {
		if large[t] {
			continue
		}
		if t.RawData, err = e.read(x, make([]byte, 0, x.size)); err != nil {
			return nil, err
		}
	}
	raw := make([][]byte, len(initializers))
	for i, t := range initializers {
		raw[i], t.RawData = t.RawData, nil
	}
	size := func(i int) int64 {
		if x, ok := places[initializers[i]]; ok {
			return x.size
		}
		if raw[i] == nil {
			return -1 // typed data
		}
		return int64(len(raw[i]))
	}
	return assemble(m, initializers, size, func(i int, out []byte) ([]byte, error) {
		if x, ok := places[initializers[i]]; ok {
			return e.read(x, out)
		}
		return append(out, raw[i]...), nil
	})
}

// embedder reads external files. It holds none open: a model may have thousands.
type embedder struct {
	folder fs.FS
	sizes  map[string]int64 // of the files that check has seen, in bytes
}

// located names the file once and drops the system's repetition of it.
func located(location string, err error) error {
	return fmt.Errorf("external data file %s: %w", clip(location), fault.Reason(err))
}

// check asks whether x's file can be read and is as long as x needs.
func (e *embedder) check(x external) error {
	if _, seen := e.sizes[x.location]; !seen {
		if len(e.sizes) == maxExternalFiles {
			return fmt.Errorf("its data lies in more than %d files", maxExternalFiles)
		}
		info, err := fs.Stat(e.folder, x.location) // before opening, which waits at a pipe
		switch {
		case err != nil:
			return located(x.location, err)
		case !info.Mode().IsRegular():
			return located(x.location, errors.New("is not a file"))
		case info.Size() > 2*MaxFileSize:
			return located(x.location, fmt.Errorf("holds %d bytes, more than a model's weights", info.Size()))
		}
		f, err := e.folder.Open(x.location)
		if err != nil {
			return located(x.location, err)
		}
		f.Close()
		e.sizes[x.location] = info.Size()
	}
	if have := e.sizes[x.location]; x.offset > have || x.size > have-x.offset {
		return located(x.location,
			fmt.Errorf("holds %d bytes, too few for %d bytes from %d on", have, x.size, x.offset))
	}
	return nil
}

// digest reads each file from its start to its end: for the model's hash, and
// where the format's own checksum, a SHA-1, is given, to check that.
func (e *embedder) digest(places map[*pb.TensorProto]external, sum hash.Hash) error {
	checksums := map[string]string{}
	for _, x := range places {
		if x.checksum != "" {
			checksums[x.location] = x.checksum
		}
	}
	for _, location := range sortedKeys(e.sizes) {
		own := sha1.New()
		f, err := e.folder.Open(location)
		if err != nil {
			return located(location, err)
		}
		_, err = io.Copy(io.MultiWriter(sum, own), f)
		f.Close()
		if err != nil {
			return located(location, err)
		}
		if want := checksums[location]; want != "" && !strings.EqualFold(want, hex.EncodeToString(own.Sum(nil))) {
			return located(location, errors.New("its SHA-1 is not the checksum that the model gives"))
		}
	}
	return nil
}

// read appends x's bytes to out, which has room for them.
func (e *embedder) read(x external, out []byte) ([]byte, error) {
	at := len(out)
	out = out[:at+int(x.size)]
	f, err := e.folder.Open(x.location)
	if err != nil {
		return nil, located(x.location, err)
	}
	defer f.Close()
	if r, ok := f.(io.ReaderAt); ok {
		_, err = io.ReadFull(io.NewSectionReader(r, x.offset, x.size), out[at:])
	} else if _, err = io.CopyN(io.Discard, f, x.offset); err == nil { // a file system that can't seek
		_, err = io.ReadFull(f, out[at:])
	}
	if err != nil {
		return nil, located(x.location, err)
	}
	return out, nil
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
	return &File{Data: whole, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
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
}

// Read reads a model file, with the weights that lie in other files of its
// folder: no path and no symbolic link may lead out of that. Errors name the file.
func Read(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		data, err := os.ReadFile(path) // a pipe: it has no folder
		if err != nil {
			return nil, modelError(path, err)
		}
		sum := sha256.Sum256(data)
		return &File{data, hex.EncodeToString(sum[:])}, nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, modelError(path, err)
	}
	defer root.Close()
	name := filepath.Base(path)
	var fsys fs.FS = root.FS()
	if link, err := os.Lstat(path); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		// The user may name a link: its target's folder is the model's.
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, modelError(path, err)
		}
		there, err := os.OpenRoot(filepath.Dir(target))
		if err != nil {
			return nil, modelError(path, err)
		}
		defer there.Close()
		fsys, name = there.FS(), filepath.Base(target)
	}
	if !fs.ValidPath(name) || name == "." || name == ".." {
		return nil, modelError(path, errors.New("is a folder, not an ONNX file"))
	}
	f, err := ReadFS(fsys, name)
	if err != nil {
		return nil, modelError(path, err)
	}
	return f, nil
}

// modelError names the file once and drops the system's repetition of it.
func modelError(path string, err error) error {
	return fmt.Errorf("model %s: %w", path, fault.Reason(err))
}
