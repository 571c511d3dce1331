//go:build unix

package atomicfile

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"selfheal/internal/must"
)

// A pipe that a user has named is written to where somebody reads from it, and not waited for elsewhere.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	must.Refuse(t, Write(path, []byte("lost")), "is a pipe from which nothing reads")
	reader := must.Get(os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
	defer reader.Close()
	must.Do(t, Write(path, []byte("read")))
	got := make([]byte, 4)
	if must.Get(io.ReadFull(reader, got))(t); string(got) != "read" {
		t.Errorf("%q", got)
	}
}
