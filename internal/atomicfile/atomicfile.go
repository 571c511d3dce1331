// Package atomicfile replaces files at once: a reader finds the old or the new
// content, never a part, whatever ends the program.
package atomicfile

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"selfheal/internal/fault"
)

// createTemp is os.CreateTemp, replaced in tests to make writing fail.
var createTemp = os.CreateTemp

// Write replaces path by data, with permissions 0644; see [Fill].
func Write(path string, data []byte) error { return Fill(path, writing(data)) }

// Fill replaces path by what fill writes, with permissions 0644. It writes to a new file
// beside path and renames that. An error leaves path as it was and nothing beside it. The
// error gives the reason alone ("no space left on device"): the caller names the file.
// A link keeps pointing to its file. A device or a pipe can't be replaced and is written to.
func Fill(path string, fill func(io.Writer) error) error { return replace(path, fill, false) }

// FillSynced is [Fill] for what a power cut must not take either: when it returns, the new
// content is on the disk, and before that the old one. It takes the disk's time.
func FillSynced(path string, fill func(io.Writer) error) error { return replace(path, fill, true) }

// WriteSynced is [Write] as [FillSynced] is [Fill].
func WriteSynced(path string, data []byte) error { return FillSynced(path, writing(data)) }

func writing(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// Sync brings files and folders that were written to the disk. Errors name what could not be.
func Sync(paths ...string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err == nil {
			err = f.Sync()
			if errors.Is(err, syscall.EINVAL) { // a file system that does so for folders by itself
				err = nil
			}
			err = cmp.Or(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, fault.Reason(err))
		}
	}
	return nil
}

func replace(path string, fill func(io.Writer) error, synced bool) (err error) {
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
	if synced {
		if err = f.Sync(); err != nil {
			return err
		}
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err == nil && synced {
		err = Sync(filepath.Dir(path))
	}
	return err
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
