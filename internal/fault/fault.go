// Package fault shortens errors of the system for messages. It has one function, [Reason].
package fault

import (
	"errors"
	"io/fs"
	"os"
)

// Reason returns an error without its system call and file names ("no such file or directory"), for messages that name
// the file themselves. Other errors are returned unchanged.
func Reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
