//go:build unix

package input_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"selfheal/internal/input"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, os.WriteFile(at("file"), []byte("12345"), 0o600))
	must.Do(t, os.WriteFile(at("sparse"), nil, 0o600))
	must.Do(t, os.Truncate(at("sparse"), 1<<40))
	must.Do(t, syscall.Mkfifo(at("pipe"), 0o600))
	must.Do(t, os.Symlink("/dev/zero", at("zero")))
	must.Do(t, os.Symlink("loop", at("loop")))
	for name, want := range map[string]string{"sparse": "is larger than 5 B", "zero": "is a device, not a file",
		"pipe": "is a pipe to which nothing writes", "absent": "no such file", "loop": "too many levels",
		".": "is a directory"} {
		_, err := input.Read(at(name), 5)
		must.Refuse(t, err, want)
	}
	if data, err := input.Read(at("file"), 5); err != nil || string(data) != "12345" {
		t.Errorf("%q, %v", data, err)
	}
	_, err := input.Read(at("file"), 4)
	must.Refuse(t, err, "is larger than 4 B")
	must.Do(t, os.WriteFile(at("pointer"), []byte(testinput.Pointer), 0o600))
	_, err = input.Read(at("pointer"), 1000)
	must.Refuse(t, err, at("pointer")+": is a Git LFS pointer", "git lfs pull")

	// A pipe is read to its end, however late its text comes.
	w := must.Get(os.OpenFile(at("pipe"), os.O_RDWR, 0))(t)
	must.Get(w.WriteString("123"))(t)
	time.AfterFunc(20*time.Millisecond, func() {
		_, _ = w.WriteString("45")
		_ = w.Close()
	})
	if data, err := input.Read(at("pipe"), 5); err != nil || string(data) != "12345" {
		t.Errorf("from a pipe %q, %v", data, err)
	}
}
