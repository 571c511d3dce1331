package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"selfheal/internal/atomicfile"
	"selfheal/internal/sealed"
)

// notes is the folder of a journal's notes, in its folder.
const notes = "notes"

// Note stores a value under a name in the place of an earlier one: the state of work that has not ended. When it
// returns without an error, the value survives the end of the program.
func (j *Journal) Note(name string, value any) error {
	err := atomicfile.In(j.dir).Make(notes)
	if err == nil {
		err = sealed.Write(j.note(name), value)
	}
	return wrong(j.dir, err)
}

// Noted reads the value stored under a name into a pointer and reports whether there is one. A damaged one is none.
func (j *Journal) Noted(name string, value any) bool { return sealed.Read(j.note(name), value) == nil }

// Forget removes the value stored under a name, if there is one.
func (j *Journal) Forget(name string) error {
	if err := os.Remove(j.note(name)); !errors.Is(err, fs.ErrNotExist) {
		return wrong(j.dir, err)
	}
	return nil
}

func (j *Journal) note(name string) string { return filepath.Join(j.dir, notes, name) }
