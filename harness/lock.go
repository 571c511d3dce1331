package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"selfheal/internal/fault"
)

// lockFile keeps a second run out of a folder. It stays there: whoever removed it could
// remove another run's. The system frees the lock of a process that ends, however it ends.
// The file holds who has the lock, and nothing where nobody has. Some network file systems lock nothing: there what the
// file holds is the lock.
const lockFile = ".selfheal.lock"

// lock is held on a folder.
type lock struct {
	*flock.Flock
	before string // who had it and did not give it back
}

// lockFolder locks a folder, which it makes where it is absent, for what writes to it: a run or a fit.
func lockFolder(dir, what string) (*lock, error) {
	path := filepath.Join(dir, lockFile)
	wrong := func(err error) (*lock, error) { return nil, fmt.Errorf("output folder %s: %w", dir, fault.Reason(err)) }
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return wrong(err)
	}
	l := &lock{Flock: flock.New(path)} // a folder that can't be written is found now
	free, err := tryLock(l.Flock)
	byName := errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
	if err != nil && !byName {
		return wrong(err)
	}
	if free && !l.isAt(path) { // a fit that has ended has removed its folder
		_ = l.Close()
		return lockFolder(dir, what)
	}
	owner, _ := os.ReadFile(path)
	l.before = strings.TrimSpace(string(owner))
	if byName {
		free = !alive(l.before)
	}
	if !free {
		by := ""
		if l.before != "" {
			by = " (" + l.before + ")"
		}
		return nil, fmt.Errorf("%s: another %s%s is writing to this folder; wait for it or choose another --out",
			dir, what, by)
	}
	host, _ := os.Hostname()
	now := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
		_ = l.Close()
		return wrong(err)
	}
	return l, nil
}

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
func (l *lock) isAt(path string) bool {
	locked, err := l.Stat()
	there, terr := os.Stat(path)
	return err == nil && terr == nil && os.SameFile(locked, there)
}

// free gives the lock back. An error would come too late to matter.
func (l *lock) free() {
	if l.isAt(l.Path()) {
		_ = os.Truncate(l.Path(), 0)
	}
	_ = l.Close()
}
