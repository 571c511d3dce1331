//go:build unix

package atomicfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"selfheal/internal/filelock"
	"selfheal/internal/must"
)

// A pipe that a user has named is written to where somebody reads from it, and not waited for elsewhere.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	to := Rule{}.At(path, "answer")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	must.Refuse(t, to.Write([]byte("lost")), "is a pipe from which nothing reads")
	reader := must.Get(os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
	defer reader.Close()
	must.Do(t, to.Write([]byte("read")))
	got := make([]byte, 4)
	if must.Get(io.ReadFull(reader, got))(t); string(got) != "read" {
		t.Errorf("%q", got)
	}
	// Through a link of the system's, such as /dev/stdout, too.
	device := filepath.Join(dir, "device")
	must.Do(t, os.Symlink(os.DevNull, device))
	to = Rule{}.At(device, "answer")
	must.Do(t, to.Write([]byte("gone")))
	if info, err := os.Lstat(device); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must.Refuse(t, Rule{}.In(dir, "answer").Write("device", nil), "is a link")
}

// A writer removes the temporary files that killed writers left; files that are still written, and others, stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, mode fs.FileMode) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), mode))
	}
	put(".a-1", unfinished)
	put(".a-4294967295", unfinished)
	kept := []string{".a-2024", ".a-b-3", ".a-4294967296", ".a-", ".b-1", ".a-5"}
	for _, name := range kept[1:5] {
		put(name, unfinished)
	}
	put(kept[0], 0o644) // whoever made it
	living := must.Get(os.OpenFile(filepath.Join(dir, kept[5]), os.O_RDWR|os.O_CREATE, unfinished))(t)
	defer living.Close()
	must.Do(t, filelock.Lock(living))
	inner := func(w io.Writer) error { return In(dir).Write("a", nil) } // two writers at once
	must.Do(t, In(dir).FillSynced("a", inner))
	var left []string
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		left = append(left, e.Name())
	}
	want := slices.Sorted(slices.Values(append(kept, "a")))
	if slices.Sort(left); !slices.Equal(left, want) {
		t.Errorf("%q are left, want %q", left, want)
	}
	must.Do(t, living.Close())
	must.Do(t, In(dir).Write("a", nil))
	if _, err := os.Lstat(filepath.Join(dir, kept[5])); err == nil {
		t.Error("what a writer left stays when it is gone")
	}
}
