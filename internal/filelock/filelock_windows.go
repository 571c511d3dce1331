package filelock

import (
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// ErrTaken is Lock's error where another has the lock.
const ErrTaken = windows.ERROR_LOCK_VIOLATION

// Lock locks a byte that no file is long enough to have: nobody else could read or write one that is locked.
func Lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
}
