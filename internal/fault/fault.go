// Package fault shortens errors of the system for messages.
package fault

import (
	"errors"
	"io/fs"
	"os"
)

// Reason is an error without the system call and the files that it names ("no such file or
// directory"), for messages that name the file themselves. Other errors are as they were.
func Reason(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
