package folder

import (
	"encoding/json"
	"path/filepath"
	"sync"
	"time"

	"selfheal/internal/atomicfile"
	"selfheal/internal/input"
)

// Status is a shard's progress. An image counts once for each attack on each network or closed loop.
type Status struct {
	Images   int       `json:"images"`
	Done     int       `json:"done"`   // of them; while an attack goes on, those that fell
	Robust   int       `json:"robust"` // of those that are done
	Updated  time.Time `json:"updated"`
	Finished bool      `json:"-"` // as the plan beside it says
}

// statusFile, in a shard's work folder, has its status, written about every ten seconds.
const statusFile = "status.json"

// ReadStatus reads a shard's status in its work folder. ok is false if it is unreadable, as when an attempt begins or
// ends.
func ReadStatus(work string) (s Status, ok bool) {
	p, err := ReadPlan(filepath.Join(work, PlanFile))
	if err != nil {
		return s, false
	}
	data, _ := input.Read(filepath.Join(work, statusFile), mostPlan)
	if json.Unmarshal(data, &s) != nil {
		s = Status{}
	}
	s.Finished = p.Run.Finished != nil
	return s, true
}

// Tally counts for a shard's status. A nil Tally counts nothing.
type Tally struct {
	dir      atomicfile.Folder
	mu       sync.Mutex
	status   Status
	own      int // images of the present attack
	standing int // those of them that stand
}

// Tally returns the tally of a shard that attacks so many images in all.
func (f *Folder) Tally(images int) *Tally {
	return &Tally{dir: atomicfile.In(f.Work("")), status: Status{Images: images}}
}

// At notes how many images of the present attack stand, and with over that the attack is done.
func (t *Tally) At(own, standing int, over bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own, t.standing = own, standing; over {
		t.status.Done, t.status.Robust, t.own, t.standing = t.status.Done+own, t.status.Robust+standing, 0, 0
	}
}

// Write writes the status. That it can't be written ends nothing.
func (t *Tally) Write() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.status
	now.Done, now.Updated = now.Done+t.own-t.standing, time.Now().UTC()
	if data, err := json.Marshal(now); err == nil {
		_ = t.dir.Write(statusFile, data)
	}
}
