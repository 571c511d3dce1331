// Package folder owns a run's output folder: its lock, its journal and its results. [Open] locks the folder and says
// what it holds, [Folder.Begin] or [Folder.Continue] opens the journal, [Folder.Cell] adds a cell, [Folder.Publish]
// moves the results to their place, [Folder.Finish] removes the journal and [Folder.Unlock] ends it. A process that
// is killed at any moment loses at most the last seconds of its attacks, and no file that a run did not write is
// replaced or removed without --force.
package folder

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
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"selfheal/harness/config"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/journal"
	"selfheal/internal/lists"
)

// Kind names a run's files and reports to [atomicfile.Output].
const Kind = "report"

// ErrOtherRun is returned for a folder with another run's results, or with files that no run wrote.
var ErrOtherRun = errors.New("choose another --out or add --force")

// WorkFolder, in the output folder, exists from the start of a run to its end. It has the journal, and the results so
// far. At the end it is renamed to goneFolder, in one step, and removed.
const (
	WorkFolder = "selfheal-journal"
	goneFolder = ".selfheal-journal-gone"
)

// InputFolder, in the output folder, has the config, images and network of a run whose caller held them in memory.
// The program writes them beside its results.
const InputFolder = "selfheal-input"

// PlanFile, in the work folder, identifies the run.
const PlanFile = "plan.json"

// Planned is the content of PlanFile.
type Planned struct {
	Units int `json:"units"` // version of the journal's lines
	// Run is results without cells. The rest is a shard's: Run is finished when the shard is.
	Run    *result.File   `json:"run"`
	Config *config.Config `json:"config,omitempty"`
	Shard  *plan.Shard    `json:"shard,omitempty"`
	// Journal is the state of a finished shard's journal. Without it a journal that lost lines would look whole.
	Journal JournalState `json:"journal,omitzero"`
}

// JournalState tells whether a journal has changed.
type JournalState struct {
	Bytes   int64 `json:"bytes"`
	Damaged int   `json:"damaged"` // number of damaged lines, which were made again
}

// linesVersion rises when the meaning of the journal's lines changes.
const linesVersion = 3

// SoFar returns the folder with the results so far of an unfinished run.
func SoFar(dir string) string { return filepath.Join(dir, WorkFolder) }

// runFiles are patterns of the files that a run, its reports and its check write.
var runFiles = append(result.FigureFiles(), "results.json", "gallery.json", "records.jsonl", "report.html",
	"summary.md", "junit.xml", "tables.md", "tables.txt", "tables.tex", "tables.csv", "theory.html", "theory.md",
	"theory.json", savedFolder+"/*.npy", savedIndex, InputFolder+"/*",
	"pictures/*/*.png", "pictures/*/*/*.png", "pictures/*/*/*/*.png")

// PictureFolders is the depth of the paths of pictures within their array's folder.
const PictureFolders = 3

// savedFolder has the images that a run saves.
const savedFolder = "adversarial"

const savedIndex = savedFolder + "/index.json"

// Folder is a run's output folder. The run writes into [WorkFolder]; its files get their final places when the run
// ends, after an error too, unless better results are there.
type Folder struct {
	Dir    string
	Old    *result.File    // the results of an earlier run; may be nil
	Same   bool            // they are of this plan
	Plan   *Planned        // of the journal's run; may be nil
	Before string          // who wrote there before without ending properly; "" for nobody
	Kept   map[string]bool // files of an earlier run that belong to this run too
	Saved  result.Saved    // the adversarial images that the run has saved
	// KeepInputs is a folder whose files are copied to [InputFolder] with the results; "" for none.
	KeepInputs string
	lock       *Lock
	rule       atomicfile.Rule
	begun      bool     // a journal was opened
	records    *os.File // nil before the first cell
}

// Open opens the output folder and locks it against other runs. A file in it that no run wrote is an error, unless
// forced.
func Open(dir string, rule atomicfile.Rule) (*Folder, error) {
	lock, err := LockFolder(dir, "run")
	if err != nil {
		return nil, err
	}
	f := &Folder{Dir: dir, lock: lock, rule: rule, Before: lock.Before, Kept: map[string]bool{}}
	if err := f.look(); err != nil {
		f.Unlock()
		return nil, err
	}
	return f, nil
}

func (f *Folder) look() (err error) {
	if err := os.RemoveAll(filepath.Join(f.Dir, goneFolder)); err != nil {
		return err
	}
	path := filepath.Join(f.Dir, "results.json")
	if f.Old, err = result.Read(path); f.rule.Force {
		return nil
	}
	begun, wrong := f.hasPlan()
	switch {
	case wrong != nil:
		return wrong
	case begun:
		if f.Plan, err = ReadPlan(f.Work(PlanFile)); err != nil {
			return fmt.Errorf("%s can't be continued: %w; %w", f.Work(""), err, ErrOtherRun)
		}
		return nil
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: is not a results file of this program (%w); %w", path, err, ErrOtherRun)
	}
	return f.Claim()
}

// hasPlan reports whether the work folder has a complete plan.
func (f *Folder) hasPlan() (bool, error) {
	info, err := os.Lstat(f.Work(""))
	if err != nil {
		return false, nil
	}
	if !info.IsDir() {
		return false, fmt.Errorf("%s is no folder; %w", f.Work(""), ErrOtherRun)
	}
	held, _ := os.ReadDir(f.Work(""))
	if slices.ContainsFunc(held, func(e fs.DirEntry) bool { return e.Name()[0] != '.' }) {
		return true, nil
	}
	for _, e := range held {
		if !atomicfile.IsTemporary(e.Name(), "") {
			return false, fmt.Errorf("%s is no run's; %w", f.Work(e.Name()), ErrOtherRun)
		}
	}
	return false, nil
}

// Claim returns an error if the results would replace a file that is not a run's; see [atomicfile.Output.Claim].
func (f *Folder) Claim() error {
	found, err := f.files()
	if err != nil {
		return err
	}
	maps.DeleteFunc(found, func(name string, _ fs.FileInfo) bool { return f.leaves(name) })
	names := slices.Sorted(maps.Keys(found))
	if err = f.output("").May(names...); err == nil {
		out := f.output(Kind)
		out.Force = true // the claim has been checked
		err = out.Claim(names...)
	}
	return err
}

// leaves reports whether a file always stays in its place, because the run itself may read it.
func (f *Folder) leaves(name string) bool { return f.KeepInputs == "" && path.Dir(name) == InputFolder }

// output returns the output for files of a kind, or of any kind for "".
func (f *Folder) output(kind string) atomicfile.Output {
	out := f.rule.In(f.Dir, kind)
	out.Beside = "results.json"
	return out
}

const mostPlan = 256 << 20

// ReadPlan reads the plan that identifies a journal's run.
func ReadPlan(path string) (*Planned, error) {
	plan := Planned{Units: linesVersion}
	err := ReadSummed(path, &plan)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	if plan.Units != linesVersion {
		return nil, fmt.Errorf("its lines have version %d, this program reads %d", plan.Units, linesVersion)
	}
	s, cfg := plan.Shard, plan.Config
	if err != nil || plan.Run == nil || s != nil && !s.Valid() || cfg != nil && cfg.Hash() != plan.Run.ConfigSHA256 ||
		slices.ContainsFunc(slices.Collect(maps.Values(plan.Run.Datasets)),
			func(d result.Dataset) bool { return d.N < 0 }) {
		return nil, fmt.Errorf("%s is damaged", path)
	}
	return &plan, nil
}

// ErrDamaged is returned for a file that has changed since it was written.
var ErrDamaged = errors.New("it is damaged")

// WriteSummed writes a value as JSON, followed by its CRC-32.
func WriteSummed(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.In(dir).WriteSynced(name, withSum(data))
}

func withSum(line []byte) []byte { return fmt.Appendf(line, "\n%08x", crc32.ChecksumIEEE(line)) }

// ReadSummed reads a file that [WriteSummed] has written. With an [ErrDamaged] it reads as much as it can.
func ReadSummed(path string, v any) error {
	data, err := input.Read(path, mostPlan)
	if err != nil {
		return err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if err := json.Unmarshal(line, v); err != nil || !bytes.Equal(withSum(slices.Clone(line)), data) {
		return ErrDamaged
	}
	return nil
}

// Unlock lets other runs in. It ignores errors, which come too late to matter. A refused run leaves nothing.
func (f *Folder) Unlock() {
	if f.begun {
		f.lock.Free()
	} else {
		f.lock.Undo()
	}
}

// Work returns a path in the work folder.
func (f *Folder) Work(name string) string { return filepath.Join(f.Dir, WorkFolder, name) }

// files returns a run's files in the folder, by name.
func (f *Folder) files() (map[string]fs.FileInfo, error) {
	found := map[string]fs.FileInfo{}
	dir := os.DirFS(f.Dir) // the folder's own name is not a pattern
	for _, pattern := range runFiles {
		names, err := fs.Glob(dir, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if found[name], err = os.Lstat(filepath.Join(f.Dir, filepath.FromSlash(name))); err != nil {
				return nil, err
			}
		}
	}
	if info, err := os.Lstat(filepath.Join(f.Dir, savedFolder)); err == nil && !info.IsDir() {
		found[savedFolder] = info // a file in the folder's place
	}
	return found, nil
}

// Begin starts a run's journal anew.
func (f *Folder) Begin(p Planned) (*Journal, error) {
	err := os.RemoveAll(f.Work(""))
	if err == nil {
		err = atomicfile.In(f.Dir).Make(WorkFolder)
	}
	if err == nil {
		err = f.Write(p)
	}
	if err != nil {
		return nil, fmt.Errorf("output folder %s: %w", f.Dir, fault.Reason(err))
	}
	j, _, err := f.Continue()
	return j, err
}

// Continue opens the existing journal and returns the number of damaged lines.
func (f *Folder) Continue() (j *Journal, damaged int, err error) {
	f.begun = true
	lines, damaged, err := journal.Open(f.Work(""))
	if err != nil {
		return nil, 0, err
	}
	return &Journal{Journal: lines}, damaged, nil
}

func (f *Folder) Write(p Planned) error {
	p.Units = linesVersion
	return WriteSummed(f.Work(""), PlanFile, p)
}

// JournalState returns the journal's present state.
func (f *Folder) JournalState() (s JournalState, err error) {
	j, damaged, err := journal.Read(f.Work(""))
	if err != nil {
		return s, err
	}
	info, err := os.Stat(f.Work(journal.File))
	if err == nil {
		s = JournalState{info.Size(), damaged}
	}
	return s, cmp.Or(j.Close(), err)
}

// Cell writes the results so far and appends the records of a cell, if it has any.
func (f *Folder) Cell(file *result.File, records iter.Seq[result.Record]) error {
	if err := f.append(records); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	return result.Write(f.Work("results.json"), file)
}

func (f *Folder) append(records iter.Seq[result.Record]) (err error) {
	if f.records == nil {
		f.records, err = atomicfile.In(f.Work("")).Open("records.jsonl", os.O_TRUNC)
	}
	if err != nil || records == nil {
		return err
	}
	w := bufio.NewWriter(f.records)
	lines := json.NewEncoder(w)
	for r := range records {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Publish moves the results to their place and reports on them, unless better ones are there: as many cells of this
// plan, or another run's results while this one has none. It returns whether it did.
func (f *Folder) Publish(file *result.File, report func(*result.File) error) (bool, error) {
	if err := f.Close(); err != nil {
		return false, err
	}
	if file.Finished == nil && (extent(file) == 0 || f.Old != nil && (!f.Same || extent(file) <= extent(f.Old))) {
		return false, nil
	}
	if err := result.Write(f.Work("results.json"), file); err != nil { // with the values that need all cells
		return false, err
	}
	before, err := f.files()
	if err != nil {
		return false, err
	}
	maps.DeleteFunc(before, func(name string, _ fs.FileInfo) bool { return !f.output("").Wrote(name) })
	names, err := fs.Glob(os.DirFS(f.Work("")), savedFolder+"/*.npy")
	if err != nil {
		return false, err
	}
	if err := f.keepInputs(); err != nil {
		return false, err
	}
	if len(names) > 0 {
		if err := atomicfile.In(f.Dir).Make(savedFolder); err != nil {
			return false, fmt.Errorf("%s: %w", filepath.Join(f.Dir, savedFolder), err)
		}
	}
	if f.Saved.Arrays != nil {
		f.Saved.Schema = result.SavedSchema
		if err := result.WriteSaved(f.Work(savedIndex), &f.Saved); err != nil {
			return false, err
		}
		names = append(names, savedIndex)
	}
	for _, name := range append(names, "records.jsonl", "gallery.json", "results.json") {
		err := f.output(Kind).Move(WorkFolder+"/"+name, name)
		if err != nil && !(name == "gallery.json" && errors.Is(err, fs.ErrNotExist)) {
			return false, err
		}
	}
	if report != nil {
		if err := report(file); err != nil {
			return true, err
		}
	}
	return true, f.clear(before)
}

// keepInputs copies the files of KeepInputs, except hidden ones.
func (f *Folder) keepInputs() error {
	if f.KeepInputs == "" {
		return nil
	}
	entries, err := os.ReadDir(f.KeepInputs)
	for _, e := range entries {
		if err == nil && e.Type().IsRegular() && e.Name()[0] != '.' {
			err = f.output(Kind).Fill(path.Join(InputFolder, e.Name()),
				atomicfile.From(filepath.Join(f.KeepInputs, e.Name())))
		}
	}
	return fault.Reason(err)
}

func (f *Folder) Close() error {
	if f.records == nil {
		return nil
	}
	err := f.records.Close()
	f.records = nil
	return fault.At("records", err)
}

func extent(r *result.File) int {
	n := len(r.Cells) + len(r.Solver)
	for _, c := range r.Cells {
		n += len(c.Seeds)
	}
	return n
}

// clear removes files of an earlier run that this one has not written anew.
func (f *Folder) clear(before map[string]fs.FileInfo) error {
	if f.Old == nil {
		return nil // files with these names were somebody else's
	}
	now, err := f.files()
	for name, info := range before {
		if err == nil && !f.Kept[name] && !f.leaves(name) && now[name] != nil && os.SameFile(info, now[name]) {
			err = os.Remove(filepath.Join(f.Dir, filepath.FromSlash(name)))
		}
	}
	return err
}

// Finish removes the journal once the results are synced, so that a power cut leaves one of them.
func (f *Folder) Finish() error {
	written, err := f.files()
	for _, name := range []string{"records.jsonl", "results.json"} {
		if err == nil {
			written[name] = nil // a run has written these
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

// Unfinished is the error that ended a run or a training whose finished part is on disk: the same command continues
// it.
type Unfinished struct{ error }

func (e Unfinished) Unwrap() error { return e.error }

// NewUnfinished makes an [Unfinished] of an error.
func NewUnfinished(err error) error { return Unfinished{err} }

// Unfinish makes an [Unfinished] of err, unless that is nil. If the journal is gone, it returns an error that says so
// instead.
func (f *Folder) Unfinish(err error) error {
	if err == nil {
		return nil
	}
	for _, path := range []string{f.Dir, f.Work(journal.File)} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s was removed while the run was at work; nothing of it is kept", path)
		}
	}
	return Unfinished{err}
}

// NoClean is why cells have no verdicts if their clean images failed.
const NoClean = "there are no verdicts on clean images"

// Failures returns the error about a finished run's cells and seeds without verdicts.
func Failures(f *result.File) error {
	var list []error
	for _, c := range f.Cells {
		if c.Error != "" && c.Error != NoClean {
			list = append(list, errors.New(c.Error))
		}
	}
	for _, text := range f.Failed {
		list = append(list, errors.New(text))
	}
	return errors.Join(list...)
}

// Differ lists the settings and files in which two runs differ.
func Differ(one, other *result.File) []result.Difference {
	list := result.Differences(provenanceOf(one), provenanceOf(other))
	if named := lists.Only(list, func(d result.Difference) bool {
		return d.Path != "config_sha256" // a hash would not help the reader
	}); len(named) > 0 {
		return named
	}
	return list
}

// Holds returns an [ErrOtherRun] unless the folder's run is the other run.
func (f *Folder) Holds(held, other *result.File) error {
	if list := Differ(held, other); len(list) > 0 {
		return fmt.Errorf("%s holds another run: %s; %w", f.Dir, result.SayFirst(list, "there", "here"), ErrOtherRun)
	}
	return nil
}

// provenanceOf returns everything that numbers depend on.
func provenanceOf(f *result.File) result.File {
	of := *f
	of.Created, of.Finished, of.Command, of.Failed = time.Time{}, nil, nil, nil
	of.Fits, of.Cells, of.Solver, of.Images = nil, nil, nil, nil
	e := f.Environment
	of.Environment = result.Environment{Selfheal: e.Selfheal, ONNXRuntime: e.ONNXRuntime, Provider: e.Provider,
		Precision: e.Precision, Winograd: e.Winograd}
	of.Suites = slices.Clone(f.Suites)
	for i := range of.Suites {
		of.Suites[i].Title, of.Suites[i].Published = "", nil
	}
	of.Models = maps.Clone(f.Models)
	for name, m := range of.Models {
		m.Parameters, m.Segments, m.FLOPs = 0, 0, 0
		of.Models[name] = m
	}
	of.Controls = maps.Clone(f.Controls)
	for name, c := range of.Controls {
		c.Layers = slices.Clone(c.Layers)
		for i := range c.Layers {
			c.Layers[i].Embedding.Path = ""
		}
		of.Controls[name] = c
	}
	return of
}
