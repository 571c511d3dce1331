package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
)

// publish puts the results in their place and reports on them, unless what is there already is
// worth more: the results of this plan with as many cells, or another's that are not to be
// lost before there are others. It returns whether it did.
func (o *output) publish(file *result.File, report func(*result.File) error) (bool, error) {
	if err := o.close(); err != nil {
		return false, err
	}
	if file.Finished == nil && (extent(file) == 0 || o.old != nil && (!o.same || extent(file) <= extent(o.old))) {
		return false, nil
	}
	if err := result.Write(o.work("results.json"), file); err != nil { // with what only all cells together tell
		return false, err
	}
	before, err := o.files()
	if err != nil {
		return false, err
	}
	names, err := fs.Glob(os.DirFS(o.work("")), "adversarial/*.npy")
	if err != nil {
		return false, err
	}
	if len(names) > 0 {
		if err := atomicfile.In(o.dir).Make("adversarial"); err != nil {
			return false, fmt.Errorf("%s: %w", filepath.Join(o.dir, "adversarial"), err)
		}
	}
	for _, name := range append(names, "records.jsonl", "gallery.json", "results.json") {
		err := move(o.work(name), filepath.Join(o.dir, name))
		if err != nil && !(name == "gallery.json" && errors.Is(err, fs.ErrNotExist)) {
			return false, fmt.Errorf("%s: %w", filepath.Join(o.dir, name), fault.Reason(err))
		}
	}
	if report != nil {
		if err := report(file); err != nil {
			return true, err
		}
	}
	return true, o.clear(before)
}

// close ends the records.
func (o *output) close() error {
	if o.records == nil {
		return nil
	}
	err := o.records.Close()
	if o.records = nil; err != nil {
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
func extent(f *result.File) int {
	n := len(f.Cells) + len(f.Solver)
	for _, c := range f.Cells {
		n += len(c.Seeds)
	}
	return n
}

// clear removes what an earlier run left and this one has not written anew.
func (o *output) clear(before map[string]fs.FileInfo) error {
	if o.old == nil {
		return nil // files of these names were somebody else's
	}
	now, err := o.files()
	for name, info := range before {
		if err == nil && !o.kept[name] && now[name] != nil && os.SameFile(info, now[name]) {
			err = os.Remove(filepath.Join(o.dir, filepath.FromSlash(name)))
		}
	}
	return err
}

// finish removes the journal of a run whose results are in their place, once they are on the disk:
// a power cut leaves one of both.
func (o *output) finish() error {
	written, err := o.files()
	for _, name := range []string{"records.jsonl", "results.json"} {
		if err == nil {
			written[name] = nil // a run has these
		}
	}
	for name, info := range written {
		if err == nil && (info == nil || info.Mode().IsRegular()) {
			err = atomicfile.Sync(filepath.Join(o.dir, filepath.FromSlash(name)))
		}
	}
	if err == nil {
		err = atomicfile.Sync(o.dir)
	}
	gone := filepath.Join(o.dir, goneFolder)
	if err == nil {
		err = os.Rename(o.work(""), gone)
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(gone)
}
