// Package shard does a plan in parts: a shard of it, in a folder beside the others, the merge of what they leave, and
// the jobs of a cluster that run them.
package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"selfheal/internal/input"
	"selfheal/internal/journal"
)

// Run does a shard of a plan, in a folder of o.Out. With attempt set it works beside whoever else does that shard, in a
// folder of its own. It ignores o.Report: a shard has no results of its own.
func Run(ctx context.Context, p *plan.Plan, s plan.Shard, attempt bool, o run.Options) error {
	// Fitted embeddings go to all shards: fits on several kinds of processor differ in their last digits.
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

// partOf is a part of the plan that is done in a folder, with what is known of the data sets.
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

// digestsFile has the digests of a plan's data sets, so that later shards read their own images only.
const digestsFile = "datasets.json"

type digests struct {
	ConfigSHA256 string                     `json:"config_sha256"`
	Datasets     map[string]*dataset.Digest `json:"datasets"`
}

// readDigests reads what another shard has written; nil for nothing, and with force for that of another plan.
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

// writeDigests writes those of data sets that are open. Shards that do so at once write the same.
func writeDigests(dir string, p *plan.Plan, sets map[string]*dataset.Dataset) error {
	d := digests{p.Config.Hash(), map[string]*dataset.Digest{}}
	for key, set := range sets {
		d.Datasets[key] = new(set.Digest())
	}
	if err := folder.WriteSummed(dir, digestsFile, d); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, digestsFile), fault.Reason(err))
	}
	return nil
}

// statusOf is how far a shard of a run in a folder is, by its best attempt; nil where none has begun.
func statusOf(dir string, s plan.Shard) (best *folder.Status) {
	shard := escaped(filepath.Join(dir, s.Folder()))
	for _, pattern := range []string{"", attemptPrefix + "*"} {
		plans, _ := filepath.Glob(filepath.Join(shard, pattern, folder.WorkFolder, folder.PlanFile))
		for _, name := range plans {
			one, ok := folder.ReadStatus(filepath.Dir(name))
			if ok && (best == nil || one.Finished || one.Done > best.Done && !best.Finished) {
				best = &one
			}
		}
	}
	return best
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

// newAttempt finds the attempt at a shard that is finished, or makes the folder of a new one and copies there the work
// of the one that got farthest. Others may be at work, when a scheduler thinks a node dead: a name is random.
func newAttempt(shard string) (dir string, err error) {
	dir = filepath.Join(shard, fmt.Sprintf("%s%s-%08x", attemptPrefix, time.Now().UTC().Format("20060102T150405"),
		rand.Uint32()))
	before, most := "", int64(0)
	others, _ := filepath.Glob(filepath.Join(escaped(shard), attemptPrefix+"*"))
	for _, other := range others {
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
	// The journal before the files that it names, and the plan last: a merge takes no notice of a folder without.
	for _, pattern := range []string{journal.File, "*" + journal.VectorsSuffix, "adversarial/*.npy", folder.PlanFile} {
		names, err := filepath.Glob(filepath.Join(escaped(before), folder.WorkFolder, pattern))
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
