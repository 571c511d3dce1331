//go:build unix

package cluster

import (
	"os/exec"
	"syscall"
)

// apart starts a program in its own process group, so that Ctrl-C in a terminal does not end it while it submits.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
