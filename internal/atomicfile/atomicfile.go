// Package atomicfile replaces files at once: a reader finds the old or the new
// content, never a part, whatever ends the program.
package atomicfile

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"

	"selfheal/internal/fault"
)

// createTemp is os.CreateTemp, replaced in tests to make writing fail.
var createTemp = os.CreateTemp

// Write replaces path by data, with permissions 0644; see [Fill].
func Write(path string, data []byte) error {
	return Fill(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Fill replaces path by what fill writes, with permissions 0644. It writes to a new file
// beside path and renames that. An error leaves path as it was and nothing beside it. The
// error gives the reason alone ("no space left on device"): the caller names the file.
// A link keeps pointing to its file. A device or a pipe can't be replaced and is written to.
func Fill(path string, fill func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return errors.New("is a folder, not a file")
	case err == nil && !info.Mode().IsRegular():
		return into(path, fill)
	}
	f, err := createTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fault.Reason(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fault.Reason(err)
		}
	}()
	w := bufio.NewWriter(f)
	if err = fill(w); err != nil {
		return err
	}
	if err = w.Flush(); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// into writes to what lies at path.
func into(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fault.Reason(err)
	}
	w := bufio.NewWriter(f)
	err = fill(w)
	return fault.Reason(cmp.Or(err, w.Flush(), f.Close()))
}
