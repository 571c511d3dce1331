package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for i, text := range []string{"old and longer", "new", "newer", ""} {
		must.Do(t, []func(string, []byte) error{In(dir).Write, In(dir).WriteSynced}[i%2]("a", []byte(text)))
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if s, err := os.Stat(path); err != nil || s.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", s.Mode(), err)
	}
	alone(t, dir)
}

// A write that fails, wherever, leaves what was there.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	must.Do(t, In(dir).Write("a", []byte("old")))
	own := errors.New("the caller's")
	err := In(dir).FillSynced("a", func(w io.Writer) error {
		w.Write(make([]byte, 1<<16))
		return own
	})
	if err != own {
		t.Errorf("error %v", err)
	}
	create := createTemp
	defer func() { createTemp = create }()
	createTemp = func(root *os.Root, name string) (*os.File, error) { // a file that can't be written
		f, err := create(root, name)
		if err != nil {
			return nil, err
		}
		f.Close()
		return root.Open(name)
	}
	if err := In(dir).Write("a", []byte("new")); err == nil || err.Error() != "bad file descriptor" {
		t.Errorf("error %v does not tell the reason alone", err)
	}
	createTemp = create
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("a failed write left %q", got)
	}
	alone(t, dir)
	if err := In(filepath.Join(dir, "absent")).Write("a", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "taken"), 0o755))
	if err := In(dir).Write("taken", nil); err == nil {
		t.Error("a folder was replaced")
	}
}

// Sync names the file that it can't bring to the disk.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	must.Do(t, os.WriteFile(path, []byte("a"), 0o644))
	must.Do(t, Sync(path, dir))
	must.Refuse(t, Sync(path, path+"x"), path+"x: no such file")
}

// alone checks that nothing is left beside a.
func alone(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v beside it, %v", left, err)
	}
}

// opened writes to a file that it opens.
func opened(f Folder, name string, flag int) error {
	file, err := f.Open(name, flag)
	if err != nil {
		return err
	}
	_, err = file.WriteString("new")
	return errors.Join(err, file.Close())
}

// Nothing in a folder leads a write out of it.
func TestFolder(t *testing.T) {
	outside, dir := t.TempDir(), filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(t.TempDir(), dir)) // the folder itself may be a link
	kept := filepath.Join(outside, "kept")
	must.Do(t, os.WriteFile(kept, []byte("kept"), 0o644))
	f := In(dir)
	for name, write := range map[string]func(name string) error{
		"write":  func(name string) error { return f.Write(name, []byte("new")) },
		"synced": func(name string) error { return f.WriteSynced(name, []byte("new")) },
		"open":   func(name string) error { return opened(f, name, 0) },
		"create": func(name string) error { return opened(f, name, os.O_TRUNC) },
	} {
		for _, target := range []string{kept, outside, filepath.Join(outside, "absent"), "in " + name} {
			must.Do(t, os.Symlink(target, f.Path(name)))
			must.Do(t, write(name))
			if got, err := os.ReadFile(f.Path(name)); err != nil || string(got) != "new" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if info, err := os.Lstat(f.Path(name)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: %v", name, err)
			}
			must.Do(t, os.Remove(f.Path(name)))
		}
		must.Do(t, os.Symlink(outside, f.Path("sub")))
		must.Do(t, write("sub/deeper/"+name))
		if got, err := os.ReadFile(f.Path("sub/deeper/" + name)); err != nil || string(got) != "new" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		must.Do(t, os.RemoveAll(f.Path("sub")))
		must.Do(t, os.Mkdir(f.Path("taken"), 0o755))
		must.Refuse(t, write("taken"), "is a folder, not a file")
		must.Refuse(t, write("../"+name), "path escapes from parent")
		must.Do(t, os.Remove(f.Path("taken")))
	}
	must.Do(t, f.Write("file", nil))
	must.Refuse(t, f.Make("file"), "is a file, not a folder")
	entries, err := os.ReadDir(outside)
	if got, _ := os.ReadFile(kept); err != nil || len(entries) != 1 || string(got) != "kept" {
		t.Errorf("outside are %v and %q", entries, got)
	}
}
