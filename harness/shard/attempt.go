package shard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"selfheal/harness/folder"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/journal"
	"strings"
	"time"
)

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
// the work of the attempt that got farthest. Others may be at work meanwhile: a scheduler that thinks a node dead
// starts its work elsewhere. Names of hosts and numbers of processes may be the same then; a random name is its own.
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
