package harness

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/journal"
)

// ErrOtherRun is returned for a folder that holds another run's results, or files that no run wrote.
var ErrOtherRun = errors.New("choose another --out or add --force")

// workFolder, in the output folder, is there from the first moment of a run to its end: the journal,
// and the results as far as they are known. At its end it is renamed to goneFolder, at once, and removed.
const (
	workFolder = "selfheal-journal"
	goneFolder = ".selfheal-journal-gone"
)

// planFile, in the work folder, says of what run it is.
const planFile = "plan.json"

// planned is what planFile holds.
type planned struct {
	Units int `json:"units"` // version of the journal's lines
	// Run is results without cells, and the rest is a shard's: when that is done, Run is finished.
	Run    *result.File   `json:"run"`
	Config *config.Config `json:"config,omitempty"`
	Shard  *Shard         `json:"shard,omitempty"`
	Shares string         `json:"shares_sha256,omitempty"`
	// Journal is how the journal of a finished shard was left: what is left of one that lost lines looks whole.
	Journal journalState `json:"journal,omitzero"`
}

// journalState tells whether something has happened to a journal.
type journalState struct {
	Bytes   int64 `json:"bytes"`
	Damaged int   `json:"damaged"` // lines, which were made again
}

// unitsVersion rises when the same journal's lines mean something else.
const unitsVersion = 2

// SoFar is the folder in which a run that is not finished keeps its results so far.
func SoFar(dir string) string { return filepath.Join(dir, workFolder) }

// runFiles are the files that a run, its reports and its check leave.
var runFiles = append(result.FigureFiles(), "results.json", "gallery.json", "records.jsonl", "report.html",
	"summary.md", "junit.xml", "tables.md", "tables.txt", "tables.tex", "tables.csv", "theory.html", "theory.md",
	"theory.json", "adversarial/*.npy")

// output is a run's folder. The run writes into [workFolder]; what it wrote comes to its place when
// the run ends, in order or not, unless something better is there.
type output struct {
	dir     string
	lock    *lock
	old     *result.File // what an earlier run left; nil for none
	same    bool         // that was of this plan
	plan    *planned     // of the run that the journal is of; nil for none
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
func (o *output) look(force bool) (err error) {
	if err := os.RemoveAll(filepath.Join(o.dir, goneFolder)); err != nil {
		return err
	}
	if info, err := os.Lstat(o.work("")); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := os.Remove(o.work("")); err != nil { // it would lead out
			return err
		}
	}
	path := filepath.Join(o.dir, "results.json")
	if o.old, err = result.Read(path); force {
		return nil
	}
	held, _ := os.ReadDir(o.work(""))
	if slices.ContainsFunc(held, func(e fs.DirEntry) bool { return e.Name()[0] != '.' }) { // which was written whole
		if o.plan, err = readPlan(o.work(planFile)); err != nil {
			return fmt.Errorf("%s can't be continued: %w; %w", o.work(""), err, ErrOtherRun)
		}
		return nil
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: is not a results file of this program (%w); %w", path, err, ErrOtherRun)
	}
	found, err := o.files()
	for name := range found {
		return fmt.Errorf("%s holds %s, which is no run's: there are no results beside it; %w", o.dir, name,
			ErrOtherRun)
	}
	return err
}

// mostPlan bounds a plan, in bytes.
const mostPlan = 256 << 20

// readPlan reads of what run a journal is. Behind the JSON stands its checksum.
func readPlan(path string) (*planned, error) {
	data, err := input.Read(path, mostPlan)
	if err != nil {
		return nil, err
	}
	var plan planned
	text, damaged := checked(data)
	if err := json.Unmarshal(text, &plan); err == nil && plan.Units != unitsVersion {
		return nil, fmt.Errorf("its lines have version %d, this program reads %d", plan.Units, unitsVersion)
	}
	s, cfg := plan.Shard, plan.Config
	if damaged != nil || plan.Run == nil || s != nil && (s.I < 1 || s.I > s.N || s.N > MaxShards) ||
		cfg != nil && cfg.Hash() != plan.Run.ConfigSHA256 {
		return nil, fmt.Errorf("%s is damaged", path)
	}
	for _, d := range plan.Run.Datasets {
		if d.N < 0 {
			return nil, fmt.Errorf("%s is damaged", path)
		}
	}
	return &plan, nil
}

// withSum is a line, and behind it its CRC-32.
func withSum(line []byte) []byte { return fmt.Appendf(line, "\n%08x", crc32.ChecksumIEEE(line)) }

// checked is the line that [withSum] has made data of.
func checked(data []byte) (line []byte, err error) {
	line, _, _ = bytes.Cut(data, []byte("\n"))
	if !bytes.Equal(withSum(slices.Clone(line)), data) {
		err = errors.New("it is damaged")
	}
	return line, err
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
			if found[name], err = os.Lstat(filepath.Join(o.dir, filepath.FromSlash(name))); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// begin makes the journal of a run anew.
func (o *output) begin(plan planned) (*journal.Journal, error) {
	err := os.RemoveAll(o.work(""))
	if err == nil {
		err = atomicfile.In(o.dir).Make(workFolder)
	}
	if err == nil {
		err = o.write(plan)
	}
	if err != nil {
		return nil, fmt.Errorf("output folder %s: %w", o.dir, fault.Reason(err))
	}
	j, _, err := journal.Open(o.work(""))
	return j, err
}

// write writes the plan.
func (o *output) write(plan planned) error {
	plan.Units = unitsVersion
	data, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	return atomicfile.In(o.work("")).WriteSynced(planFile, withSum(data))
}

// journalState is how the journal is now.
func (o *output) journalState() (s journalState, err error) {
	j, damaged, err := journal.Read(o.work(""))
	if err != nil {
		return s, err
	}
	info, err := os.Stat(o.work(journal.File))
	if err == nil {
		s = journalState{info.Size(), damaged}
	}
	return s, cmp.Or(j.Close(), err)
}

// cell writes the results so far, and appends a cell's records, if it has any.
func (o *output) cell(file *result.File, records iter.Seq[result.Record]) error {
	var err error
	if o.records == nil {
		if o.records, err = atomicfile.In(o.work("")).Create("records.jsonl"); err != nil {
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
