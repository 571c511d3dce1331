// Package temporary makes files that are gone once they are closed.
package temporary

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

// File is a file that no folder lists. Its space is free again once it is closed or the program ends.
type File struct {
	*os.File
	left string // its path, if the system does not remove open files; else ""
}

func (t *File) Close() error {
	err := t.File.Close()
	if t.left != "" {
		os.Remove(t.left)
	}
	return err
}

// Folders lists folders for temporary files, best first: the user's choice, the user's cache and /var/tmp,
// which are on a disk, and last /tmp, which may be in memory.
func Folders() (folders []string) {
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

// Write makes a file with the output of fill in the first folder that works; it passes over folders that are
// read-only or full. fill begins anew in each.
func Write(folders []string, fill func(io.Writer) error) (*File, error) {
	var reasons []string
	for _, dir := range folders {
		f, err := os.CreateTemp(dir, "selfheal-images-*")
		if err == nil {
			t := &File{File: f}
			if os.Remove(f.Name()) != nil {
				t.left = f.Name()
			}
			w := bufio.NewWriterSize(f, 1<<20)
			filled := fill(w)
			if err = w.Flush(); err == nil && filled == nil {
				return t, nil
			}
			t.Close()
			if err == nil {
				return nil, filled
			}
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", dir, fault.Reason(err)))
	}
	return nil, fmt.Errorf("no folder has room for a temporary file (%s); set TMPDIR to one that has",
		strings.Join(reasons, "; "))
}
