package onnx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// MaxFileSize bounds the model files that are read: protobuf's own limit.
const MaxFileSize = 2 << 30

// Load reads a model file, simplifies it and prepends mean and std. It also
// returns the file's bytes, for hashing. Errors name the file.
func Load(path string, mean, std []float32) (*Graph, []byte, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	g, err := Open(data, mean, std)
	if err != nil {
		return nil, nil, modelError(path, err)
	}
	return g, data, nil
}

// Open is Load for a model in memory.
func Open(data []byte, mean, std []float32) (*Graph, error) {
	g, err := Decode(data)
	if err != nil {
		return nil, err
	}
	if err := g.Simplify(); err != nil {
		return nil, err
	}
	return g, g.Preprocess(mean, std)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, modelError(path, err)
	}
	if info.IsDir() {
		return nil, modelError(path, errors.New("is a folder, not an ONNX file"))
	}
	if info.Size() > MaxFileSize {
		return nil, modelError(path, fmt.Errorf("holds %d bytes, more than an ONNX file can (2 GiB)", info.Size()))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, modelError(path, err)
	}
	return data, nil
}

// modelError names the file once and drops the system's repetition of it.
func modelError(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("model %s: %w", path, err)
}
