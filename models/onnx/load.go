package onnx

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

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
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("model %s: %w", path, err)
}
