// Package fault shortens errors of the system for messages.
package fault

import (
	"errors"
	"io/fs"
	"os"
)

// Reason is an error without the system call and the files that it names ("no such file or directory"), for messages
// that name the file themselves. Other errors are as they were.
func Reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
