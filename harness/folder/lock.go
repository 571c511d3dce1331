package folder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
)

// lockFile keeps a second run out of a folder. It stays there: whoever removed it could remove another run's. The
// system frees the lock of a process that ends, however it ends. The file holds who has the lock, and nothing where
// nobody has it. Some network file systems lock nothing: there the file's text is the lock.
const lockFile = ".selfheal.lock"

// Lock is held on a folder.
type Lock struct {
	*flock.Flock
	file   *os.File
	Before string // who had it and did not give it back
}

// LockFolder locks a folder, which it makes where it is absent, for what writes to it: a run or a fit.
func LockFolder(dir, what string) (l *Lock, err error) {
	path := filepath.Join(dir, lockFile)
	wrong := func(err error) (*Lock, error) { return nil, fmt.Errorf("output folder %s: %w", dir, fault.Reason(err)) }
	in := atomicfile.In(dir)
	if err := in.Make("."); err != nil {
		return wrong(err)
	}
	file, err := in.Open(lockFile, 0) // a folder that can't be written is found now
	if err != nil {
		return wrong(err)
	}
	defer func() {
		if l == nil {
			_ = file.Close()
		}
	}()
	own := &Lock{Flock: flock.New(path), file: file}
	free, err := tryLock(own.Flock)
	byName := errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
	if err != nil && !byName {
		return wrong(err)
	}
	if free && !own.isAt(path) { // a fit that has ended has removed its folder
		_, _ = own.Close(), file.Close()
		return LockFolder(dir, what)
	}
	owner, _ := io.ReadAll(io.LimitReader(file, mostOwner))
	own.Before = strings.TrimSpace(string(owner))
	if byName {
		free = !alive(own.Before)
	}
	if !free {
		by := ""
		if own.Before != "" {
			by = " (" + own.Before + ")"
		}
		return nil, fmt.Errorf("%s: another %s%s is writing to this folder; wait for it or choose another --out",
			dir, what, by)
	}
	host, _ := os.Hostname()
	now := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(now), 0)
	}
	if err != nil {
		_ = own.Close()
		return wrong(err)
	}
	return own, nil
}

// mostOwner is how much of a lock file is read.
const mostOwner = 1000

// tryLock is replaced in a test of file systems that lock nothing.
var tryLock = (*flock.Flock).TryLock

// alive reports whether an owner of a lock may still work: a process of this machine that is there, or any of
// another one.
func alive(owner string) bool {
	var pid int
	var host string
	if _, err := fmt.Sscanf(owner, "process %d on %s", &pid, &host); err != nil {
		return owner != ""
	}
	if here, err := os.Hostname(); err != nil || strings.TrimSuffix(host, ",") != here {
		return true
	}
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// isAt reports whether the file that is locked is the one at a path.
func (l *Lock) isAt(path string) bool {
	locked, err := l.Stat()
	held, herr := l.file.Stat()
	there, terr := os.Lstat(path)
	return err == nil && herr == nil && terr == nil && os.SameFile(locked, there) && os.SameFile(held, there)
}

// Free gives the lock back. An error would come too late to matter.
func (l *Lock) Free() {
	if l.isAt(l.Path()) {
		_ = l.file.Truncate(0)
	}
	_ = l.file.Close()
	_ = l.Close()
}
