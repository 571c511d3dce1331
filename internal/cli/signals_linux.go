package cli

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// notifyOfParent has the system tell of the end of the process that started this one. The request is the calling
// thread's: the runtime ends none of its threads before the program ends.
func notifyOfParent(gone chan<- os.Signal) {
	signal.Notify(gone, syscall.SIGUSR1)
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGUSR1), 0, 0, 0) // without it the pipe tells
}
