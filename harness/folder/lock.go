package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/filelock"
)

// lockFile keeps a second run out of a folder. It stays after a run; only its holder may remove it. The system frees
// the lock when the process ends, in whatever way. The file's text names the holder and is empty if there is none. On
// network file systems without locks, this text is the lock.
const lockFile = ".selfheal.lock"

// Lock is held on a folder.
type Lock struct {
	Path   string // of the lock's file
	Before string // an earlier holder that did not free it
	file   *os.File
	made   []string // what locking created: the lock's file and the folder
}

// LockFolder locks a folder, and makes it if it is absent, for a run or a fit that writes to it.
func LockFolder(dir, what string) (l *Lock, err error) {
	path := filepath.Join(dir, lockFile)
	wrong := func(err error) (*Lock, error) { return nil, fmt.Errorf("output folder %s: %w", dir, fault.Reason(err)) }
	in := atomicfile.In(dir)
	var made []string
	for _, path := range []string{path, dir} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			made = append(made, path)
		}
	}
	if err := in.Make("."); err != nil {
		return wrong(err)
	}
	file, err := in.Open(lockFile, 0) // fails for a folder that can't be written
	if err != nil {
		return wrong(err)
	}
	defer func() {
		if l == nil {
			_ = file.Close()
		}
	}()
	own := &Lock{Path: path, file: file}
	err = tryLock(file)
	free, byName := err == nil, errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
	if !free && !byName && !errors.Is(err, filelock.ErrTaken) {
		return wrong(err)
	}
	if free && !own.isThere() { // a fit that has just ended may have removed its folder
		_ = file.Close()
		return LockFolder(dir, what)
	}
	owner, _ := io.ReadAll(io.LimitReader(file, mostOwner))
	own.Before = strings.TrimSpace(string(owner))
	if byName {
		free = !alive(own.Before)
	} else {
		own.made = made
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
		return wrong(err)
	}
	return own, nil
}

const mostOwner = 1000 // bounds the bytes of a lock file that are read

// tryLock is replaced in a test of file systems without locks.
var tryLock = filelock.Lock

// alive reports whether a lock's owner may still work: an existing process, or any on another machine.
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

// isThere reports whether the locked file is still the one at its path.
func (l *Lock) isThere() bool {
	held, err := l.file.Stat()
	there, terr := os.Lstat(l.Path)
	return err == nil && terr == nil && os.SameFile(held, there)
}

// Undo frees a lock under which nothing was done, and removes what locking created. A process that waits for the lock
// makes it anew.
func (l *Lock) Undo() {
	if l.isThere() {
		for _, path := range l.made {
			_ = os.Remove(path) // fails, as it should, if the folder has other files by now
		}
	}
	l.Free()
}

// Free frees the lock. It ignores errors, which come too late to matter.
func (l *Lock) Free() {
	if l.isThere() {
		_ = l.file.Truncate(0)
	}
	_ = l.file.Close()
}
