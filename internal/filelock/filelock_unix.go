//go:build !windows

// Package filelock locks open files against other runs and against cleaning up. [Lock] never waits, and a lock ends
// when its file is closed.
package filelock

import (
	"os"
	"syscall"
)

// ErrTaken is Lock's error if another process has the lock.
const ErrTaken = syscall.EWOULDBLOCK

// Lock locks a file until it is closed. It does not wait for the lock.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
