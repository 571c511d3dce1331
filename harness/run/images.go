package run

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/checksum"
	"selfheal/internal/journal"
	"selfheal/internal/npy"
)

// Images returns, for each key of a plan, whether an attack's images are needed, at full strength, or only verdicts.
func Images(p *plan.Plan) map[cell.Made]bool {
	needed := map[cell.Made]bool{}
	p.Each(func(s plan.Step) {
		// to networks other than the attacked one
		given := s.Oblivious() && len(s.Sources)+len(s.Suite.Controls) > 0
		asked := slices.ContainsFunc(s.Trials, func(t plan.Trial) bool { return t.Samples() > 0 })
		kept := s.Suite.SaveAdversarial && !s.Suite.VerdictOnly || asked // on disk, or for smoothed classifiers
		for _, k := range s.Keys() {
			needed[k] = needed[k] || given || s.First && kept
		}
	})
	return needed
}

// images holds the images of a run's attacks as long as steps need them. Holding all of a run's would fill the disk.
type images struct {
	plan    *plan.Plan
	whole   bool // not a part, which has only some of the images
	journal *folder.Journal
	uses    map[cell.Made]*use
	again   map[folder.Key]bool // keys whose images were freed too early
}

type use struct {
	left   int      // number of steps that still need them
	images bool     // some step needs the adversarial images, not only verdicts
	made   *crafted // nil before the first and after the last step
}

func (m *images) reserve() {
	m.uses = map[cell.Made]*use{}
	images := Images(m.plan)
	m.plan.Each(func(s plan.Step) {
		for _, k := range s.Keys() {
			if m.uses[k] == nil {
				m.uses[k] = &use{images: images[k]}
			}
			m.uses[k].left++
		}
	})
	for _, j := range m.plan.Jobs { // studies take images that are made anyway
		if u := m.studied(j); u != nil {
			u.left++
		}
	}
}

// studied returns the use of the images of a job's study, if they are all made at full strength for others; else nil.
func (m *images) studied(j *plan.Job) *use {
	if !j.Studies() || j.Studied == nil || !m.whole {
		return nil
	}
	if u := m.uses[j.Studied.Key(j.Row(cell.None), "", m.plan.Config.Seed)]; u != nil && u.images {
		return u
	}
	return nil
}

// used ends one need of a key's images. The last one frees them.
func (m *images) used(k cell.Made) error {
	u := m.uses[k]
	if u.left--; u.left > 0 || u.made == nil {
		return nil
	}
	freed := u.made.vectors
	u.made = nil
	return m.free(craftKey(k), freed)
}

// free removes a key's images, after the journal notes that nobody needs them. A complete journal has none.
func (m *images) free(k folder.Key, images *journal.Vectors) error {
	if images == nil {
		return nil
	}
	_, err := folder.Once(m.journal, k.As("freed"), func() (bool, error) { return true, nil })
	if err != nil {
		return err
	}
	return images.Remove()
}

// lost has the freed images of a job made again. It returns false if that has already been done.
func (m *images) lost(j *plan.Job) bool {
	if m.again[studyKey(j)] {
		return false
	}
	m.again[studyKey(j)] = true
	m.plan.Each(func(s plan.Step) {
		for _, k := range s.Keys() {
			if s.Job == j {
				m.again[craftKey(k)] = true
			}
		}
	})
	return true
}

// craftKey returns the journal's key for the images of an attack.
func craftKey(k cell.Made) folder.Key { return folder.Key{Of: "attack", Made: k} }

// studyKey returns the key for images that are made for a study alone.
func studyKey(j *plan.Job) folder.Key {
	return suiteKey(j, "study", "")
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// adversarialName returns the name of the file of a trial's images. It is readable, and unique whatever the names
// contain.
func adversarialName(s plan.Step) string {
	parts := []string{s.Suite.Name, s.From.Model.Name, s.Trial.Name()}
	key := fmt.Appendf(nil, "%q %q %q %v", parts[0], parts[1], parts[2], s.Epsilon())
	if s.Attacked != cell.None { // made against this defense
		parts, key = append(parts, s.Attacked), fmt.Appendf(key, " %q", s.Attacked)
		if s.Suite.Modes != nil {
			parts, key = append(parts, s.Knows), fmt.Appendf(key, " %q", s.Knows)
		}
	}
	sum := sha256.Sum256(key)
	name := unsafeName.ReplaceAllString(strings.Join(append(parts, fmt.Sprintf("%.6g", s.Epsilon())), "_"), "-")
	return name + fmt.Sprintf("_%x.npy", sum[:4])
}

// adversarial saves a step's images as float32 [N, C, H, W], unless this run has saved them.
func (w *walk) adversarial(s plan.Step, made *crafted) error {
	name := "adversarial/" + adversarialName(s)
	w.index(s, path.Base(name))
	saved := w.journal.Block(folder.SavedKey(name))
	if known, ok := folder.SavedAs(saved); ok {
		if known.Is(w.out.Work(name)) {
			return nil
		}
		if known.Is(filepath.Join(w.out.Dir, name)) {
			w.out.Kept[name] = true
			return nil
		}
	}
	set, shape := w.at.Set, w.at.Classifiers[0].Shape
	image := func(i int) ([]float32, error) {
		_, x, err := made.read(set, i)
		return x, err
	}
	sum, err := save(w.out.Work(""), name, []int{set.Mine(), shape.C, shape.H, shape.W},
		func(row func([]float32) bool) error { return w.source.Adversarial(w.at.Job, name, image, row) })
	if err != nil {
		return err
	}
	return saved.Append(sum)
}

// madeOn identifies the cell of the classifier that a step's images were made against.
func madeOn(s plan.Step) cell.ID {
	id := s.Cell(s.Attacked)
	id.Model = s.From.Model.Name
	return id
}

// index adds a file of images to the index.
func (w *walk) index(s plan.Step, name string) {
	all, set := &w.out.Saved, w.at.Set
	if slices.ContainsFunc(all.Arrays, func(a result.SavedArray) bool { return a.File == name }) {
		return // another network of a suite in mode transfer gets the same images
	}
	all.Arrays = append(all.Arrays, result.SavedArray{File: name, ID: madeOn(s)})
	if all.Images == nil {
		all.Images = map[string][]result.SavedImage{}
	}
	if all.Images[s.Suite.Dataset] == nil {
		for _, i := range set.Places(nil) {
			all.Images[s.Suite.Dataset] = append(all.Images[s.Suite.Dataset],
				result.SavedImage{Image: set.ID(i), Label: set.Label(i), File: set.File(i)})
		}
	}
}

func save(dir, name string, shape []int, rows func(row func([]float32) bool) error) (c folder.Checksum, err error) {
	sum := checksum.New()
	err = atomicfile.In(dir).FillSynced(name, func(w io.Writer) error {
		var failed error
		err := npy.Write(io.MultiWriter(w, sum), shape, func(row func([]float32) bool) { failed = rows(row) })
		return cmp.Or(failed, err)
	})
	if err != nil {
		return c, fmt.Errorf("adversarial images: %w", err)
	}
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return c, err
	}
	return folder.Checksum{Bytes: info.Size(), Sum: sum.Sum32()}, nil
}
