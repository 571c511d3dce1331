package harness

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gofrs/flock"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
)

// ErrOtherConfig is returned for a folder that holds another config's results.
var ErrOtherConfig = errors.New("holds the results of another config")

// lockFile keeps a second run out of a folder. It stays there: whoever removed it could
// remove another run's. The system frees the lock of a process that ends, however it ends.
const lockFile = ".selfheal.lock"

// journal writes a run's results as they come: results.json whole after every
// cell, so that whatever ends a run leaves the cells that were done. Until the
// first cell is done, what an earlier run left in the folder stays as it is.
type journal struct {
	dir     string
	ours    bool // an earlier run's results were there
	lock    *flock.Flock
	lines   *os.File // nil before the first cell
	records []result.Record
}

// newJournal opens the output folder and keeps other runs out until [journal.unlock]. A folder
// with another config's results is refused unless force is set.
func newJournal(dir string, file *result.File, force bool) (*journal, error) {
	path := filepath.Join(dir, "results.json")
	old, err := result.Read(path)
	there := !errors.Is(err, fs.ErrNotExist)
	if err == nil && old.ConfigSHA256 != file.ConfigSHA256 && !force {
		return nil, fmt.Errorf("%s: %w; choose another --out or add --force", dir, ErrOtherConfig)
	} else if err != nil && there && !force {
		return nil, fmt.Errorf("%s: is not a results file of this program (%v); choose another --out or add --force",
			path, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("output folder: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockFile)) // a folder that can't be written is found now
	if free, err := lock.TryLock(); err != nil {
		return nil, fmt.Errorf("output folder: %w", err)
	} else if !free {
		return nil, fmt.Errorf("%s: another run is writing to this folder; wait for it or choose another --out", dir)
	}
	return &journal{dir: dir, ours: there, lock: lock}, nil
}

// unlock lets other runs in. An error would come too late to matter.
func (j *journal) unlock() { _ = j.lock.Close() }

// begin makes way for the first cell: what an earlier run made of other results
// must not stand beside it.
func (j *journal) begin() error {
	if j.lines != nil {
		return nil
	}
	if j.ours { // files of the same names in a folder without results are somebody else's
		if err := j.clear(); err != nil {
			return fmt.Errorf("output folder: %w", err)
		}
	}
	var err error
	if j.lines, err = os.Create(filepath.Join(j.dir, "records.jsonl")); err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	return nil
}

// runFiles are the files that a run, its reports and its check leave beside results.json.
var runFiles = []string{"gallery.json", "records.jsonl", "report.html", "summary.md", "junit.xml", "tables.md",
	"tables.tex", "tables.csv", "radar-*.png", "radar-*.svg", "curve-*.png", "curve-*.svg", "waterfall-*.png",
	"waterfall-*.svg", "control-*.png", "control-*.svg", "solver-*.png", "solver-*.svg", "theory.html", "theory.md",
	"theory.json", "theory-*.png", "theory-*.svg", "adversarial/*.npy"}

// clear removes what an earlier run made.
func (j *journal) clear() error {
	for _, pattern := range runFiles {
		old, err := fs.Glob(os.DirFS(j.dir), pattern) // the folder's own name is no pattern
		if err != nil {
			return err
		}
		for _, name := range old {
			if err := os.Remove(filepath.Join(j.dir, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
	}
	return nil
}

// cell appends one cell's records and writes the results with it.
func (j *journal) cell(file *result.File, records []result.Record) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("records: %w", err)
		}
	}
	if err := j.begin(); err != nil {
		return err
	}
	if _, err := j.lines.Write(b.Bytes()); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	j.records = append(j.records, records...)
	return result.Write(filepath.Join(j.dir, "results.json"), file)
}

// gallery writes the images to show. Where no cell is done there are none.
func (j *journal) gallery(g *result.Gallery) error {
	if j.lines == nil {
		return nil
	}
	return result.WriteGallery(filepath.Join(j.dir, "gallery.json"), g)
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// adversarial saves a cell's images as float32 [N, C, H, W].
func (j *journal) adversarial(job Job, defense string, a PlannedAttack, s attacks.Shape, made *crafted) error {
	dir := filepath.Join(j.dir, "adversarial")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Readable, and unique whatever the names hold.
	parts := []string{job.Suite.Name, job.Model.Name, a.Name}
	key := fmt.Appendf(nil, "%q %q %q %v", job.Suite.Name, job.Model.Name, a.Name, a.Epsilon)
	if defense != config.None { // made against it
		parts, key = append(parts, defense), fmt.Appendf(key, " %q", defense)
	}
	sum := sha256.Sum256(key)
	name := unsafeName.ReplaceAllString(strings.Join(append(parts, fmt.Sprintf("%.6g", a.Epsilon)), "_"), "-")
	name += fmt.Sprintf("_%x.npy", sum[:4])
	n := len(made.each)
	flat := make([]float32, 0, n*s.Size())
	for _, a := range made.each {
		flat = append(flat, a.image...)
	}
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := dataset.WriteNPY(f, []int{n, s.C, s.H, s.W}, flat); err != nil {
		f.Close()
		return fmt.Errorf("adversarial images: %w", err)
	}
	return f.Close()
}

// close writes the results once more, with what only all cells together tell.
func (j *journal) close(file *result.File) error {
	if j.lines == nil {
		return nil
	}
	return errors.Join(j.lines.Close(), result.Write(filepath.Join(j.dir, "results.json"), file))
}
