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
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
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

// findShares reads the shares that the first shard in a folder has written, if there are any.
func (r *run) findShares(dir string) error {
	path := sharesPath(dir, r.shard.N)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s := &shares{sum: fmt.Sprintf("%x", sha256.Sum256(data))}
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	if s.ConfigSHA256 != r.record.ConfigSHA256 || s.N != r.shard.N {
		return fmt.Errorf("%s is of another plan; %w", path, ErrOtherRun)
	}
	r.shares = s
	return nil
}

// share finds what work is this shard's, when everything has been opened once. Of shards that do so at once the first
// one's word counts.
func (r *run) share(ctx context.Context, dir string) error {
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
	if err = atomicfile.WriteSynced(own, data); err != nil {
		return err
	}
	defer os.Remove(own)
	if err = os.Link(own, path); err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(own, path) // a file system without links
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	return r.findShares(dir)
}

// How much is known of an image before it is attacked is known from one gradient. Of large sets it is taken
// of so many images; the others, which are alike then, are shared evenly.
const weighed = 1000

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
		costs, err := r.imageCosts(ctx, j)
		if err != nil {
			return nil, ConfigError{err}
		}
		for i, c := range costs {
			pieces = append(pieces, piece{len(s.Networks), i, c})
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

// imageCosts are what the images of a job's network cost, in all jobs that classify the same set by it.
func (r *run) imageCosts(ctx context.Context, j Job) ([]float64, error) {
	set, net, _, err := r.prepare(j)
	if err != nil {
		return nil, err
	}
	defer net.Close()
	glances, err := r.weigh(ctx, set, net)
	if err != nil {
		return nil, err
	}
	costs := make([]float64, set.Len())
	seen := map[craftKey]bool{}
	for _, same := range r.plan.Jobs {
		if same.Suite.Dataset != j.Suite.Dataset || same.Model.Name != j.Model.Name {
			continue
		}
		if err := r.addCosts(ctx, same, net, glances, seen, costs); err != nil {
			return nil, err
		}
	}
	for i, c := range costs {
		costs[i] = rounded(c * float64(net.FLOPs()))
	}
	return costs, nil
}

// weigh takes a gradient at the first images of a set.
func (r *run) weigh(ctx context.Context, set images, net *control.Network) ([]glance, error) {
	climbs := net.Prepare(attacks.Margin) == nil
	glances := make([]glance, min(set.Len(), weighed))
	err := r.forEach(ctx, len(glances), attackState(net.Shape()), func(ctx context.Context, i int) error {
		im, err := set.image(i)
		if err != nil {
			return err
		}
		e := attacks.Evaluation{Logits: make([]float32, net.Classes())}
		if climbs {
			err = net.Gradient(ctx, im.Pixels, attacks.Margin, im.Label, -1, &e)
		} else {
			err = net.Logits(ctx, im.Pixels, e.Logits)
		}
		glances[i] = glanceAt(&e, im.Label)
		return err
	})
	return glances, err
}

// addCosts adds what a job's images cost, in forward passes of the network alone.
func (r *run) addCosts(ctx context.Context, j Job, net *control.Network, glances []glance, seen map[craftKey]bool,
	costs []float64) error {
	price, answer := map[string]control.Cost{}, 0.0 // of attacks, by defense; of an answer under each control
	for _, defense := range append([]string{config.None}, j.Suite.Controls...) {
		who := alone(net)
		if defense != config.None {
			loop, err := r.controller(ctx, net, r.cfg.Control(defense), false)
			if err != nil {
				return err
			}
			defer loop.Close()
			who = under(loop, net)
			answer += who.Control.Passes
		}
		on, err := oracleOf(who, j.Suite.Mode)
		if err != nil {
			return err
		}
		price[defense] = on.cost
		on.close()
	}
	for i := range costs {
		costs[i] += 1 + answer
	}
	if j.studies() { // about what its solvers cost; the shard with the first image makes the study
		solvers := 3 + len(variants(control.Solver{}, j.Suite.Solver))
		costs[0] += float64(2*j.Suite.Solver.Images*solvers) * answer
	}
	for k := range j.needs(r.seeds()) {
		recipe, err := recipeFor(k.attack, net)
		if err != nil {
			return err
		}
		d := distances(glances, recipe.Norm, recipe.Epsilon, net.Shape().Size())
		verdict := !r.uses[k.craftKey].images && !recipe.Minimises
		stands, falls := 0.0, 0.0
		for n, c := range recipe.Components {
			f, b := c.Passes(net.Classes())
			p := price[k.defense]
			passes := float64(f)*p.Forward + 2*float64(b)*p.Backward
			if n == 0 {
				falls = passes
				if verdict {
					falls /= 10
				}
			}
			stands += passes
		}
		if seen[k.craftKey] {
			stands, falls = 0, 0
		}
		seen[k.craftKey] = true
		mean := 0.0
		for i := range costs {
			c := mean / float64(max(len(d), 1))
			if i < len(d) {
				if c = 0; d[i] != 0 {
					p := 0.5
					if d[i] > 0 {
						p = 1 / (1 + math.Pow(typical/rounded(d[i]), steep))
					}
					c = p*stands + (1-p)*(falls+answer)
				}
				mean += c
			}
			costs[i] += c
		}
	}
	return nil
}

// rounded keeps a step of the eighth root of 2.
func rounded(x float64) float64 {
	if x == 0 {
		return 0
	}
	return math.Exp2(math.Round(8*math.Log2(x)) / 8)
}
