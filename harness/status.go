package harness

import (
	"encoding/json"
	"path/filepath"
	"sync"
	"time"

	"selfheal/internal/atomicfile"
	"selfheal/internal/input"
)

// Status is how far a shard is. An image counts once for each attack on each network or closed loop.
type Status struct {
	Images   int       `json:"images"`
	Done     int       `json:"done"`   // of them; while an attack goes on, those that fell
	Robust   int       `json:"robust"` // of those that are done
	Left     *float64  `json:"seconds_left,omitempty"`
	Updated  time.Time `json:"updated"`
	Finished bool      `json:"-"` // which the plan beside it says
}

// statusFile, in a shard's work folder, has its status, about every ten seconds.
const statusFile = "status.json"

// tally counts for a shard's status.
type tally struct {
	path string
	mu   sync.Mutex
	Status
	own      int // images of the crafting that is under way
	standing int // of them
}

// expecting counts what a shard has to craft.
func (r *run) expecting() *tally {
	t := &tally{path: r.out.work(statusFile)}
	for j := range r.plan.crafts() {
		t.Images += howMany(r.shares.of(j), func(shard int) bool { return shard == r.shard.I })
	}
	return t
}

// at notes how many images of the crafting under way stand; over, that it is done.
func (t *tally) at(own, standing int, over bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own, t.standing = own, standing; over {
		t.Done, t.Robust, t.own, t.standing = t.Done+own, t.Robust+standing, 0, 0
	}
}

// write writes the status. That it can't be written ends nothing.
func (t *tally) write(left *time.Duration) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Status
	now.Done, now.Updated = now.Done+t.own-t.standing, time.Now().UTC()
	if left != nil {
		now.Left = new(left.Seconds())
	}
	if data, err := json.Marshal(now); err == nil {
		dir, name := atomicfile.At(t.path)
		_ = dir.Write(name, data)
	}
}

// ShardStatus is how far a shard of a run in a folder is, by the attempt at it that got farthest. It is nil where none
// has begun. What can't be read tells nothing: an attempt may be beginning or ending.
func ShardStatus(dir string, s Shard) (best *Status) {
	shard := escaped(filepath.Join(dir, s.folder()))
	for _, pattern := range []string{"", attemptPrefix + "*"} {
		plans, _ := filepath.Glob(filepath.Join(shard, pattern, workFolder, planFile))
		for _, name := range plans {
			plan, err := readPlan(name)
			if err != nil {
				continue
			}
			var one Status
			data, _ := input.Read(filepath.Join(filepath.Dir(name), statusFile), mostPlan)
			if json.Unmarshal(data, &one) != nil {
				one = Status{}
			}
			if one.Finished = plan.Run.Finished != nil; best == nil || one.Finished ||
				one.Done > best.Done && !best.Finished {
				best = &one
			}
		}
	}
	return best
}
