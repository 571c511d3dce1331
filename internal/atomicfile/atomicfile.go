// Package atomicfile replaces files atomically: a reader finds the old or the new content, never a part, however the
// program ends. [Folder] is for the program's own folders; it follows no link out of them. [Output], made by a [Rule],
// is for folders and files that a user has named; it knows what the program may replace there.
package atomicfile

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"selfheal/internal/fault"
	"selfheal/internal/filelock"
	"selfheal/internal/input"
)

// writing returns a function that writes data, as often as it is called.
func writing(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// From returns a function that writes the content of a file.
func From(path string) func(io.Writer) error {
	return func(w io.Writer) error {
		f, err := input.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	}
}

// Sync writes files and folders through to the disk. Errors name the path that failed.
func Sync(paths ...string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err == nil {
			err = f.Sync()
			if errors.Is(err, syscall.EINVAL) { // some file systems sync folders by themselves
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

// into writes to the file at path. It does not wait for a reader of a pipe.
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

// Folder is one of the program's own folders, which others may have prepared. The folder itself may be a link, but
// nothing is written outside it: a link, pipe or the like in the place of a file or folder is replaced, never followed.
// Names use slashes. Missing folders on the way are made, but the folder itself only by Make: if somebody has removed
// it, it is not made again.
type Folder string

// In returns the folder at a path.
func In(dir string) Folder { return Folder(dir) }

// At returns the folder that a path lies in, and its name in there.
func At(path string) (Folder, string) { return Folder(filepath.Dir(path)), filepath.Base(path) }

// Path joins the folder and a name.
func (f Folder) Path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

// Write replaces a file by data, with permissions 0644. It writes to a new file beside it and renames that. On an error
// the old file stays and nothing is left beside it. The error gives only the reason ("no space left on device"): the
// caller names the file.
func (f Folder) Write(name string, data []byte) error { return f.replace(name, writing(data), false) }

// WriteSynced is [Folder.Write] for files that must survive a power cut: when it returns, the new content is on the
// disk; before that the old one is. It waits for the disk.
func (f Folder) WriteSynced(name string, data []byte) error { return f.FillSynced(name, writing(data)) }

// FillSynced is [Folder.WriteSynced] for the output of fill.
func (f Folder) FillSynced(name string, fill func(io.Writer) error) error {
	return f.replace(name, fill, true)
}

func (f Folder) replace(name string, fill func(io.Writer) error, synced bool) error {
	return f.within(path.Dir(name), func(root *os.Root) error {
		return replace(root, path.Base(name), fill, synced, func(*os.File) error { return nil })
	})
}

// Open opens a file for reading and writing and creates it if missing. flag may add os.O_TRUNC.
func (f Folder) Open(name string, flag int) (file *os.File, err error) {
	err = f.within(path.Dir(name), func(root *os.Root) error {
		if err := clear(root, path.Base(name), fs.FileMode.IsRegular); err != nil {
			return err
		}
		file, err = root.OpenFile(path.Base(name), os.O_RDWR|os.O_CREATE|flag, 0o644)
		return err
	})
	return file, err
}

// Make creates the folder itself and, unless name is ".", a folder in it.
func (f Folder) Make(name string) error {
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return fault.Reason(err)
	}
	return f.within(name, func(*os.Root) error { return nil })
}

func (f Folder) within(name string, do func(root *os.Root) error) error {
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return fault.Reason(err)
	}
	defer func() { root.Close() }()
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if part == "." {
			break
		}
		if err := clear(root, part, fs.FileMode.IsDir); err != nil {
			return err
		}
		if err := root.Mkdir(part, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fault.Reason(err)
		}
		inner, err := root.OpenRoot(part)
		if err != nil {
			return fault.Reason(err)
		}
		root.Close()
		root = inner
	}
	return fault.Reason(do(root))
}

// clear removes a link, pipe or device from the place of a file or folder. A file in the place of a folder, or the
// reverse, is an error.
func clear(root *os.Root, name string, is func(fs.FileMode) bool) error {
	info, err := root.Lstat(name)
	if err != nil || is(info.Mode()) {
		return nil // opening it reports other faults
	}
	switch {
	case info.IsDir():
		return errors.New("is a folder, not a file")
	case info.Mode().IsRegular():
		return errors.New("is a file, not a folder")
	}
	return fault.Reason(root.Remove(name))
}

// createTemp creates a new file; tests replace it to make writing fail.
var createTemp = func(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, unfinished)
}

// replace calls ready with the whole new file before that replaces the old one.
func replace(root *os.Root, name string, fill func(io.Writer) error, synced bool,
	ready func(*os.File) error) (err error) {
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return errors.New("is a folder, not a file")
	}
	f, made, err := temporary(root, name)
	if err != nil {
		return fault.Reason(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			root.Remove(made)
			err = fault.Reason(err)
		}
	}()
	sweep(root, name)
	w := bufio.NewWriter(f)
	steps := []func() error{func() error { return fill(w) }, w.Flush, func() error { return ready(f) }}
	if synced {
		steps = append(steps, f.Sync)
	}
	steps = append(steps, func() error { return f.Chmod(0o644) }, f.Close,
		func() error { return root.Rename(made, name) })
	for _, step := range steps {
		if err = step(); err != nil {
			return err
		}
	}
	if synced {
		err = Sync(root.Name())
	}
	return err
}

// unfinished is the permissions of a file that is still being written. Its writer holds a lock on it.
const unfinished = 0o600

// temporary creates a new, locked file for the next content of another file.
func temporary(root *os.Root, name string) (f *os.File, made string, err error) {
	for {
		made = fmt.Sprintf(".%s-%d", name, rand.Uint32())
		if f, err = createTemp(root, made); err != nil {
			return nil, "", err
		}
		if filelock.Lock(f) != filelock.ErrTaken { // some file systems have no locks
			return f, made, nil
		}
		f.Close() // another writer took it for a dead writer's and removes it
	}
}

// sweep removes files that writers killed earlier left: their locks are free. It removes nothing if locks are not
// supported, and on an error leaves the work to the next writer.
func sweep(root *os.Root, name string) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, left := range names {
		if info, err := root.Lstat(left); IsTemporary(left, name) && err == nil && isUnfinished(info) {
			sweepOne(root, left)
		}
	}
}

func isUnfinished(info fs.FileInfo) bool { return info.Mode() == unfinished }

func sweepOne(root *os.Root, left string) {
	f, err := root.Open(left)
	if err != nil {
		return
	}
	defer f.Close()
	if filelock.Lock(f) != nil {
		return
	}
	if info, err := f.Stat(); err == nil && isUnfinished(info) { // its writer may have finished meanwhile
		_ = root.Remove(left)
	}
}

// IsTemporary reports whether a file is a temporary one, by its name, for the file of, or for any file if of is "".
func IsTemporary(file, of string) bool {
	dash := strings.LastIndexByte(file, '-')
	if dash < 1 || file[0] != '.' || of != "" && file[1:dash] != of {
		return false
	}
	_, err := strconv.ParseUint(file[dash+1:], 10, 32)
	return err == nil
}
