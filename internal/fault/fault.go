// Package fault words errors for messages: [Reason] shortens those of the system, [At] says where one arose.
package fault

import (
	"errors"
	"fmt"
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

// At returns an error that names a place, such as a file, before err; nil if err is nil.
func At(place string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", place, err)
}
