// Package open opens what a config names: data sets, networks, embeddings and closed loops, as the judge and as the
// attacks use them. [New] starts the pool; [Opener.Job] opens a job of a run and [Job.Defend] its classifiers;
// [OracleOf] answers an attack's questions about one and counts the passes; [Use] opens one model outside a run.
// Close what was opened in the reverse order. A fault of a file or of the config is a [ConfigError], which names the
// file and says what to do.
package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/fault"
	"selfheal/internal/lists"
	"selfheal/internal/memory"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// Opener opens the files that a config names, keeps the data sets, and notes everything it opens for the results.
type Opener struct {
	Config *config.Config
	Pool   *ort.Pool
	Options
	Together bool         // other processes share the cache: one fits and the others wait
	Record   *result.File // its data sets, models and fits are those opened so far
	// Known are digests of data sets that were read before, by the keys of Sets; may be nil.
	Known map[string]*dataset.Digest
	Sets  map[string]*dataset.Dataset
	// IDs replace the config's choice of the images to score, by data set; nil keeps the config's.
	IDs   map[string][]int
	model string // the only model that is opened; "" for those of the suites
}

// Options complete a config. The zero value will do.
type Options struct {
	Cache    *pca.Cache // cache of fitted embeddings; may be nil
	Progress *progress.Progress
	// Size returns the images' channels, height and width for a network that leaves them open. If it is nil, a data
	// set determines them.
	Size func() ([3]int, error)
}

// The memory that is free and that the process holds, in bytes; variables for tests.
var freeMemory, residentMemory = memory.Free, memory.Resident

// New returns an opener with the pool that the config asks for. A device that can't compute is a [ConfigError].
func New(cfg *config.Config, o Options) (*Opener, error) {
	if o.Progress == nil {
		o.Progress = &progress.Progress{}
	}
	options := []ort.PoolOption{ort.Threads(cfg.Runtime.Threads), ort.Within(ort.Memory{
		Free: freeMemory, Resident: residentMemory,
		Lowered: func(l ort.Lowering) { o.Progress.Report(progress.BatchLowered{Lowering: l}) }})}
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
	return &Opener{Config: cfg, Pool: pool, Options: o, Sets: map[string]*dataset.Dataset{}, Record: record}, nil
}

// Close ends the pool and closes the data sets.
func (o *Opener) Close() {
	o.Pool.Close()
	for _, d := range o.Sets {
		d.Close()
	}
}

// ConfigError is an error about something that a config names: a file that is absent or is not a model, images that
// don't fit it, a network without gradients, a device that can't compute.
type ConfigError struct{ error }

// Wrong makes a [ConfigError] of err. It is nil for a nil err.
func Wrong(err error) error {
	if err == nil {
		return nil
	}
	return ConfigError{err}
}

// Unwrap returns the error itself.
func (e ConfigError) Unwrap() error { return e.error }

// ForEach is [control.ForEach] with fewer concurrent images if the state of each, in bytes, would take too much
// memory.
func (o *Opener) ForEach(ctx context.Context, n int, state int64, fn func(ctx context.Context, i int) error) error {
	if n == 0 {
		return nil
	}
	return control.ForEach(ctx, o.Pool, n, inFlight(o.Pool, state), fn)
}

// Over returns a runner that calls [Opener.ForEach] for some of the images.
func (o *Opener) Over(state int64) folder.Runner {
	return func(ctx context.Context, images []int, do func(ctx context.Context, i int) error) error {
		return o.ForEach(ctx, len(images), state, func(ctx context.Context, k int) error { return do(ctx, images[k]) })
	}
}

// SideBySide returns a runner that works on up to width images at once, without the pool.
func SideBySide(width int) folder.Runner {
	return func(ctx context.Context, images []int, do func(ctx context.Context, i int) error) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(width)
		for _, i := range images {
			g.Go(func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return do(ctx, i)
			})
		}
		return g.Wait()
	}
}

// Cores returns how many cores a run computes on.
func (o *Opener) Cores() int {
	if o.Pool.OnDevice() {
		return runtime.GOMAXPROCS(0)
	}
	return max(1, min(runtime.GOMAXPROCS(0), o.Pool.Workers()*o.Pool.Threads()))
}

// Width returns how many images a run works on at once, if each keeps so many bytes.
func (o *Opener) Width(state int64) int {
	return min(2*o.Pool.Workers()*o.Pool.Batch(), inFlight(o.Pool, state))
}

// stateBudget bounds the memory, in bytes, that attacks and closed loops keep in Go for all images under way, besides
// the batches of the pool's workers. At 32×32 pixels it limits nothing. At 224×224 it does: two batches of 64 images
// a worker at 10 MB an image would be gigabytes.
const stateBudget = 256 << 20

// attackVectors bounds the vectors of an image's size that an attack keeps: APGD in ℓ1 keeps most, two of them in
// float64.
const attackVectors = 16

func attackState(s attacks.Shape) int64 { return 4 * attackVectors * int64(s.Size()) }

// loopState returns the memory that a closed loop keeps for an image, in bytes: for each segment its input, the
// controlled input and the control and, for the widest place, an adjoint, the one before it and the momentum.
func loopState(chain *control.Chain) int64 {
	var sum, widest int64
	for t := range chain.Segments {
		n := chain.StateShape(t).Items()
		sum, widest = sum+n, max(widest, n)
	}
	return 4 * (3*sum + 3*widest)
}

// inFlight returns how many images, each with so many bytes of state, may be under way. It allows at least two a
// worker, or workers would wait for each other. A device computes whole batches: its budget is a quarter of the free
// memory, if that is more.
func inFlight(pool *ort.Pool, state int64) int {
	budget := int64(stateBudget)
	if free, known := freeMemory(); known && pool.OnDevice() {
		budget = max(budget, free/4)
	}
	return int(max(2*int64(pool.Workers()), budget/max(1, state)))
}

// Scored opens the data set that a suite scores, cut to --limit.
func (o *Opener) Scored(name string) (Images, error) {
	d, err := o.scored(name)
	if err != nil {
		return Images{}, err
	}
	spec := o.Config.Dataset(name).Spec
	if spec.SHA256 != "" && spec.SHA256 != d.SHA256() {
		return Images{}, fmt.Errorf("dataset %s: its images in %s have SHA-256 %s, the config says %s", name, spec.Path,
			d.SHA256(), spec.SHA256)
	}
	if _, told := o.Record.Datasets[name]; !told && dataset.Find(spec.Format).ByClass {
		o.Progress.Report(progress.ClassesNumbered{Dataset: name, Labels: dataset.Numbered(d.ClassNames())})
	}
	limit := spec.Limit
	if o.Config.Limit > 0 && (limit == 0 || o.Config.Limit < limit) {
		limit = o.Config.Limit
	}
	spec.Sample = d.Sample()
	o.Record.Datasets[name] = result.Dataset{N: d.Len(), SHA256: d.SHA256(), Format: spec.Format, Limit: limit,
		Indices: spec.Indices, Classes: spec.Classes, ClassNames: d.ClassNames(),
		Shaping: spec.Shaping}
	o.Record.Images[name] = d.Images()
	if left := d.LeftOut(); left.Classes > 0 || left.Files > 0 || left.Changed() != "" {
		known := o.Record.Datasets[name]
		known.LeftOut = &left
		o.Record.Datasets[name] = known
	}
	return Images{Dataset: d, name: name, n: d.Len()}, nil
}

// Dataset opens a data set once for each limit.
func (o *Opener) Dataset(name string, limit int) (*dataset.Dataset, error) {
	return o.once(fmt.Sprintf("%s/%d", name, limit), Spec(o.Config, name, o.model), name, limit)
}

// scored opens the images of a data set that are to be scored.
func (o *Opener) scored(name string) (*dataset.Dataset, error) {
	ids := o.IDs[name]
	if ids == nil {
		return o.Dataset(name, o.Config.Limit)
	}
	spec := Spec(o.Config, name, o.model)
	spec.Indices, spec.Sample, spec.Limit = ids, nil, 0
	return o.once(name, spec, name, 0)
}

// once opens a data set unless one is open under key.
func (o *Opener) once(key string, spec dataset.Spec, name string, limit int) (*dataset.Dataset, error) {
	if d, ok := o.Sets[key]; ok {
		return d, nil
	}
	d, err := dataset.OpenKnown(spec, o.Config.Files, limit, o.Known[key])
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", name, err)
	}
	o.Noted(name, d)
	o.Sets[key] = d
	return d, nil
}

// Noted reports how a data set's images differ from its files.
func (o *Opener) Noted(name string, d *dataset.Dataset) {
	left := d.LeftOut()
	if changed := left.Changed(); changed != "" {
		o.Progress.Report(progress.ImagesChanged{Dataset: name, Changed: changed})
	}
}

// Spec returns a config's data set with the number of channels that its models take: the one named model or, if model
// is "", the models whose suites score the data set or have controls fitted on it, if they agree. Models are read
// only if the data set needs the number.
func Spec(cfg *config.Config, name, model string) dataset.Spec {
	spec := cfg.Dataset(name).Spec
	spec.Channels = func() (channels int) {
		known := map[string]bool{}
		for _, s := range cfg.Suites {
			fitted := slices.ContainsFunc(s.Controls, func(c string) bool { return cfg.Control(c).FittedOn(name) })
			for _, m := range s.Models {
				known[m] = known[m] || fitted || s.Dataset == name
			}
		}
		for i := range cfg.Models {
			m := &cfg.Models[i]
			if m.Name != model && (model != "" || !known[m.Name]) {
				continue
			}
			n := channelsOf(cfg, m)
			if n == 0 || channels > 0 && n != channels {
				return 0
			}
			channels = n
		}
		return channels
	}
	return spec
}

// channelsOf returns the channels of a model's images. It returns 0 if the model does not tell or can't be read; the
// latter is reported elsewhere.
func channelsOf(cfg *config.Config, m *config.Model) int {
	file, err := ReadModel(cfg.Files, m.Path)
	if err != nil {
		return 0
	}
	g, err := onnx.Decode(file.Data)
	if err != nil {
		return 0
	}
	return simplify.Channels(g, m.Layout)
}

// ReadModel reads a model file that a config names, and the weights in files beside it.
func ReadModel(files fs.FS, path string) (*onnx.File, error) {
	if dir, ok := files.(config.Folder); ok {
		f, err := onnx.Read(dir.Path(path))
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

// Network opens a model in the form that is judged. Its file gives the answers, unless it draws random numbers.
// images names the data set that determines the images' size, if the network leaves it open; "" is the first that its
// suites score.
func (o *Opener) Network(m *config.Model, images string) (*control.Network, error) {
	return o.NetworkOn(o.Pool, m, images)
}

// NetworkOn is [Opener.Network] on another pool.
func (o *Opener) NetworkOn(pool *ort.Pool, m *config.Model, images string) (*control.Network, error) {
	file, err := ReadModel(o.Config.Files, m.Path)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	if m.SHA256 != "" && !strings.EqualFold(m.SHA256, file.SHA256) {
		return nil, fmt.Errorf("model %s: %s has SHA-256 %s, the config says %s", m.Name, m.Path, file.SHA256, m.SHA256)
	}
	n, err := control.NewNetwork(pool, m.Name, file.Data, control.NetworkOptions{
		Options:       o.taken(m, images),
		Probabilities: m.Output == "probabilities", Label: m.Output == "label", At: m.SplitAt,
		Votes: m.Votes, Seed: o.Config.Seed})
	if err != nil {
		return nil, fmt.Errorf("model %s (%s): %w", m.Name, m.Path, err)
	}
	if n.Votes() == 0 {
		var answers *Original
		if answers, err = o.original(m, n, file); err != nil {
			n.Graph.Notice(fmt.Sprintf("its opened form gives all answers, as the file does not run: %v", err))
			err = nil
		} else if err = n.AnsweredBy(answers); err == nil && n.Graph.IsCopy() {
			n.Graph.Notices = byFile(n.Graph.Notices)
		}
	}
	if err == nil {
		err = n.Ready()
	}
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("model %s (%s): %w", m.Name, m.Path, err)
	}
	known := Identified(m, file.SHA256)
	known.Parameters, known.Segments, known.FLOPs = n.Parameters, len(n.Boundaries)+1, n.FLOPs()
	o.Record.Models[m.Name] = known
	return n, nil
}

// ForAttacks returns an opened network in the form that the run's attacks use. Close it before the network.
func (o *Opener) ForAttacks(n *control.Network) (*control.Network, error) {
	a, err := n.ForAttacks(!o.Config.Runtime.Winograd || o.Pool.Target(true).Row().Direct)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", n.Name, err)
	}
	return a, nil
}

// taken returns how a model's input and output are interpreted.
func (o *Opener) taken(m *config.Model, images string) simplify.Options {
	return simplify.Options{Scale: float32(m.Scale), Mean: float32s(m.Mean), Std: float32s(m.Std), Layout: m.Layout,
		Output: m.OutputName, Size: func() ([3]int, error) { return o.size(m, images) }}
}

// size returns the size of a model's images: channels, height, width.
func (o *Opener) size(m *config.Model, name string) (shape [3]int, err error) {
	if o.Size != nil {
		return o.Size()
	}
	for _, s := range o.Config.Suites {
		if name == "" && slices.Contains(s.Models, m.Name) {
			name = s.Dataset
		}
	}
	if o.Config.Dataset(name) == nil {
		return shape, errors.New("leaves the images' size open, and no suite says which images it takes")
	}
	return FirstSize(Spec(o.Config, name, o.model), o.Config.Files)
}

// FirstSize returns the size of a data set's first image: channels, height, width.
func FirstSize(spec dataset.Spec, files fs.FS) (shape [3]int, err error) {
	d, err := dataset.Open(spec, files, 1)
	if err != nil {
		return shape, err
	}
	defer d.Close()
	return d.Shape(), nil
}

// Identified returns the model's description for results, from the config and its file's hash.
func Identified(m *config.Model, sha256 string) result.Model {
	known := result.Model{SHA256: sha256, Layout: m.Layout, Output: m.Output, OutputName: m.OutputName,
		Split: m.SplitAt, Votes: m.Votes}
	if m.Mean != nil {
		known.Preprocess = &result.Preprocess{Scale: m.Scale, Mean: m.Mean, Std: m.Std}
	}
	return known
}

func float32s(v []float64) []float32 {
	return lists.Map(v, func(x float64) float32 { return float32(x) })
}

// RecipeFor returns a trial's recipe for a network. It returns an error if the network lacks the gradients that the
// recipe takes.
func RecipeFor(t plan.Trial, net *control.Network) (attacks.Recipe, error) {
	recipe, err := t.Recipe(net.Classes(), net.Shape())
	if err != nil {
		return recipe, fmt.Errorf("model %s: %w", net.Name, err)
	}
	if net.Labels && !recipe.Labels && recipe.Corruption == nil {
		return recipe, fmt.Errorf("model %s gives labels alone, and attack %s sees more; take %s", net.Name, t.Name(),
			strings.Join(append(attacks.ByLabels(), attacks.CorruptionKind), ", "))
	}
	if takesGradients(recipe, net.Classes()) {
		if err := net.Prepare(attacks.CrossEntropy); err != nil {
			return recipe, fmt.Errorf("model %s, attack %s: %w", net.Name, t.Name(), err)
		}
	}
	return recipe, nil
}

func takesGradients(r attacks.Recipe, classes int) bool {
	_, both := r.Certificate.(attacks.Bracket)
	return both || slices.ContainsFunc(r.Components, func(c attacks.Attack) bool {
		_, backward := c.Passes(classes)
		return backward > 0
	})
}

// fits checks that a network classifies a data set: images and classes agree.
func fits(d *dataset.Dataset, n *control.Network) error {
	if d.Classes() > n.Classes() {
		return fmt.Errorf("the images have %d classes, the model %d: labels from %d up can't be scored; leave such "+
			"images out, or choose another output by output_name", d.Classes(), n.Classes(), n.Classes())
	}
	return fitsShape(d.Shape(), n)
}

// fitsShape checks that a network takes images of a shape: channels, height, width.
func fitsShape(shape [3]int, n *control.Network) error {
	takes := n.Shape()
	if (attacks.Shape{C: shape[0], H: shape[1], W: shape[2]}) == takes {
		return nil
	}
	advice := fmt.Sprintf("save them as %d×%d pixels", takes.W, takes.H)
	switch {
	case shape[0] != takes.C:
		advice = "save them with as many"
	case takes.H == takes.W:
		advice = fmt.Sprintf("--resize %d --crop %d, or in a config transform: {resize: %[1]d, crop: %[2]d}, "+
			"makes them fit", Resized(takes.H), takes.H)
	}
	return fmt.Errorf("the images have %d channels of %d×%d pixels, the model takes %d of %d×%d; %s", shape[0],
		shape[2], shape[1], takes.C, takes.W, takes.H, advice)
}

// Resized returns to how many pixels the shorter side is brought before an image is cropped: 256 for 224, the usual
// ratio.
func Resized(crop int) int {
	if crop < 128 {
		return crop
	}
	return (crop*256 + 112) / 224
}

// Identify fills in the hashes of the run's files without opening networks. The held run tells which number {size}
// stands for.
func (o *Opener) Identify(held *result.File) error {
	for _, s := range o.Config.Suites {
		if _, err := o.Scored(s.Dataset); err != nil {
			return err
		}
	}
	for i := range o.Config.Models {
		m := &o.Config.Models[i]
		file, err := ReadModel(o.Config.Files, m.Path)
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Name, err)
		}
		o.Record.Models[m.Name] = Identified(m, file.SHA256)
	}
	for _, c := range o.Config.Controls {
		for i, l := range c.Layers {
			var before result.LayerEmbedding
			if old := held.Controls[c.Name].Layers; i < len(old) {
				before = old[i].Embedding
			}
			known := &o.Record.Controls[c.Name].Layers[i].Embedding
			if err := o.IdentifyEmbedding(l.Embedding, before, known); err != nil {
				return fmt.Errorf("control %s: layer at %s: %w", c.Name, Place(l.At), err)
			}
		}
	}
	return nil
}

// IdentifyEmbedding fills in the hashes of an embedding's files. before are the files of the held run, which tell the
// number in place of {size}.
func (o *Opener) IdentifyEmbedding(e config.Embedding, before result.LayerEmbedding,
	known *result.LayerEmbedding) error {
	switch {
	case e.Kind == control.Linear:
		d, err := o.Dataset(e.Fit, 0)
		if err == nil {
			known.FitSHA256 = d.SHA256()
		}
		return err
	case e.Kind != control.ONNX:
		return nil
	case !strings.Contains(e.Path, plan.SizeKey):
		file, err := ReadModel(o.Config.Files, e.Path)
		if err == nil {
			known.SHA256 = file.SHA256
		}
		return err
	}
	known.Files = map[string]string{}
	for size := range before.Files {
		file, err := ReadModel(o.Config.Files, strings.ReplaceAll(e.Path, plan.SizeKey, size))
		if err != nil {
			return err
		}
		known.Files[size] = file.SHA256
	}
	return nil
}
