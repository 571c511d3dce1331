package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/journal"
)

// Publish puts the results in their place and reports on them, unless something better is there already: the results of
// this plan with as many cells, or another's that are not to be lost before there are others. It returns whether it
// did.
func (f *Folder) Publish(file *result.File, report func(*result.File) error) (bool, error) {
	if err := f.Close(); err != nil {
		return false, err
	}
	if file.Finished == nil && (extent(file) == 0 || f.Old != nil && (!f.Same || extent(file) <= extent(f.Old))) {
		return false, nil
	}
	if err := result.Write(f.Work("results.json"), file); err != nil { // with what only all cells together tell
		return false, err
	}
	before, err := f.files()
	if err != nil {
		return false, err
	}
	names, err := fs.Glob(os.DirFS(f.Work("")), "adversarial/*.npy")
	if err != nil {
		return false, err
	}
	if len(names) > 0 {
		if err := atomicfile.In(f.Dir).Make("adversarial"); err != nil {
			return false, fmt.Errorf("%s: %w", filepath.Join(f.Dir, "adversarial"), err)
		}
	}
	for _, name := range append(names, "records.jsonl", "gallery.json", "results.json") {
		err := move(f.Work(name), filepath.Join(f.Dir, name))
		if err != nil && !(name == "gallery.json" && errors.Is(err, fs.ErrNotExist)) {
			return false, fmt.Errorf("%s: %w", filepath.Join(f.Dir, name), fault.Reason(err))
		}
	}
	if report != nil {
		if err := report(file); err != nil {
			return true, err
		}
	}
	return true, f.clear(before)
}

// Close ends the records.
func (f *Folder) Close() error {
	if f.records == nil {
		return nil
	}
	err := f.records.Close()
	if f.records = nil; err != nil {
		return fmt.Errorf("records: %w", err)
	}
	return nil
}

// move puts a file in its place once it is on the disk.
func move(from, to string) error {
	if err := atomicfile.Sync(from); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// extent is how much of a run is done.
func extent(r *result.File) int {
	n := len(r.Cells) + len(r.Solver)
	for _, c := range r.Cells {
		n += len(c.Seeds)
	}
	return n
}

// clear removes what an earlier run left and this one has not written anew.
func (f *Folder) clear(before map[string]fs.FileInfo) error {
	if f.Old == nil {
		return nil // files of these names were somebody else's
	}
	now, err := f.files()
	for name, info := range before {
		if err == nil && !f.Kept[name] && now[name] != nil && os.SameFile(info, now[name]) {
			err = os.Remove(filepath.Join(f.Dir, filepath.FromSlash(name)))
		}
	}
	return err
}

// Finish removes the journal of a run whose results are in their place, once they are on the disk:
// a power cut leaves one of both.
func (f *Folder) Finish() error {
	written, err := f.files()
	for _, name := range []string{"records.jsonl", "results.json"} {
		if err == nil {
			written[name] = nil // a run has these
		}
	}
	for name, info := range written {
		if err == nil && (info == nil || info.Mode().IsRegular()) {
			err = atomicfile.Sync(filepath.Join(f.Dir, filepath.FromSlash(name)))
		}
	}
	if err == nil {
		err = atomicfile.Sync(f.Dir)
	}
	gone := filepath.Join(f.Dir, goneFolder)
	if err == nil {
		err = os.Rename(f.Work(""), gone)
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// Unfinished is the error that ended a run or a training whose finished part is on disk: the same one continues.
type Unfinished struct{ error }

// Unwrap returns the error itself.
func (e Unfinished) Unwrap() error { return e.error }

// NewUnfinished is an [Unfinished] of an error.
func NewUnfinished(err error) error { return Unfinished{err} }

// Unfinish is an [Unfinished] where err is one and the journal is still there, with all that was done in it.
func (f *Folder) Unfinish(err error) error {
	if err == nil {
		return nil
	}
	if _, gone := os.Lstat(f.Work(journal.File)); errors.Is(gone, fs.ErrNotExist) {
		return fmt.Errorf("output folder %s was removed while the run was at work; nothing of it is kept", f.Dir)
	}
	return Unfinished{err}
}
