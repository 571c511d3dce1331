package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/journal"
)

// ErrOtherRun is returned for a folder that holds another run's results, or files that no run wrote.
var ErrOtherRun = errors.New("choose another --out or add --force")

// workFolder, in the output folder, is there from the first moment of a run to its end: the journal,
// and the results as far as they are known.
const workFolder = "journal"

// runFiles are the files that a run, its reports and its check leave.
var runFiles = []string{"results.json", "gallery.json", "records.jsonl", "report.html", "summary.md", "junit.xml",
	"tables.md", "tables.tex", "tables.csv", "radar-*.png", "radar-*.svg", "curve-*.png", "curve-*.svg",
	"waterfall-*.png", "waterfall-*.svg", "control-*.png", "control-*.svg", "solver-*.png", "solver-*.svg",
	"theory.html", "theory.md", "theory.json", "theory-*.png", "theory-*.svg", "adversarial/*.npy"}

// output is a run's folder. The run writes into [workFolder]; what it wrote comes to its place when
// the run ends, in order or not, unless something better is there.
type output struct {
	dir     string
	lock    *lock
	old     *result.File // what an earlier run left; nil for none
	same    bool         // that was of this plan
	begun   bool         // there is a journal that holds something
	records *os.File     // nil before the first cell
	kept    map[string]bool
}

// openOutput opens the output folder and keeps other runs out until [output.unlock]. What is in it
// without being a run's is an error unless force is set.
func openOutput(dir string, force bool) (*output, error) {
	lock, err := lockFolder(dir, "run")
	if err != nil {
		return nil, err
	}
	o := &output{dir: dir, lock: lock, kept: map[string]bool{}}
	if err := o.look(force); err != nil {
		o.unlock()
		return nil, err
	}
	return o, nil
}

// look sees what is in the folder.
func (o *output) look(force bool) error {
	if info, err := os.Stat(filepath.Join(o.work(""), journal.File)); err == nil {
		o.begun = info.Size() > 0
	}
	path := filepath.Join(o.dir, "results.json")
	var err error
	o.old, err = result.Read(path)
	switch {
	case force || err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: is not a results file of this program (%w); %w", path, err, ErrOtherRun)
	case o.begun:
		return nil
	}
	found, err := o.files()
	for name := range found {
		return fmt.Errorf("%s holds %s, which is no run's: there are no results beside it; %w", o.dir, name,
			ErrOtherRun)
	}
	return err
}

// unlock lets other runs in. An error would come too late to matter.
func (o *output) unlock() { o.lock.free() }

// work is a path in the work folder.
func (o *output) work(name string) string { return filepath.Join(o.dir, workFolder, name) }

// files are those of a run that are in the folder, by name.
func (o *output) files() (map[string]fs.FileInfo, error) {
	found := map[string]fs.FileInfo{}
	dir := os.DirFS(o.dir) // the folder's own name is no pattern
	for _, pattern := range runFiles {
		names, err := fs.Glob(dir, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if found[name], err = fs.Stat(dir, name); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// begin opens the journal. Anew, one that is there is removed first.
func (o *output) begin(anew bool) (j *journal.Journal, damaged int, err error) {
	if anew {
		if err := os.RemoveAll(o.work("")); err != nil {
			return nil, 0, fmt.Errorf("output folder: %w", err)
		}
	}
	return journal.Open(o.work(""))
}

// cell writes the results so far, and appends a cell's records, if it has any.
func (o *output) cell(file *result.File, records iter.Seq[result.Record]) error {
	var err error
	if o.records == nil {
		if o.records, err = os.Create(o.work("records.jsonl")); err != nil {
			return fmt.Errorf("records: %w", err)
		}
	}
	if records != nil {
		w := bufio.NewWriter(o.records)
		lines := json.NewEncoder(w)
		for r := range records {
			if err := lines.Encode(r); err != nil {
				return fmt.Errorf("records: %w", err)
			}
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("records: %w", err)
		}
	}
	return result.Write(o.work("results.json"), file)
}

// gallery writes the images to show.
func (o *output) gallery(g *result.Gallery) error {
	return result.WriteGallery(o.work("gallery.json"), g)
}

// publish puts the results in their place and reports on them, unless what is there already is
// worth more: the results of this plan with as many cells, or another's that are not to be
// lost before there are others. It returns whether it did.
func (o *output) publish(file *result.File, report func(*result.File) error) (bool, error) {
	if o.records != nil {
		if err := o.records.Close(); err != nil {
			return false, fmt.Errorf("records: %w", err)
		}
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
	if err := os.MkdirAll(filepath.Join(o.dir, "adversarial"), 0o755); err != nil {
		return false, err
	}
	images, err := fs.Glob(os.DirFS(o.work("")), "adversarial/*.npy")
	if err != nil {
		return false, err
	}
	for _, name := range append(images, "records.jsonl", "gallery.json", "results.json") {
		err := os.Rename(o.work(name), filepath.Join(o.dir, name))
		if err != nil && !(name == "gallery.json" && errors.Is(err, fs.ErrNotExist)) {
			return false, err
		}
	}
	_ = os.Remove(filepath.Join(o.dir, "adversarial")) // where it is empty
	if report != nil {
		if err := report(file); err != nil {
			return true, err
		}
	}
	return true, o.clear(before)
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
	written := []string{"records.jsonl", "results.json"}
	for _, pattern := range []string{"gallery.json", "adversarial", "adversarial/*.npy"} {
		found, err := fs.Glob(os.DirFS(o.dir), pattern)
		if err != nil {
			return err
		}
		written = append(written, found...)
	}
	for _, name := range append(written, ".") {
		if err := atomicfile.Sync(filepath.Join(o.dir, name)); err != nil {
			return err
		}
	}
	return os.RemoveAll(o.work(""))
}
