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

// lockFile keeps a second run out of a folder. It stays there after a run; its holder alone may remove it. The
// system frees the lock of a process that ends, however it ends. The file holds who has the lock, and nothing where
// nobody has it. Some network file systems lock nothing: there the file's text is the lock.
const lockFile = ".selfheal.lock"

// Lock is held on a folder.
type Lock struct {
	Path   string // of the lock's file
	Before string // who had it and did not give it back
	file   *os.File
	made   []string // what was absent before: the lock's file and the folder
}

// LockFolder locks a folder, which it makes where it is absent, for what writes to it: a run or a fit.
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
	file, err := in.Open(lockFile, 0) // a folder that can't be written is found now
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
	if free && !own.isThere() { // a fit that has ended has removed its folder
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

const mostOwner = 1000 // bytes of a lock file that are read

// tryLock is replaced in a test of file systems that lock nothing.
var tryLock = filelock.Lock

// alive reports whether an owner of a lock may still work: a process that is there, or any of another machine.
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

// isThere reports whether the file that is locked is the one at its path.
func (l *Lock) isThere() bool {
	held, err := l.file.Stat()
	there, terr := os.Lstat(l.Path)
	return err == nil && terr == nil && os.SameFile(held, there)
}

// Undo gives the lock back where nothing was done under it: what it made goes too. Whoever waits for it makes it anew.
func (l *Lock) Undo() {
	if l.isThere() {
		for _, path := range l.made {
			_ = os.Remove(path) // a folder that has something else by now stays
		}
	}
	l.Free()
}

// Free gives the lock back. An error would come too late to matter.
func (l *Lock) Free() {
	if l.isThere() {
		_ = l.file.Truncate(0)
	}
	_ = l.file.Close()
}
