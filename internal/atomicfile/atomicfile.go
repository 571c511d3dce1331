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

// Write replaces path by data, with permissions 0644; see [Fill].
func Write(path string, data []byte) error { return Fill(path, writing(data)) }

// Fill replaces path by what fill writes, with permissions 0644. It writes to a new file
// beside path and renames that. An error leaves path as it was and nothing beside it. The
// error gives the reason alone ("no space left on device"): the caller names the file.
// A link keeps pointing to its file. A device or a pipe can't be replaced and is written to: path is one that a user
// has named. What lies in a folder that may be somebody else's is replaced by [Folder].
func Fill(path string, fill func(io.Writer) error) error { return named(path, fill, false) }

// FillSynced is [Fill] for what a power cut must not take either: when it returns, the new
// content is on the disk, and before that the old one. It takes the disk's time.
func FillSynced(path string, fill func(io.Writer) error) error { return named(path, fill, true) }

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

// named replaces what a user has named.
func named(path string, fill func(io.Writer) error, synced bool) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return into(path, fill)
	}
	dir, name := At(path)
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return fault.Reason(err)
	}
	defer root.Close()
	return replace(root, name, fill, synced)
}

// into writes to what lies at path. It waits for nobody to read from a pipe.
func into(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return errors.New("is a pipe from which nothing reads")
	}
	if err != nil {
		return fault.Reason(err)
	}
	w := bufio.NewWriter(f)
	err = fill(w)
	return fault.Reason(cmp.Or(err, w.Flush(), f.Close()))
}
