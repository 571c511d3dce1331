package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/journal"
)

// A plan's work is split by image and network: whatever concerns an image of one network is one shard's, from
// the clean answer through all attacks to the answers under control. Nothing in it depends on other images,
// so that shards need nothing of each other. What does depend on all of them, the cells foremost, is made by a
// [Merge] from the shards' journals. What is done once for a whole set (probes, solver studies) is done by
// the shard that has its first image.

// Shard is one of N parts of a plan's work, counted from 1. The zero value is the whole plan.
type Shard struct {
	I int `json:"shard"`
	N int `json:"of"`
}

// String is the shard as --shard takes it.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.I, s.N) }

// ParseShard reads I/N; "" is the whole plan.
func ParseShard(text string) (s Shard, err error) {
	if text == "" {
		return s, nil
	}
	i, n, _ := strings.Cut(text, "/")
	if s.I, err = strconv.Atoi(i); err == nil {
		s.N, err = strconv.Atoi(n)
	}
	if err != nil || s.I < 1 || s.N < s.I || s.N > MaxShards {
		return s, fmt.Errorf("%q must be I/N, I from 1 to N, N at most %d", text, MaxShards)
	}
	return s, nil
}

// MaxShards is more than any plan has work for.
const MaxShards = 1_000_000

// folder is where a shard's work lies in a run's output folder.
func (s Shard) folder() string {
	width := len(fmt.Sprint(s.N))
	return fmt.Sprintf("shard-%0*d-of-%d", width, s.I, s.N)
}

// subjectKey is the journal's, of what a merge needs to know of a classifier.
func subjectKey(j Job, defense string) string {
	return fmt.Sprintf("classifier %q %q %q", j.Suite.Name, j.Model.Name, defense)
}

// keep has the journal keep what a merge needs of a job: what its classifiers are, and the ids and labels of this
// shard's images.
func (r *run) keep(b *bench) error {
	for _, c := range b.classifiers {
		_, err := once(r, subjectKey(b.Job, c.defense()), func() (subject, error) { return c.subject, nil })
		if err != nil {
			return err
		}
	}
	held := map[int]bool{}
	names, err := recall(r.journal, imagesKey(b.Job), func(i int, _ imageName) { held[i] = true })
	for i := 0; i < b.set.Len() && err == nil; i++ {
		if b.set.own(i) && !held[i] {
			err = names.done(i, imageName{b.set.ID(i), b.set.Label(i)})
		}
	}
	return err
}

// imagesKey is the journal's, of the ids and labels of the images of a network that are a shard's.
func imagesKey(j Job) string { return fmt.Sprintf("images %q %q", j.Suite.Dataset, j.Model.Name) }

// oracle is what a job's attacks on a classifier ask. Close it before the classifier.
func (r *run) oracle(b *bench, c classifier) (*oracle, error) {
	key := fmt.Sprintf("cost %q %q %q", b.Suite.Name, b.Model.Name, c.defense())
	if r.merging {
		cost, err := once(r, key, func() (cost control.Cost, err error) { return cost, nil })
		return &oracle{Oracle: closed{c.subject}, of: c, cost: cost, close: func() {}}, err
	}
	on, err := b.oracle(c)
	if err == nil && r.shard.N > 0 {
		_, err = once(r, key, func() (control.Cost, error) { return on.cost, nil })
	}
	return on, err
}

// closed is the oracle of a network that is not open.
type closed struct{ subject }

func (c closed) Shape() attacks.Shape { return c.subject.Shape }
func (c closed) Classes() int         { return c.subject.Classes }

func (c closed) Logits(context.Context, []float32, []float32) error { return lacks{what: c.String()} }

func (c closed) Gradient(context.Context, []float32, attacks.Loss, int, int, *attacks.Evaluation) error {
	return lacks{what: c.String()}
}

// lacks is the error about work that no shard has done.
type lacks struct {
	shard int
	image int    // its id
	what  string // what is done once
}

// Error says which shard lacks it, where that is known.
func (l lacks) Error() string {
	if l.what != "" {
		return fmt.Sprintf("no shard has what is done once for a whole set (%s): run them again, they continue", l.what)
	}
	return fmt.Sprintf("shard %d lacks image %d: run it again, it continues", l.shard, l.image)
}

// recorded is a job's bench in a merge.
func (r *run) recorded(j Job) (*bench, error) {
	b := &bench{Job: j}
	for _, defense := range append([]string{config.None}, j.Suite.Controls...) {
		known, err := once(r, subjectKey(j, defense), func() (s subject, err error) { return s, nil })
		if err != nil {
			return nil, err
		}
		b.classifiers = append(b.classifiers, classifier{subject: known})
	}
	b.set = images{n: r.record.Datasets[j.Suite.Dataset].N, owner: r.shares.of(j)}
	b.set.known = make([]imageName, b.set.n)
	if _, err := recall(r.journal, imagesKey(j), func(i int, name imageName) {
		if i >= 0 && i < b.set.n {
			b.set.known[i] = name
		}
	}); err != nil {
		return nil, err
	}
	for _, a := range j.Attacks {
		recipe, err := a.Recipe(b.classifiers[0].Classes, b.classifiers[0].Shape)
		if err != nil {
			return nil, err
		}
		b.recipes = append(b.recipes, recipe)
	}
	return b, nil
}

// attemptPrefix begins the name of the folder of an attempt at a shard, in the shard's.
const attemptPrefix = "attempt-"

// shardFolder is the folder of the shard that a run did in a folder, which may be an attempt's in it.
func shardFolder(dir string) string {
	if strings.HasPrefix(filepath.Base(dir), attemptPrefix) {
		dir = filepath.Dir(dir)
	}
	return filepath.Clean(dir)
}

// newAttempt finds the attempt at a shard that is finished. Else it makes the folder of a new one, and copies into it
// what the attempt before it that got farthest has done. Others may be at work meanwhile: a scheduler that thinks a
// node dead starts its work elsewhere. Names of hosts and numbers of processes may be the same then; a random name is
// its own.
func newAttempt(shard string) (dir string, err error) {
	dir = filepath.Join(shard, fmt.Sprintf("%s%s-%08x", attemptPrefix, time.Now().UTC().Format("20060102T150405"),
		rand.Uint32()))
	before, most := "", int64(0)
	others, _ := filepath.Glob(filepath.Join(escaped(shard), attemptPrefix+"*"))
	for _, other := range others {
		plan, err := readPlan(filepath.Join(other, workFolder, planFile))
		if err != nil {
			continue // it has just begun
		}
		if plan.Run.Finished != nil {
			return other, nil
		}
		info, err := os.Stat(filepath.Join(other, workFolder, journal.File))
		if err == nil && info.Size() > most {
			before, most = other, info.Size()
		}
	}
	if err = atomicfile.In(dir).Make(workFolder); err != nil || before == "" {
		return dir, err
	}
	// The journal before the files that it names, and the plan last: a merge takes no notice of a folder without.
	for _, pattern := range []string{journal.File, "*" + journal.VectorsSuffix, "adversarial/*.npy", planFile} {
		names, err := filepath.Glob(filepath.Join(escaped(before), workFolder, pattern))
		if err != nil {
			return dir, err
		}
		for _, name := range names {
			rel, err := filepath.Rel(before, name)
			if err == nil {
				err = copyFile(name, filepath.Join(dir, rel))
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return dir, fmt.Errorf("%s: %w", dir, fault.Reason(err))
			}
		}
	}
	return dir, nil
}

// copyFile copies a file.
func copyFile(from, to string) error {
	f, err := input.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	dir, name := atomicfile.At(to)
	if err := dir.Make("."); err != nil {
		return err
	}
	return dir.FillSynced(name, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}
