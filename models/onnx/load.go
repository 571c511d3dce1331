package onnx

import (
	"bytes"
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

	"google.golang.org/protobuf/encoding/protowire"

	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/memory"
	pb "selfheal/models/onnx/onnxpb"
)

// maxExternalFiles bounds the number of files with a model's weights: exporters write one, or one per tensor.
const maxExternalFiles = 4096

// external is the place of a tensor's data, as the file gives it.
type external struct {
	location     string
	offset, size int64 // in bytes; size follows from the tensor's shape
	checksum     string
}

func externalData(t *pb.TensorProto) *external {
	_, size := dataSize(t)
	x := &external{size: size}
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

// embed returns the model's bytes with the data of its external tensors, read from folder, or data itself if it has
// none. It adds the external files to the hash as SHA256 of a [File] describes. folder must not lead outside itself.
func embed(data []byte, folder fs.FS, sum hash.Hash) (_ []byte, err error) {
	defer Refused(&err)
	m := Sure(parse(data))
	e := &embedder{folder: folder, total: int64(len(data)), checksums: map[string]string{}}
	nodes := slices.Clone(m.Graph.Node)
	for _, f := range m.Functions {
		nodes = append(nodes, f.Node...)
	}
	for _, n := range nodes {
		for _, a := range n.Attribute {
			if a.T.GetDataLocation() == pb.TensorProto_EXTERNAL {
				place := func() *external { return e.place(a.T) }
				x := at(place, "node %.80q: attribute %.80q", n.GetName(), a.GetName())
				a.T.RawData = e.read(x, make([]byte, 0, x.size))
			}
		}
	}
	weights, sizes := make([]*external, len(m.Graph.Initializer)), make([]int64, len(m.Graph.Initializer))
	for i, t := range m.Graph.Initializer {
		sizes[i] = -1
		if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
			weights[i] = at(func() *external { return e.place(t) }, "initializer %.80q", t.GetName())
			sizes[i] = weights[i].size
		}
	}
	if len(e.checksums) == 0 {
		return data, nil
	}
	Must(memory.Room(e.total))
	e.digest(sum)
	write := func(i int, out []byte) []byte { return e.read(weights[i], out) }
	return assemble(m, m.Graph.Initializer, sizes, write), nil
}

// embedder reads external files. It holds none open: a model may have thousands.
type embedder struct {
	folder    fs.FS
	total     int64             // size of the model so far, in bytes
	checksums map[string]string // checksums of the files that have one
}

// place finds a tensor's data and removes the reference from the tensor. It checks that the file can be read and is
// long enough.
func (e *embedder) place(t *pb.TensorProto) *external {
	x := externalData(t)
	_, seen := e.checksums[x.location]
	Require(seen || len(e.checksums) < maxExternalFiles, "its data lies in more than %d files", maxExternalFiles)
	e.checksums[x.location] = cmp.Or(x.checksum, e.checksums[x.location])
	t.DataLocation, t.ExternalData = nil, nil
	e.use(x.location, func(f fs.File, have int64) error {
		if err := input.Present(f); err != nil {
			return err
		}
		if x.offset > have || x.size > have-x.offset {
			return fmt.Errorf("holds %d bytes, too few for %d bytes from %d on", have, x.size, x.offset)
		}
		return nil
	})
	e.total += x.size
	Require(e.total <= maxFileSize, "with it the model has more than 2 GiB of weights, which is not supported")
	return x
}

// use opens a file and calls do with its size; errors name the file once.
func (e *embedder) use(location string, do func(f fs.File, size int64) error) {
	info, err := fs.Stat(e.folder, location) // before opening, which would wait at a pipe
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("is not a file")
	case info.Size() > 2*maxFileSize:
		err = fmt.Errorf("holds %d bytes, more than a model's weights", info.Size())
	default:
		var f fs.File
		if f, err = e.folder.Open(location); err == nil {
			err = do(f, info.Size())
			f.Close()
		}
	}
	if err != nil {
		Refuse("external data file %.80q: %w", location, fault.Reason(err))
	}
}

// digest reads each file from start to end. It adds the file to the model's hash and checks the format's own checksum,
// a SHA-1, if there is one.
func (e *embedder) digest(sum hash.Hash) {
	for _, location := range sortedKeys(e.checksums) {
		e.use(location, func(f fs.File, _ int64) error {
			own, want := sha1.New(), e.checksums[location]
			_, err := io.Copy(io.MultiWriter(sum, own), f)
			if err == nil && want != "" && !strings.EqualFold(want, hex.EncodeToString(own.Sum(nil))) {
				err = errors.New("its SHA-1 is not the checksum that the model gives")
			}
			return err
		})
	}
}

// read appends x's bytes to out, which has enough capacity.
func (e *embedder) read(x *external, out []byte) []byte {
	at := len(out)
	out = out[:at+int(x.size)]
	e.use(x.location, func(f fs.File, _ int64) (err error) {
		if r, ok := f.(io.ReaderAt); ok {
			_, err = io.ReadFull(io.NewSectionReader(r, x.offset, x.size), out[at:])
		} else if _, err = io.CopyN(io.Discard, f, x.offset); err == nil { // the file system can't seek
			_, err = io.ReadFull(f, out[at:])
		}
		return err
	})
	return out
}

// ReadFS reads a model file together with weights in other files of its folder. Names follow [fs.ValidPath]. External
// files are opened through fsys: pass the FS of an [os.Root] if symbolic links must not lead out of it. Errors name the
// external file, not path.
func ReadFS(fsys fs.FS, name string) (_ *File, err error) {
	defer Refused(&err)
	f := Sure(fsys.Open(name))
	defer f.Close()
	info := Sure(f.Stat())
	Require(!info.IsDir(), "is a folder, not an ONNX file")
	Require(info.Size() <= maxFileSize, "holds %d bytes, more than an ONNX file can (2 GiB)", info.Size())
	head := make([]byte, min(info.Size(), 64))
	Sure(io.ReadFull(f, head))
	Must(input.Present(bytes.NewReader(head)))
	Must(begins(head))
	Must(memory.Room(info.Size()))
	data := make([]byte, info.Size())
	Sure(io.ReadFull(f, data[copy(data, head):]))
	sum := sha256.New()
	sum.Write(data)
	data = Sure(input.Unpack(data, maxFileSize, begins))
	whole := Sure(embed(data, Sure(fs.Sub(fsys, path.Dir(name))), sum))
	apart := len(data) > 0 && &whole[0] != &data[0]
	model := newFile(whole, sum.Sum(nil))
	model.apart = apart
	return model, nil
}

// maxFileSize bounds the size of a model file, and of a model's weights: protobuf's own limit.
const maxFileSize = 2 << 30

// begins returns an error unless a file with this head may be a model, or a model packed by gzip.
func begins(head []byte) error {
	if _, _, n := protowire.ConsumeTag(head); n < 0 && len(head) > 0 && !input.Packed(head) {
		return errNotProtobuf
	}
	return nil
}

// File is a model in memory.
type File struct {
	// Data is the model in one piece: the file's own bytes, unpacked if gzip has packed them, or an equal model with
	// the weights from other files embedded, and without a ZipMap behind its scores, see scores.
	Data []byte
	// SHA256 is the hash of the file as given, in hexadecimal. Files with weights are hashed after it, each once and
	// whole, in the order of their names, as "cat model.onnx model.onnx.data | sha256sum" prints.
	SHA256 string
	// Path is the file's path if weights lie in other files beside it and it was read by its path; otherwise "".
	Path string
	// Labelled is the model with all outputs, one of them a label of 0, 1, 2, …, where Data lacks some; otherwise nil.
	Labelled []byte
	apart    bool // weights lie in other files
}

func newFile(whole, sum []byte) *File {
	f := &File{SHA256: hex.EncodeToString(sum)}
	var numbered bool
	if f.Data, numbered = scores(whole); numbered && len(whole) > 0 && &f.Data[0] != &whole[0] {
		f.Labelled = whole
	}
	return f
}

// Read reads a model file together with weights in other files of its folder; no path and no symbolic link may lead out
// of that folder. Errors name the file.
func Read(path string) (f *File, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("model %s: %w", path, fault.Reason(err))
		}
	}()
	defer Refused(&err)
	info := Sure(os.Stat(path))
	if !info.Mode().IsRegular() && !info.IsDir() {
		data := Sure(input.Read(path, maxFileSize)) // a pipe has no folder
		sum := sha256.Sum256(data)
		data = Sure(input.Unpack(data, maxFileSize, begins))
		return newFile(data, sum[:]), nil
	}
	at := path
	if link, err := os.Lstat(path); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		// The user may name a link: its target's folder is the model's.
		at = Sure(filepath.EvalSymlinks(path))
	}
	root := Sure(os.OpenRoot(filepath.Dir(at)))
	defer root.Close()
	name := filepath.Base(at)
	Require(fs.ValidPath(name) && name != "." && name != "..", "is a folder, not an ONNX file")
	f = Sure(ReadFS(root.FS(), name))
	if f.apart {
		f.Path = at
	}
	return f, nil
}
