package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
)

// ErrOtherConfig is returned for a folder that holds another config's results.
var ErrOtherConfig = errors.New("holds the results of another config")

// journal writes a run's results as they come: results.json whole after every
// cell, so that whatever ends a run leaves the cells that were done.
type journal struct {
	dir     string
	lines   *os.File
	records []result.Record
}

// newJournal opens the output folder. A folder with another config's results is
// refused unless force is set.
func newJournal(dir string, file *result.File, force bool) (*journal, error) {
	path := filepath.Join(dir, "results.json")
	if old, err := result.Read(path); err == nil && old.ConfigSHA256 != file.ConfigSHA256 && !force {
		return nil, fmt.Errorf("%s: %w; choose another --out or add --force", dir, ErrOtherConfig)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !force {
		return nil, fmt.Errorf("%s: is not a results file of this program (%v); choose another --out or add --force", path, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("output folder: %w", err)
	}
	j := &journal{dir: dir}
	var err error
	if j.lines, err = os.Create(filepath.Join(dir, "records.jsonl")); err != nil {
		return nil, fmt.Errorf("output folder: %w", err)
	}
	return j, result.Write(path, file)
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
	if _, err := j.lines.Write(b.Bytes()); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	j.records = append(j.records, records...)
	return result.Write(filepath.Join(j.dir, "results.json"), file)
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// adversarial saves a cell's images as float32 [N, C, H, W].
func (j *journal) adversarial(suite, model string, a PlannedAttack, s attacks.Shape, images [][]float32) error {
	dir := filepath.Join(j.dir, "adversarial")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := unsafeName.ReplaceAllString(strings.Join([]string{suite, model, a.Name, fmt.Sprintf("%.6g", a.Epsilon)}, "_"), "-") + ".npy"
	flat := make([]float32, 0, len(images)*s.Size())
	for _, im := range images {
		flat = append(flat, im...)
	}
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := dataset.WriteNPY(f, []int{len(images), s.C, s.H, s.W}, flat); err != nil {
		f.Close()
		return fmt.Errorf("adversarial images: %w", err)
	}
	return f.Close()
}

func (j *journal) close() error { return j.lines.Close() }
