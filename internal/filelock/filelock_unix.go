//go:build !windows

// Package filelock locks files: against other runs, and against those who clear up.
package filelock

import (
	"os"
	"syscall"
)

// ErrTaken is Lock's error where another has the lock.
const ErrTaken = syscall.EWOULDBLOCK

// Lock locks a file for as long as it is open, and does not wait for it.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
