//go:build !linux

package cli

import "os"

// notifyOfParent does nothing: only the standard input tells of the parent's end.
func notifyOfParent(chan<- os.Signal) {}
