package run

import (
	"slices"

	"selfheal/harness/config"
	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/internal/journal"
)

// Images says of the keys of a plan whether their images are needed, at an attack's full strength, or verdicts alone.
func Images(p *plan.Plan) map[plan.Key]bool {
	needed := map[plan.Key]bool{}
	p.Each(func(s plan.Step) {
		given := s.Oblivious() && len(s.Suite.Controls) > 0 // to every control
		asked := slices.ContainsFunc(s.Trials, func(t plan.Trial) bool { return t.Samples() > 0 })
		kept := s.Suite.SaveAdversarial || asked // on disk, or for smoothed classifiers
		for _, k := range s.Keys() {
			needed[k] = needed[k] || given || s.First && kept
		}
	})
	return needed
}

// images are those that a run's attacks make, as long as steps need them: those of a whole run would fill the disk.
type images struct {
	plan    *plan.Plan
	whole   bool // no part, which has made only some of them
	journal *folder.Journal
	uses    map[plan.Key]*use
	again   map[folder.Key]bool // whose images were freed too early
}

// use is how a run needs the images of a key.
type use struct {
	left   int      // steps that still need them
	images bool     // some step needs the adversarial images, not the verdicts alone
	made   *crafted // nil before the first and after the last step
}

// reserve notes what the steps of a walk will ask for.
func (m *images) reserve() {
	m.uses = map[plan.Key]*use{}
	images := Images(m.plan)
	m.plan.Each(func(s plan.Step) {
		for _, k := range s.Keys() {
			if m.uses[k] == nil {
				m.uses[k] = &use{images: images[k]}
			}
			m.uses[k].left++
		}
	})
	for _, j := range m.plan.Jobs { // studies take the images that are made anyway
		if u := m.studied(j); u != nil {
			u.left++
		}
	}
}

// studied is the use of the images that a job's study needs, where all of them are made at full strength for others;
// else nil.
func (m *images) studied(j *plan.Job) *use {
	if !j.Studies() || j.Studied == nil || !m.whole {
		return nil
	}
	if u := m.uses[j.Studied.Key(j, config.None, m.plan.Config.Seed)]; u != nil && u.images {
		return u
	}
	return nil
}

// used says that one need of a key's images is met. After the last one they are freed.
func (m *images) used(k plan.Key) error {
	u := m.uses[k]
	if u.left--; u.left > 0 || u.made == nil {
		return nil
	}
	freed := u.made.images
	u.made = nil
	return m.free(craftKey(k), freed)
}

// free removes a key's images, once the journal says that nobody needs them. There are none where it is complete.
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

// lost has the images of a job, which are freed, made again. It returns false where they were.
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

// craftKey is the journal's, of images that an attack makes.
func craftKey(k plan.Key) folder.Key { return folder.Key{Of: "attack", Key: k} }

// studyKey is that of images which are made for a study alone.
func studyKey(j *plan.Job) folder.Key {
	return folder.Key{Of: "study", Suite: j.Suite.Name, Key: plan.Key{Model: j.Model.Name}}
}
