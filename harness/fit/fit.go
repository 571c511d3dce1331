// Package fit fits the embeddings of a control: linear ones by PCA, auto-encoders by training. [Fit] fits all of them
// in the order in which the network meets them; [Estimate] times the trainings instead. A training that was stopped
// continues from its checkpoint to the same bits, and a finished one is not repeated. Only complete embeddings appear
// at their paths.
package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/control/train"
	"selfheal/harness/config"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
)

// Options choose the embeddings to fit and their files.
type Options struct {
	Control string
	// Models share the embedding to fit. If empty, they are the models that the training names, or else the models of
	// the suites that use the control.
	Models []string
	Out    string // the embedding's file, if there is only one
	Resume bool   // the first training must have begun or finished before
	// Seeds is how many seeds each training is made with, from its own up; the embedding with the best
	// [train.Judged.Score] is kept. At most 1: the first that does not go astray.
	Seeds int
	// Rule says what may be replaced. With Force everything is fitted anew.
	atomicfile.Rule
	Progress *progress.Progress
	Cache    *pca.Cache // of linear embeddings
}

// Fitted is an embedding that was fitted.
type Fitted struct {
	Kind       string   // linear or autoencoder
	Models     []string // models that it serves
	Path       string   // its file; empty if a linear one is only in the cache
	result.Fit          // the place, and the size of a linear one

	Kept       bool // the file of a training was already there
	Steps      int
	train.Loss              // means over a training's last epoch
	Judged     train.Judged // on images held back from training
	Tried      []Tried      // the seeds of a training, if there were several
}

// Tried is a training's seed.
type Tried struct {
	Seed   uint64
	Astray bool // it was given up
	Judged train.Judged
}

// Fit fits the embeddings of a control: linear ones by PCA of clean states, into the cache and as ONNX beside the
// config, those of kind autoencoder by training. It continues a training that was stopped, to the same bits, and
// leaves a finished one. An error about something that the config names, or about another training's files, is an
// [open.ConfigError].
func Fit(ctx context.Context, cfg *config.Config, o Options) ([]Fitted, error) {
	f, err := newFitter(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	defer f.close()
	linear, trainings := 0, 0
	var last *config.Training
	for _, l := range f.control.Layers {
		if l.Embedding.Kind == control.Linear {
			linear++
		} else if l.Embedding.Training != nil {
			trainings, last = trainings+1, l.Embedding.Training
		}
	}
	if linear+trainings == 0 {
		return nil, open.Wrong(fmt.Errorf("control %s has no embedding to fit: none is of kind %s or %s", o.Control,
			control.Linear, control.Autoencoder))
	}
	if trainings == 0 && (o.Resume || o.Seeds > 1) {
		flag := map[bool]string{true: "--resume", false: "--seeds"}[o.Resume]
		return nil, open.Wrong(fmt.Errorf("%s: control %s has no embedding to train", flag, o.Control))
	}
	if o.Out != "" && trainings != 1 {
		names, err := f.models(nil)
		if err != nil {
			return nil, err
		}
		if trainings > 1 || linear*len(names) > 1 {
			return nil, open.Wrong(fmt.Errorf("control %s has %d embeddings to train and %d linear ones "+
				"for each of %d models; --out is for one", o.Control, trainings, linear, len(names)))
		}
	}
	order, err := f.order(last)
	if err != nil {
		return nil, fmt.Errorf("control %s: %w", o.Control, err)
	}
	out := o.Out // a linear one's
	if trainings > 0 {
		out = ""
	}
	for _, i := range order {
		l := f.control.Layers[i]
		switch {
		case l.Embedding.Kind == control.Linear:
			err = f.linear(ctx, i, out)
		case l.Embedding.Training != nil:
			err = f.train(ctx, i, l.Embedding.Training)
		}
		if err != nil {
			return f.done, fmt.Errorf("control %s: layer at %s: %w", o.Control, open.Place(l.At), err)
		}
	}
	return f.done, nil
}

type fitter struct {
	*open.Opener
	ctx      context.Context
	o        Options
	control  *config.Control
	networks map[string]*control.Network
	resumed  bool // a training was there, begun or finished
	timing   bool // absent embeddings of earlier layers are left out
	done     []Fitted
}

func newFitter(ctx context.Context, cfg *config.Config, o Options) (*fitter, error) {
	f := &fitter{ctx: ctx, o: o, control: cfg.Control(o.Control), networks: map[string]*control.Network{}}
	if f.control == nil {
		return nil, open.Wrong(cfg.Unknown("control", o.Control))
	}
	var err error
	f.Opener, err = open.New(cfg, open.Options{Cache: o.Cache, Progress: o.Progress})
	return f, err
}

func (f *fitter) close() {
	for _, n := range f.networks {
		n.Close()
	}
	f.Opener.Close()
}

func (f *fitter) models(t *config.Training) ([]string, error) {
	names := f.o.Models
	if len(names) == 0 && t != nil {
		names = t.Models
	}
	if len(names) == 0 {
		add := func(controls, models []string) {
			for _, m := range models {
				if slices.Contains(controls, f.control.Name) && !slices.Contains(names, m) {
					names = append(names, m)
				}
			}
		}
		for _, s := range f.Config.Suites {
			if add(s.Controls, s.Models); s.Solver != nil {
				add(s.Solver.Controls, s.Solver.Models)
			}
		}
	}
	if len(names) == 0 {
		return nil, open.Wrong(errors.New("no suite uses the control, so no model is known; name one with --model"))
	}
	return names, nil
}

// order lists the layers in the order in which the network meets them, which must be the same for all models. An
// embedding after another control is fitted on that control's states.
func (f *fitter) order(t *config.Training) ([]int, error) {
	names, err := f.models(t)
	if err != nil {
		return nil, err
	}
	order, ahead := make([]int, len(f.control.Layers)), make([]int, len(f.control.Layers))
	for i := range order {
		before, err := f.before(i, names[:1])
		if err != nil {
			return nil, err
		}
		order[i], ahead[i] = i, len(before)
	}
	slices.SortStableFunc(order, func(a, b int) int { return ahead[a] - ahead[b] })
	return order, nil
}

func (f *fitter) model(name string) (*config.Model, error) {
	m := f.Config.Model(name)
	if m == nil {
		return nil, open.Wrong(f.Config.Unknown("model", name))
	}
	return m, nil
}

// cut opens a model and cuts it for the control.
func (f *fitter) cut(name string) ([]open.Layer, error) {
	m, err := f.model(name)
	if err != nil {
		return nil, err
	}
	n := f.networks[name]
	if n == nil {
		if n, err = f.Network(f.ctx, m, ""); err != nil {
			return nil, open.Wrong(err)
		}
		f.networks[name] = n
	}
	layers, err := open.Cut(n, f.control)
	return layers, open.Wrong(err)
}

// groups lists the embeddings of a training, not fitted yet: one or, with {size} in its path, one for each size of
// state.
func (f *fitter) groups(layer int, t *config.Training) ([]Fitted, error) {
	names, err := f.models(t)
	if err != nil {
		return nil, err
	}
	folder, ok := f.Config.Files.(config.Folder)
	if !ok && f.o.Out == "" && !f.timing {
		return nil, open.Wrong(errors.New("the bundled config's files can't be written; " +
			"say where the embedding goes with --out"))
	}
	var all []Fitted
	for _, name := range names {
		path := t.Path
		if strings.Contains(path, plan.SizeKey) {
			layers, err := f.cut(name)
			if err != nil {
				return nil, err
			}
			path = plan.EmbeddingPath(path, layers[layer].State())
		}
		path = folder.Path(path)
		i := slices.IndexFunc(all, func(g Fitted) bool { return g.Path == path })
		if i < 0 {
			at := result.Fit{At: open.Place(f.control.Layers[layer].At).String()}
			i, all = len(all), append(all, Fitted{Fit: at, Kind: control.Autoencoder, Path: path})
		}
		all[i].Models = append(all[i].Models, name)
	}
	if f.o.Out != "" {
		if len(all) > 1 {
			return nil, open.Wrong(fmt.Errorf("%s and %s have states of different sizes, each with an "+
				"embedding of its own; --out is for one, say of which model with --model",
				all[0].Models[0], all[1].Models[0]))
		}
		all[0].Path = f.o.Out
	}
	return all, nil
}

func (f *fitter) train(ctx context.Context, layer int, t *config.Training) error {
	groups, err := f.groups(layer, t)
	if err != nil {
		return err
	}
	if t.IsAlong { // the training of the layer before it was also its own
		first := f.done[len(f.done)-1]
		first.At, first.Path, first.Reconstruction = groups[0].At, groups[0].Path, first.Along
		f.done = append(f.done, first)
		return nil
	}
	for _, g := range groups {
		if g, err = f.chosen(ctx, layer, t, g); err != nil {
			return err
		}
		f.done = append(f.done, g)
	}
	return nil
}

// unfinished wraps the error of a training for which the same command continues. It does not wrap a [train.Failed],
// which would occur again.
func unfinished(err error) error {
	if errors.As(err, new(train.Failed)) {
		return fmt.Errorf("%w; begin anew by --force", err)
	}
	return folder.NewUnfinished(err)
}

// embedding returns the file of an embedding. An existing one tells its training by its metadata.
func (f *fitter) embedding(path string) atomicfile.File {
	to := f.o.At(path, "embedding")
	to.Known = true
	return to
}

// files returns the embedding's file of a training, and that of the embedding that trains along.
func (f *fitter) files(path string, t *config.Training) []atomicfile.File {
	all := []atomicfile.File{f.embedding(path)}
	if t.Along != nil {
		folder, _ := f.Config.Files.(config.Folder) // else groups has refused
		all = append(all, f.embedding(folder.Path(t.Along.Path)))
	}
	return all
}

// log returns the file of a training's losses, beside its embedding.
func (f *fitter) log(path string) atomicfile.File { return f.o.At(path+".csv", "training log") }
