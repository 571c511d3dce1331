package dataset

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"selfheal/internal/fault"
)

// temporary is a file that no folder lists and whose space is free again once it is closed, however the program ends.
type temporary struct {
	*os.File
	left string // its path, where the system does not remove files that are open; else ""
}

func (t *temporary) Close() error {
	err := t.File.Close()
	if t.left != "" {
		os.Remove(t.left)
	}
	return err
}

// temporaryFolders is where temporary files may lie, best first: where the user says, in the
// user's cache and in /var/tmp, which are on a disk, and last in /tmp, which may be memory.
func temporaryFolders() (folders []string) {
	if dir := os.Getenv("TMPDIR"); dir != "" {
		folders = append(folders, dir)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		if cache = filepath.Join(cache, "selfheal"); os.MkdirAll(cache, 0o755) == nil {
			folders = append(folders, cache)
		}
	}
	if runtime.GOOS != "windows" {
		folders = append(folders, "/var/tmp")
	}
	if dir := os.TempDir(); !slices.Contains(folders, dir) {
		folders = append(folders, dir)
	}
	return folders
}

// temporary makes a file of what fill writes, which stays open.
func (c *closers) temporary(fill func(io.Writer) error) (io.ReaderAt, error) {
	t, err := writeTemporary(temporaryFolders(), fill)
	if err != nil {
		return nil, err
	}
	c.add(t)
	return t, nil
}

// writeTemporary makes a file of what fill writes, in the first of the folders that takes
// it: one that is read-only or full is passed over. fill begins anew in each.
func writeTemporary(folders []string, fill func(io.Writer) error) (*temporary, error) {
	var reasons []string
	for _, dir := range folders {
		t, write, err := tryTemporary(dir, fill)
		if write == nil {
			return t, err
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", dir, fault.Reason(write)))
	}
	return nil, fmt.Errorf("no folder has room for a temporary file (%s); set TMPDIR to one that has",
		strings.Join(reasons, "; "))
}

// tryTemporary tells errors of the folder, in write, from fill's own.
func tryTemporary(dir string, fill func(io.Writer) error) (t *temporary, write, err error) {
	f, write := os.CreateTemp(dir, "selfheal-images-*")
	if write != nil {
		return nil, write, nil
	}
	t = &temporary{File: f}
	if os.Remove(f.Name()) != nil {
		t.left = f.Name()
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = fill(w)
	if write = w.Flush(); write != nil || err != nil {
		t.Close()
		return nil, write, err
	}
	return t, nil, nil
}
