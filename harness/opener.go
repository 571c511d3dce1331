package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/fault"
	"selfheal/internal/memory"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// opener opens what a config names. It keeps the data sets that it has opened and, of
// everything, what results say of it.
type opener struct {
	cfg      *config.Config
	pool     *ort.Pool
	cache    *pca.Cache // of fitted embeddings; nil for none
	together bool       // the cache is that of the shards of a run
	shares   *shares    // which shard does what; nil where there are none
	progress *Progress
	sets     map[string]*dataset.Dataset
	record   *result.File // its data sets, models and fits are those that were opened
}

// What is free of the memory and what the process holds of it, in bytes; variables for tests.
var freeMemory, residentMemory = memory.Free, memory.Resident

// newOpener makes an opener with the pool that the config asks for. A device that does not
// compute is a [ConfigError].
func newOpener(cfg *config.Config, cache *pca.Cache, progress *Progress) (*opener, error) {
	if progress == nil {
		progress = &Progress{}
	}
	options := []ort.PoolOption{ort.Threads(cfg.Runtime.Threads), ort.Within(ort.Memory{
		Free: freeMemory, Resident: residentMemory,
		Lowered: func(l ort.Lowering) { progress.report(batchLowered{l}) }})}
	on := cfg.Runtime.Target()
	if err := on.Check(); err != nil {
		return nil, ConfigError{fmt.Errorf("runtime.provider %s: %w", on.Provider, err)}
	}
	options = append(options, ort.On(on))
	record := &result.File{Datasets: map[string]result.Dataset{}, Images: map[string]result.Images{},
		Models: map[string]result.Model{}, Attacks: map[string]result.Attack{},
		Controls: map[string]result.Control{}, Cells: []result.Cell{}}
	for _, c := range cfg.Controls {
		record.Controls[c.Name] = recorded(c)
	}
	pool := ort.NewPool(cfg.Runtime.Workers, cfg.Runtime.Batch, options...)
	return &opener{cfg: cfg, pool: pool, cache: cache, progress: progress, sets: map[string]*dataset.Dataset{},
		record: record}, nil
}

func (o *opener) close() {
	o.pool.Close()
	for _, d := range o.sets {
		d.Close()
	}
}

// ConfigError is what is wrong with what a config names: a file that is absent
// or no model, images that don't fit it, a network without gradients, a device
// that does not compute.
type ConfigError struct{ error }

// Unwrap returns the error itself.
func (e ConfigError) Unwrap() error { return e.error }

// forEach is [control.ForEach] with no more images under way than their state, in
// bytes an image, allows.
func (o *opener) forEach(ctx context.Context, n int, state int64, fn func(ctx context.Context, i int) error) error {
	return control.ForEach(ctx, o.pool, n, inFlight(o.pool, state), fn)
}

// stateBudget bounds the memory, in bytes, of all images that are under way at
// once: what attacks and closed loops keep for them in Go, besides the batches
// that the pool's workers hold. At 32×32 pixels it is no bound; at 224×224 two
// batches of 64 a worker would be 10 MB an image, gigabytes together.
const stateBudget = 256 << 20

// attackVectors is how many vectors of the image's size an attack keeps for an
// image, at most: APGD in ℓ1, with the two float64 ones of its projection.
const attackVectors = 16

// attackState is what an attack keeps for an image, in bytes.
func attackState(s attacks.Shape) int64 { return 4 * attackVectors * int64(s.Size()) }

// loopState is what a closed loop keeps for an image, in bytes: each segment's
// input, the same controlled and its control, and, at the widest place, an
// adjoint, the one before it and the momentum.
func loopState(chain *control.Chain) int64 {
	var sum, widest int64
	for t := range chain.Segments {
		n := chain.StateShape(t).Items()
		sum, widest = sum+n, max(widest, n)
	}
	return 4 * (3*sum + 3*widest)
}

// inFlight is how many images of so many bytes of state may be under way: what
// the budget allows, but two a worker, or the workers would wait for each other.
// A device computes whole batches, with images or without, so there the budget is
// a quarter of the memory that is free where that is more.
func inFlight(pool *ort.Pool, state int64) int {
	budget := int64(stateBudget)
	if free, known := freeMemory(); known && pool.OnDevice() {
		budget = max(budget, free/4)
	}
	return int(max(2*int64(pool.Workers()), budget/max(1, state)))
}

// scored opens the data set that a suite scores, cut to --limit.
func (o *opener) scored(name string) (images, error) {
	d, err := o.open(name, o.cfg.Limit)
	if err != nil {
		return images{}, err
	}
	spec := o.cfg.Dataset(name).Spec
	limit := spec.Limit
	if o.cfg.Limit > 0 && (limit == 0 || o.cfg.Limit < limit) {
		limit = o.cfg.Limit
	}
	o.record.Datasets[name] = result.Dataset{N: d.Len(), SHA256: d.SHA256(), Format: spec.Format, Limit: limit,
		Indices: spec.Indices, Classes: spec.Classes, ClassNames: d.ClassNames(),
		Shaping: spec.Shaping}
	o.record.Images[name] = d.Images()
	if left := d.LeftOut(); left.Classes > 0 || left.Files > 0 {
		known := o.record.Datasets[name]
		known.LeftOut = &left
		o.record.Datasets[name] = known
	}
	return images{Dataset: d, n: d.Len()}, nil
}

// open opens a data set once for each limit.
func (o *opener) open(name string, limit int) (*dataset.Dataset, error) {
	key := fmt.Sprintf("%s/%d", name, limit)
	if d, ok := o.sets[key]; ok {
		return d, nil
	}
	var known *dataset.Digest
	if o.shares != nil {
		known = o.shares.Datasets[key]
	}
	d, err := dataset.OpenKnown(o.cfg.Dataset(name).Spec, o.cfg.Files, limit, known)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", name, err)
	}
	o.sets[key] = d
	return d, nil
}

// readModel reads a model file that a config names, with the weights that lie beside it.
func readModel(files fs.FS, path string) (*onnx.File, error) {
	if folder, ok := files.(config.Folder); ok {
		f, err := onnx.Read(folder.Path(path))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err)) // under the name that the config gives it
		}
		return f, nil
	}
	f, err := onnx.ReadFS(files, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	return f, nil
}

// network opens a model, as it is judged or as it is attacked.
func (o *opener) network(m *config.Model, attacked bool) (*control.Network, error) {
	return o.networkOn(o.pool, m, attacked)
}

// networkOn is network on a pool.
func (o *opener) networkOn(pool *ort.Pool, m *config.Model, attacked bool) (*control.Network, error) {
	file, err := readModel(o.cfg.Files, m.Path)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	if m.SHA256 != "" && !strings.EqualFold(m.SHA256, file.SHA256) {
		return nil, fmt.Errorf("model %s: %s has SHA-256 %s, the config says %s", m.Name, m.Path, file.SHA256, m.SHA256)
	}
	n, err := control.NewNetwork(pool, m.Name, file.Data, control.NetworkOptions{
		Options: simplify.Options{Scale: float32(m.Scale), Mean: float32s(m.Mean), Std: float32s(m.Std),
			Layout: m.Layout, Output: m.OutputName},
		Probabilities: m.Output == "probabilities", At: m.SplitAt,
		Direct:   !o.cfg.Runtime.Winograd || unrewritten(o.cfg, m.Name) || o.pool.Row(attacked).Direct,
		Attacked: attacked})
	if err != nil {
		return nil, fmt.Errorf("model %s (%s): %w", m.Name, m.Path, err)
	}
	known := identified(m, file.SHA256)
	known.Parameters, known.Segments, known.FLOPs = n.Parameters, len(n.Boundaries)+1, n.FLOPs()
	o.record.Models[m.Name] = known
	return n, nil
}

// identified is what the config and a file's hash tell of a model.
func identified(m *config.Model, sha256 string) result.Model {
	known := result.Model{SHA256: sha256, Layout: m.Layout, Output: m.Output, OutputName: m.OutputName,
		Split: m.SplitAt}
	if m.Mean != nil {
		known.Preprocess = &result.Preprocess{Scale: m.Scale, Mean: m.Mean, Std: m.Std}
	}
	return known
}

func float32s(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

// prepare opens a job's images and network and makes its recipes. Close it.
func (o *opener) prepare(j Job) (b *bench, err error) {
	b = &bench{Job: j}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.set, err = o.scored(j.Suite.Dataset); err != nil {
		return b, err
	}
	if b.net, err = o.network(j.Model, false); err != nil {
		return b, err
	}
	b.openFile = func() (*original, error) { return o.original(j.Model, b.net) }
	if err := fits(b.set.Dataset, b.net); err != nil {
		return b, fmt.Errorf("suite %s: dataset %s and model %s: %w", j.Suite.Name, j.Suite.Dataset, b.net.Name, err)
	}
	if b.attacked = b.net; o.pool.Judges() {
		if b.attacked, err = o.network(j.Model, true); err != nil {
			return b, err
		}
	}
	b.recipes = make([]attacks.Recipe, len(j.Attacks))
	for i := 0; i < len(b.recipes) && err == nil; i++ {
		b.recipes[i], err = recipeFor(j.Attacks[i], b.attacked)
	}
	return b, err
}

// recipeFor makes an attack's recipe for a network, and sees whether the network has the
// gradients that it takes.
func recipeFor(a PlannedAttack, net *control.Network) (attacks.Recipe, error) {
	recipe, err := a.Recipe(net.Classes(), net.Shape())
	if err != nil {
		return recipe, fmt.Errorf("model %s: %w", net.Name, err)
	}
	if takesGradients(recipe, net.Classes()) {
		if err := net.Prepare(attacks.CrossEntropy); err != nil {
			return recipe, fmt.Errorf("model %s, attack %s: %w", net.Name, a.Name, err)
		}
	}
	return recipe, nil
}

// fits checks that a data set is one that the network classifies.
func fits(d *dataset.Dataset, n *control.Network) error {
	if err := fitsShape(d.Shape(), n); err != nil {
		return fmt.Errorf("the images %w", err)
	}
	if d.Classes() > n.Classes() {
		return fmt.Errorf("the images have %d classes, the model %d", d.Classes(), n.Classes())
	}
	return nil
}

// fitsShape checks that a network takes images of a shape: channels, height, width.
func fitsShape(shape [3]int, n *control.Network) error {
	takes := n.Shape()
	if (attacks.Shape{C: shape[0], H: shape[1], W: shape[2]}) == takes {
		return nil
	}
	return fmt.Errorf("have shape %v, the model takes %v", shape, [3]int{takes.C, takes.H, takes.W})
}
