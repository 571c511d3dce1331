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
	"path"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
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

// Opener opens the data sets, networks and controls that a config names, on a pool of its own.
type Opener struct {
	Workers
	*Sets
	cache    *pca.Cache // of fitted embeddings; may be nil
	size     func() ([3]int, error)
	Together bool // other processes share the cache: one fits and the others wait
}

// Options complete a config. The zero value will do.
type Options struct {
	Cache    *pca.Cache // cache of fitted embeddings; may be nil
	Progress *progress.Progress
	// Size returns the images' channels, height and width for a network that leaves them open. If it is nil, a data
	// set determines them.
	Size  func() ([3]int, error)
	model string // the only model that is opened; "" for those of the suites
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
	sets := &Sets{Config: cfg, Progress: o.Progress, Record: record, model: o.model,
		opened: map[string]*dataset.Dataset{}}
	return &Opener{Workers: Workers{pool}, Sets: sets, cache: o.Cache, size: o.Size}, nil
}

// Close ends the pool and closes the data sets.
func (o *Opener) Close() {
	o.Pool.Close()
	for _, d := range o.opened {
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
func (o *Opener) Network(ctx context.Context, m *config.Model, images string) (*control.Network, error) {
	return o.NetworkOn(ctx, o.Pool, m, images)
}

// NetworkOn is [Opener.Network] on another pool.
func (o *Opener) NetworkOn(ctx context.Context, pool *ort.Pool, m *config.Model, images string) (
	*control.Network, error) {
	if path.Ext(m.Path) == FunctionExt {
		return o.openFunction(pool, m, images)
	}
	if len(m.Members) > 0 {
		return o.openEnsemble(ctx, pool, m, images)
	}
	file, err := ReadModel(o.Config.Files, m.Path)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	if m.SHA256 != "" && !strings.EqualFold(m.SHA256, file.SHA256) {
		return nil, fmt.Errorf("model %s: %s has SHA-256 %s, the config says %s", m.Name, m.Path, file.SHA256, m.SHA256)
	}
	task, asked, err := ReadTask(o.Config.Files, m)
	if err != nil {
		return nil, err
	}
	var notice string
	if m.Task.FAR > 0 {
		if notice, err = o.threshold(ctx, pool, m, images, &task, asked); err != nil {
			return nil, fmt.Errorf("model %s: far: %w", m.Name, err)
		}
	}
	n, err := control.NewNetwork(pool, m.Name, file.Data, control.NetworkOptions{
		Options:       o.taken(m, images),
		Probabilities: m.Output == "probabilities", At: m.SplitAt,
		Votes: m.Votes, Seed: o.Config.Seed, Task: task})
	if err != nil {
		return nil, fmt.Errorf("model %s (%s): %w", m.Name, m.Path, err)
	}
	if notice != "" {
		n.Graph.Notice(notice)
	}
	if n.Votes() == 0 {
		var answers *Original
		if answers, err = o.original(m, n, file, images); err != nil {
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
	known.Task = asked
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
	return simplify.Options{Box: o.boxOf(m, images), Scale: float32(m.Scale), Mean: float32s(m.Mean),
		Std: float32s(m.Std), Layout: m.Layout, Output: m.OutputName, Label: m.Output == "label",
		Size: func() ([3]int, error) { return o.imageSize(m, images) }}
}

// imageSize returns the size of a model's images: channels, height, width.
func (o *Opener) imageSize(m *config.Model, name string) (shape [3]int, err error) {
	if o.size != nil {
		return o.size()
	}
	if name = o.imagesOf(m, name); name == "" {
		return shape, errors.New("leaves the images' size open, and no suite says which images it takes")
	}
	return FirstSize(Spec(o.Config, name, o.model), o.Config.Files)
}

// imagesOf names a model's images: name or, if it is "", the data set of the first suite that scores them; "" if there
// is none.
func (o *Opener) imagesOf(m *config.Model, name string) string {
	for _, s := range o.Config.Suites {
		if name == "" && slices.Contains(s.Models, m.Name) {
			name = s.Dataset
		}
	}
	if o.Config.Dataset(name) == nil {
		return ""
	}
	return name
}

// boxOf returns the box of a model's images if they are rows of features. Rows that can't be read are reported when
// they are scored.
func (o *Opener) boxOf(m *config.Model, images string) (box [2][]float32) {
	name := o.imagesOf(m, images)
	if name == "" || o.Config.Dataset(name).Box == nil {
		return box
	}
	shape, err := FirstSize(Spec(o.Config, name, o.model), o.Config.Files)
	if err == nil {
		box, _ = o.Config.Dataset(name).Box.Ends(shape[2])
	}
	return box
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
	if net.Task != nil && recipe.Certificate != nil {
		return recipe, fmt.Errorf("model %s: attack %s proves something of classes, and the model's task is another",
			net.Name, t.Name())
	}
	if net.Task.Placed() && recipe.Moves() {
		return recipe, fmt.Errorf("model %s: attack %s moves parts of the image, and not the places in its truth",
			net.Name, t.Name())
	}
	if _, both := recipe.Certificate.(attacks.Bracket); net.Ensemble && (both || t.Setting().Prove ||
		recipe.Certificate != nil && t.Setting().Kind == attacks.BoundsKind) {
		return recipe, fmt.Errorf("model %s: attack %s proves something by bounds, which hold for one file, and the "+
			"model is an ensemble", net.Name, t.Name())
	}
	if proof := recipe.Certificate; net.Opaque() &&
		(takesGradients(recipe, net.Classes()) || proof != nil && !recipe.Labels) {
		return recipe, fmt.Errorf("model %s is a function, which has no gradients, and attack %s takes them; take %s",
			net.Name, t.Name(), strings.Join(append(attacks.ByScores(), attacks.CorruptionKind), ", "))
	}
	if takesGradients(recipe, net.Classes()) {
		if net.Graph.Steps {
			return recipe, fmt.Errorf("model %s is an ensemble of trees, which has no gradients, and attack %s takes "+
				"them; these need none: %s", net.Name, t.Name(), strings.Join(attacks.WithoutGradients(), ", "))
		}
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
		if path.Ext(m.Path) == FunctionExt {
			f, err := o.function(m, "")
			if err != nil {
				return fmt.Errorf("model %s: %w", m.Name, err)
			}
			o.Record.Models[m.Name] = Identified(m, f.ID)
			continue
		}
		known, err := o.Describe(m)
		if err != nil {
			return err
		}
		o.Record.Models[m.Name] = known
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
