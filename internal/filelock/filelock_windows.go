package filelock

import (
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// ErrTaken is Lock's error if another process has the lock.
const ErrTaken = windows.ERROR_LOCK_VIOLATION

// Lock locks a byte beyond the end of any file: nobody else could read or write a locked byte of the content.
func Lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
}
