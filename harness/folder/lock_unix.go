//go:build !windows

package folder

import (
	"os"
	"syscall"
)

// errTaken is lock's error where another has the lock.
const errTaken = syscall.EWOULDBLOCK

// lock locks a file for as long as it is open, and does not wait for it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
