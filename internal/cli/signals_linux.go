package cli

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// notifyOfParent asks the system to report the end of the process that started this one. The request belongs to the
// calling thread: the runtime ends none of its threads before the program ends.
func notifyOfParent(gone chan<- os.Signal) {
	signal.Notify(gone, syscall.SIGUSR1)
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGUSR1), 0, 0, 0) // if it fails, the pipe still tells
}
