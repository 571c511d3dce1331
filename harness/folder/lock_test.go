package folder

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"selfheal/internal/must"
)

// On a file system that locks nothing, the text of the lock's file keeps others out while its process lives.
func TestLockByName(t *testing.T) {
	defer func() { tryLock = syscall.Flock }()
	tryLock = func(int, int) error { return syscall.ENOLCK }
	dir := t.TempDir()
	l := must.Get(LockFolder(dir, "run"))(t)
	_, err := LockFolder(dir, "run")
	must.Refuse(t, err, fmt.Sprintf("another run (process %d on ", os.Getpid()))
	l.Free()
	must.Get(LockFolder(dir, "run"))(t).Free()
	host := must.Get(os.Hostname())(t)
	for owner, want := range map[string]string{
		"process 999999999 on " + host + ", since 2026": "", "process 1 on elsewhere, since 2026": "on elsewhere",
		"somebody": "somebody", "": "",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, ".selfheal.lock"), []byte(owner), 0o644))
		if l, err := LockFolder(dir, "run"); want != "" {
			must.Refuse(t, err, want)
		} else if err != nil || l.Before != owner {
			t.Errorf("%q: %v", owner, err)
		} else {
			l.Free()
		}
	}
}
