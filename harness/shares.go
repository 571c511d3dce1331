package harness

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"selfheal/harness/dataset"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
)

// shares say which shard each image of a network belongs to. All shards of a plan have the same.
type shares struct {
	ConfigSHA256 string  `json:"config_sha256"`
	N            int     `json:"shards"`
	Networks     []owned `json:"networks"`
	// Datasets are what was found of each by reading it whole, so that a shard reads its own images only.
	Datasets map[string]*dataset.Digest `json:"datasets"`
	sum      string                     // SHA-256 of the file
}

// owned are the shards, from 1, of the images of a data set that a network classifies.
type owned struct {
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Owner   []int  `json:"owner"`
}

// of are the owners of a job's images.
func (s *shares) of(j Job) []int {
	for _, o := range s.Networks {
		if o.Dataset == j.Suite.Dataset && o.Model == j.Model.Name {
			return o.Owner
		}
	}
	return nil
}

// sharesPath is where the shares of so many shards lie: in the output folder, beside the folders of the shards. The
// first shard there writes it, so that shards with a folder in common can't disagree.
func sharesPath(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("shares-of-%d.json", n))
}

// findShares reads the shares that the first shard in a folder has written, if there are any. With force those of
// another plan do not count.
func (r *run) findShares(dir string, force bool) error {
	path := sharesPath(dir, r.shard.N)
	data, err := input.Read(path, mostPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	s := &shares{sum: fmt.Sprintf("%x", sha256.Sum256(data))}
	text, err := checked(data)
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	switch other := s.ConfigSHA256 != r.record.ConfigSHA256 || s.N != r.shard.N; {
	case force && (err != nil || other):
	case err != nil:
		return fmt.Errorf("%s is damaged; choose another --out or add --force", path)
	case other:
		return fmt.Errorf("%s is of another plan: another config, --suite, --limit or --set; %w", path, ErrOtherRun)
	default:
		r.shares = s
	}
	return nil
}

// share finds what work is this shard's, when everything has been opened once. Of shards that do so at once the first
// one's word counts.
func (r *run) share(ctx context.Context, dir string, force bool) error {
	if r.shares != nil {
		return nil
	}
	data, err := r.estimateShares(ctx)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	path := sharesPath(dir, r.shard.N)
	own := fmt.Sprintf("%s.%08x", path, rand.Uint32())
	folder, name := atomicfile.At(own)
	err = folder.WriteSynced(name, withSum(data))
	defer os.Remove(own)
	if err == nil {
		err = os.Link(own, path)
		there := errors.Is(err, fs.ErrExist)
		if there && force {
			if err = r.findShares(dir, true); r.shares != nil {
				return nil // another shard's, which does so too
			}
		}
		if err != nil && !there || there && force {
			err = os.Rename(own, path) // another plan's, or a file system without links
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	return r.findShares(dir, false)
}

// piece is an image of a network, and what it will cost, in floating-point operations of forward passes.
type piece struct {
	network, image int
	cost           float64
}

// estimateShares deals a plan's work out so that every shard has about as much of it: the costly images first, each
// to the shard that has least so far. Costs are rounded, so that the last digits of a processor do not matter.
func (r *run) estimateShares(ctx context.Context) ([]byte, error) {
	s := shares{ConfigSHA256: r.record.ConfigSHA256, N: r.shard.N, Datasets: map[string]*dataset.Digest{}}
	for key, d := range r.sets {
		s.Datasets[key] = new(d.Digest())
	}
	var pieces []piece
	for _, j := range r.plan.Jobs {
		if s.of(j) != nil {
			continue
		}
		a, err := r.appraise(ctx, j)
		if err != nil {
			return nil, ConfigError{err}
		}
		costs := a.costs()
		for i, c := range costs {
			pieces = append(pieces, piece{len(s.Networks), i, rounded(c * float64(a.net.FLOPs()))})
		}
		s.Networks = append(s.Networks, owned{j.Suite.Dataset, j.Model.Name, make([]int, len(costs))})
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(b.cost, a.cost) })
	loads := make(loads, s.N)
	for i := range loads {
		loads[i].shard = i + 1
	}
	for _, p := range pieces {
		least := &loads[0]
		s.Networks[p.network].Owner[p.image] = least.shard
		least.cost += p.cost
		heap.Fix(loads, 0)
	}
	return json.Marshal(s)
}

// loads is a heap of shards by what they have; of equals the first comes first.
type loads []struct {
	shard int
	cost  float64
}

func (l loads) Len() int { return len(l) }
func (l loads) Less(i, k int) bool {
	return cmp.Or(cmp.Compare(l[i].cost, l[k].cost), cmp.Compare(l[i].shard, l[k].shard)) < 0
}
func (l loads) Swap(i, k int) { l[i], l[k] = l[k], l[i] }
func (l loads) Push(any)      {} // the shards stay
func (l loads) Pop() any      { return nil }
