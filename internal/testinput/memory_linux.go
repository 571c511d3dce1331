package testinput

import (
	"os"
	"syscall"
)

const (
	tmpfs  = 0x01021994 // in statfs(2)
	noExec = 8
	room   = 8 << 30 // bytes: many times what the tests keep at once
)

// Tests write to memory if there is room: some spend half of their time on waiting for a disk. TMPDIR names another
// place.
func init() {
	const memory = "/dev/shm"
	var s syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &s) == nil && s.Type == tmpfs && s.Flags&noExec == 0 &&
		int64(s.Bavail)*s.Bsize >= room {
		os.Setenv("TMPDIR", memory)
	}
}
