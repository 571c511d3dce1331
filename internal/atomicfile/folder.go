package atomicfile

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"selfheal/internal/fault"
)

// Folder is a folder that others may have prepared. The folder itself may be a link, but nothing that is written in it
// leaves it: what lies in a file's or a folder's place and is none, such as a link or a pipe, is replaced, never
// followed. Names use slashes; folders on the way are made, but it itself by Make alone: one that somebody has removed
// is not made again.
type Folder string

// In is the folder of a path.
func In(dir string) Folder { return Folder(dir) }

// At is a path's folder, and its name in there.
func At(path string) (Folder, string) { return Folder(filepath.Dir(path)), filepath.Base(path) }

// Path is that of a name.
func (f Folder) Path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

// Write replaces a file by data, with permissions 0644; see [Fill].
func (f Folder) Write(name string, data []byte) error { return f.replace(name, writing(data), false) }

// WriteSynced is [Folder.Write] as [FillSynced] is [Fill].
func (f Folder) WriteSynced(name string, data []byte) error {
	return f.replace(name, writing(data), true)
}

// Fill replaces a file by what fill writes; see [Fill].
func (f Folder) Fill(name string, fill func(io.Writer) error) error {
	return f.replace(name, fill, false)
}

// FillSynced is [Folder.Fill] as [FillSynced] is [Fill].
func (f Folder) FillSynced(name string, fill func(io.Writer) error) error {
	return f.replace(name, fill, true)
}

func (f Folder) replace(name string, fill func(io.Writer) error, synced bool) error {
	return f.within(path.Dir(name), func(root *os.Root) error { return replace(root, path.Base(name), fill, synced) })
}

// Open opens a file to read and write, which it makes where there is none.
func (f Folder) Open(name string) (file *os.File, err error) {
	err = f.within(path.Dir(name), func(root *os.Root) error {
		if err := clear(root, path.Base(name), fs.FileMode.IsRegular); err != nil {
			return err
		}
		file, err = root.OpenFile(path.Base(name), os.O_RDWR|os.O_CREATE, 0o644)
		return err
	})
	return file, err
}

// Create makes a file anew and opens it to write.
func (f Folder) Create(name string) (*os.File, error) {
	file, err := f.Open(name)
	if err == nil {
		if err = file.Truncate(0); err != nil {
			file.Close()
		}
	}
	return file, err
}

// Make makes a folder in it, "." for none, and itself.
func (f Folder) Make(name string) error {
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return fault.Reason(err)
	}
	return f.within(name, func(*os.Root) error { return nil })
}

// within does something in a folder of it.
func (f Folder) within(name string, do func(root *os.Root) error) error {
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return fault.Reason(err)
	}
	defer func() { root.Close() }()
	for name = path.Clean(name); name != "."; {
		first, rest, more := cut(name)
		if err := clear(root, first, fs.FileMode.IsDir); err != nil {
			return err
		}
		if err := root.Mkdir(first, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fault.Reason(err)
		}
		inner, err := root.OpenRoot(first)
		if err != nil {
			return fault.Reason(err)
		}
		root.Close()
		if root, name = inner, rest; !more {
			break
		}
	}
	return fault.Reason(do(root))
}

// cut takes a path's first name off.
func cut(name string) (first, rest string, more bool) {
	for i := range len(name) {
		if name[i] == '/' {
			return name[:i], name[i+1:], true
		}
	}
	return name, "", false
}

// clear removes what is in the place of a file or a folder and is none. A folder in a file's place and a file in a
// folder's stay.
func clear(root *os.Root, name string, is func(fs.FileMode) bool) error {
	info, err := root.Lstat(name)
	if err != nil || is(info.Mode()) {
		return nil // what is wrong is found when it is opened
	}
	switch {
	case info.IsDir():
		return errors.New("is a folder, not a file")
	case info.Mode().IsRegular():
		return errors.New("is a file, not a folder")
	}
	return fault.Reason(root.Remove(name))
}

// createTemp makes a new file; replaced in tests to make writing fail.
var createTemp = func(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// replace writes to a new file in the folder and renames that.
func replace(root *os.Root, name string, fill func(io.Writer) error, synced bool) (err error) {
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return errors.New("is a folder, not a file")
	}
	var f *os.File
	var made string
	for range 100 {
		made = "." + name + "-" + strconv.FormatUint(uint64(rand.Uint32()), 10)
		if f, err = createTemp(root, made); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
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
	if err = root.Rename(made, name); err == nil && synced {
		err = Sync(root.Name())
	}
	return err
}
