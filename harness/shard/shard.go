// Package shard runs a plan in parts. [Run] does one shard, in a folder beside the others; [Merge] makes the results
// out of the shards' journals; [Submit] runs all shards as jobs of a cluster, submits failed ones again and merges.
// The results equal those of a run of the whole plan, whatever shards were stopped, repeated or done twice.
package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"selfheal/control/pca"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/harness/run"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/journal"
)

// Run does a shard of a plan, in a folder of o.Out. If attempt is set, it works in a folder of its own, beside other
// attempts at that shard. It ignores o.Report, as a shard has no results of its own.
func Run(ctx context.Context, p *plan.Plan, s plan.Shard, attempt bool, o run.Options) error {
	// All shards share fitted embeddings, as fits on several kinds of processor differ in their last digits.
	o.Cache = &pca.Cache{Dir: filepath.Join(o.Out, "fits")}
	for _, name := range []string{"fits", s.Folder()} {
		if _, there := os.Lstat(filepath.Join(o.Out, name)); there == nil { // it may be a link
			if err := atomicfile.In(o.Out).Make(name); err != nil {
				return fmt.Errorf("output folder %s: %w", filepath.Join(o.Out, name), err)
			}
		}
	}
	var err error
	if o.Part, err = partOf(p, s, filepath.Join(o.Out, s.Folder()), o); err != nil {
		return err
	}
	if attempt {
		if o.Part.Dir, err = newAttempt(o.Part.Dir); err != nil {
			return err
		}
	}
	_, err = run.Run(ctx, p, o)
	return err
}

// partOf returns the part for a shard in a folder, with the known digests of the data sets.
func partOf(p *plan.Plan, s plan.Shard, dir string, o run.Options) (*run.Part, error) {
	known, err := readDigests(o.Out, p, o.Force)
	return &run.Part{Shard: s, Dir: dir, Known: known, Read: func(sets map[string]*dataset.Dataset) error {
		for key, set := range sets {
			if d := known[key]; d == nil || d.SHA256 == set.SHA256() {
				continue
			}
			if !o.Force {
				return fmt.Errorf("%s is of other images of data set %s; %w", filepath.Join(o.Out, digestsFile),
					path.Dir(key), folder.ErrOtherRun)
			}
			known = nil
		}
		if known != nil {
			return nil
		}
		return writeDigests(o.Out, p, sets)
	}}, err
}

// digestsFile has the digests of a plan's data sets, so that later shards read only their own images.
const digestsFile = "datasets.json"

type digests struct {
	ConfigSHA256 string                     `json:"config_sha256"`
	Datasets     map[string]*dataset.Digest `json:"datasets"`
}

// readDigests reads another shard's digests. It returns nil if there are none and, with force, if they are another
// plan's.
func readDigests(dir string, p *plan.Plan, force bool) (map[string]*dataset.Digest, error) {
	file := filepath.Join(dir, digestsFile)
	var d digests
	err := folder.ReadSummed(file, &d)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil && !errors.Is(err, folder.ErrDamaged):
		return nil, fmt.Errorf("%s: %w", file, fault.Reason(err))
	}
	switch other := d.ConfigSHA256 != p.Config.Hash(); {
	case force && (err != nil || other):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s is damaged; %w", file, folder.ErrOtherRun)
	case other:
		return nil, fmt.Errorf("%s is of another plan: another config, --suite, --limit or --set; %w", file,
			folder.ErrOtherRun)
	}
	return d.Datasets, nil
}

// writeDigests writes the digests of open data sets. Shards that do so at once write the same.
func writeDigests(dir string, p *plan.Plan, sets map[string]*dataset.Dataset) error {
	d := digests{p.Config.Hash(), map[string]*dataset.Digest{}}
	for key, set := range sets {
		d.Datasets[key] = new(set.Digest())
	}
	return fault.At(filepath.Join(dir, digestsFile), fault.Reason(folder.WriteSummed(dir, digestsFile, d)))
}

// statusOf returns the progress of a shard in a run's folder, by its best attempt, or nil if none has begun.
func statusOf(dir string, s plan.Shard) (best *folder.Status) {
	for _, pattern := range []string{"", attemptPrefix + "*"} {
		for _, work := range within(filepath.Join(dir, s.Folder()), pattern, folder.WorkFolder) {
			one, ok := folder.ReadStatus(work)
			if ok && (best == nil || one.Finished || one.Done > best.Done && !best.Finished) {
				best = &one
			}
		}
	}
	return best
}

// attemptPrefix begins the name of an attempt's folder in the shard's folder.
const attemptPrefix = "attempt-"

// shardFolder returns the folder of the shard that a run did in dir, which may be an attempt's folder.
func shardFolder(dir string) string {
	if strings.HasPrefix(filepath.Base(dir), attemptPrefix) {
		dir = filepath.Dir(dir)
	}
	return filepath.Clean(dir)
}

// newAttempt returns the folder of a shard's finished attempt, or makes a new one with a copy of the work of the
// attempt that got farthest. Others may be at work, if a scheduler thinks a node dead, so its name is random.
func newAttempt(shard string) (dir string, err error) {
	dir = filepath.Join(shard, fmt.Sprintf("%s%s-%08x", attemptPrefix, time.Now().UTC().Format("20060102T150405"),
		rand.Uint32()))
	before, most := "", int64(0)
	for _, other := range within(shard, attemptPrefix+"*") {
		plan, err := folder.ReadPlan(filepath.Join(other, folder.WorkFolder, folder.PlanFile))
		if err != nil {
			continue // it has just begun
		}
		if plan.Run.Finished != nil {
			return other, nil
		}
		info, err := os.Stat(filepath.Join(other, folder.WorkFolder, journal.File))
		if err == nil && info.Size() > most {
			before, most = other, info.Size()
		}
	}
	if err = atomicfile.In(dir).Make(folder.WorkFolder); err != nil || before == "" {
		return dir, err
	}
	// The journal comes before the files that it names, and the plan last: a merge ignores a folder without plan.
	for _, pattern := range []string{journal.File, "*" + journal.VectorsSuffix, "adversarial/*.npy", folder.PlanFile} {
		for _, name := range within(before, folder.WorkFolder, pattern) {
			rel, err := filepath.Rel(before, name)
			if err == nil {
				err = atomicfile.In(dir).FillSynced(filepath.ToSlash(rel), atomicfile.From(name))
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return dir, fmt.Errorf("%s: %w", dir, fault.Reason(err))
			}
		}
	}
	return dir, nil
}
