package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/flock"

	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/models/onnx"
)

// Layer is a layer of a control at its place in a network.
type Layer struct {
	*config.Layer
	Control *config.Control
	Index   int // of the layer in the control
	Net     *control.Network
	Chain   *control.Chain // the network, cut for the whole control
	T       int            // the segment whose input is controlled
}

// State returns the shape of the states at the layer, without the batch.
func (p Layer) State() onnx.Shape { return p.Chain.StateShape(p.T) }

// Place names the layer's place in results.
func (p Layer) Place() string { return Place(p.At).String() }

func (p Layer) target() pca.Target {
	return pca.Target{Variance: p.Embedding.Variance, Rank: p.Embedding.Rank}
}

// Place translates a config's place.
func Place(a config.At) control.At {
	switch a.Kind {
	case config.AtLast:
		return control.At{Last: true}
	case config.AtTensor:
		return control.At{Tensor: a.Tensor}
	case config.AtBoundary:
		return control.At{Boundary: a.Boundary}
	}
	return control.At{}
}

// Cut cuts a network for a control and returns its layers, which share one chain.
func Cut(n *control.Network, c *config.Control) ([]Layer, error) {
	places, layers := make([]control.At, len(c.Layers)), make([]Layer, len(c.Layers))
	for i, l := range c.Layers {
		places[i] = Place(l.At)
	}
	if n.Votes() > 0 {
		return nil, fmt.Errorf("model %s draws at random (votes), and control %s is for networks that do not", n.Name,
			c.Name)
	}
	chain, err := n.Cut(places...)
	if err != nil {
		return nil, fmt.Errorf("control %s on model %s: %w", c.Name, n.Name, err)
	}
	for i := range layers {
		layers[i] = Layer{Layer: &c.Layers[i], Control: c, Index: i, Net: n, Chain: chain, T: chain.Places[i]}
	}
	return layers, nil
}

// Controller is a closed loop around a network.
type Controller struct {
	*control.Controller
	State      int64          // memory that it keeps for an image, in bytes
	Places     map[int]string // names of the layers' places by stage, as the config writes them
	config     *config.Control
	embeddings []control.Layer
}

// Layers gives the layers of an outcome their names.
func (c *ControlInfo) Layers(costs []control.LayerCost) []result.SolverLayer {
	out := make([]result.SolverLayer, len(costs))
	for i, l := range costs {
		out[i] = result.SolverLayer{At: c.Places[l.T], ControlNorm: l.Norm, Loss: l.Loss}
	}
	return out
}

// Controller closes the loop of a control around a network. If fit is false, the identity replaces a linear
// embedding, which would have to be fitted first; that suffices to check everything else.
func (o *Opener) Controller(ctx context.Context, n *control.Network, c *config.Control, fit bool) (*Controller, error) {
	layers, err := Cut(n, c)
	if err != nil {
		return nil, err
	}
	var embeddings []control.Layer
	places := map[int]string{}
	for _, l := range layers {
		places[l.T] = l.Place()
		var g *onnx.Graph
		if fit || l.Embedding.Kind != control.Linear {
			g, err = o.Embedding(ctx, l)
		} else if _, err = o.FitSet(l); err == nil {
			g, err = control.IdentityEmbedding(l.State())
		}
		if err != nil {
			return nil, fmt.Errorf("control %s on model %s: layer at %s: %w", c.Name, n.Name, l.Place(), err)
		}
		embeddings = append(embeddings, control.Layer{T: l.T, Embedding: g})
	}
	return closeLoop(layers[0].Chain, c, embeddings, places)
}

// closeLoop closes the loop of a control around a network that is already cut for it.
func closeLoop(chain *control.Chain, c *config.Control, embeddings []control.Layer, places map[int]string) (
	*Controller, error) {
	loop, err := control.NewController(chain, c.Name, c.Solver, embeddings)
	if err != nil {
		return nil, err
	}
	return &Controller{loop, loopState(chain), places, c, embeddings}, nil
}

// around returns the same control, with the same embeddings, around the form of the network that attacks use.
func (c *Controller) around(n *control.Network) (*Controller, error) {
	layers, err := Cut(n, c.config)
	if err != nil {
		return nil, err
	}
	return closeLoop(layers[0].Chain, c.config, c.embeddings, c.Places)
}

// free closes the loop. A nil loop is fine.
func (c *Controller) free() {
	if c != nil {
		c.Close()
	}
}

// recorded returns the description of a control for results. Opening files and data sets fills in their hashes.
func recorded(c config.Control) result.Control {
	known := result.Control{Solver: c.Solver.Settings()}
	for _, l := range c.Layers {
		e := l.Embedding
		known.Layers = append(known.Layers, result.Layer{At: Place(l.At).String(), Embedding: result.LayerEmbedding{
			Kind: e.Kind, Fit: e.Fit, Variance: e.Variance, Rank: e.Rank, Path: e.Path}})
	}
	return known
}

// Embedding opens a layer's embedding, or fits a linear one.
func (o *Opener) Embedding(ctx context.Context, l Layer) (*onnx.Graph, error) {
	e, known := l.Layer.Embedding, &o.Record.Controls[l.Control.Name].Layers[l.Index].Embedding
	switch e.Kind {
	case control.Identity:
		return control.IdentityEmbedding(l.State())
	case control.ONNX:
		path := plan.EmbeddingPath(e.Path, l.State())
		file, err := ReadModel(o.Config.Files, path)
		if errors.Is(err, fs.ErrNotExist) && e.Training != nil {
			return nil, fmt.Errorf("embedding %w; selfheal fit --control %s makes it", err, l.Control.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("embedding %w", err)
		}
		g, err := control.ONNXEmbedding(file.Data, l.State())
		if err != nil {
			return nil, fmt.Errorf("embedding %s: %w", path, err)
		}
		if known.SHA256 = file.SHA256; path != e.Path {
			if known.SHA256 = ""; known.Files == nil {
				known.Files = map[string]string{}
			}
			known.Files[strconv.FormatInt(l.State().Items(), 10)] = file.SHA256
		}
		return g, nil
	}
	d, err := o.FitSet(l)
	if err != nil {
		return nil, err
	}
	s, fit, err := o.Subspace(ctx, l, d, false)
	if err != nil {
		return nil, err
	}
	same := func(f result.Fit) bool { return f.Control == fit.Control && f.Model == fit.Model && f.At == fit.At }
	if !slices.ContainsFunc(o.Record.Fits, same) {
		o.Record.Fits = append(o.Record.Fits, fit)
	}
	return control.LinearEmbedding(l.State(), s)
}

// FitSet opens the data set to fit a linear embedding on.
func (o *Opener) FitSet(l Layer) (*dataset.Dataset, error) {
	d, err := o.Dataset(l.Embedding.Fit, 0)
	if err != nil {
		return nil, err
	}
	if err := fitsShape(d.Shape(), l.Net); err != nil {
		return nil, fmt.Errorf("dataset %s: %w", l.Embedding.Fit, err)
	}
	o.Record.Controls[l.Control.Name].Layers[l.Index].Embedding.FitSHA256 = d.SHA256()
	return d, nil
}

// FitKey identifies the fit of a linear embedding on a data set.
func (o *Opener) FitKey(l Layer, d *dataset.Dataset) string {
	return pca.Key(l.Chain.StatesID(l.T), l.State(), d.SHA256(), l.target(), o.Config.Seed)
}

// Subspace returns the principal subspace of the clean states. It takes it from the cache, unless anew is set, or
// fits it.
func (o *Opener) Subspace(ctx context.Context, l Layer, d *dataset.Dataset, anew bool) (*pca.Subspace, result.Fit,
	error) {
	start := time.Now()
	dim, target := int(l.State().Items()), l.target()
	fit := func(s *pca.Subspace, cached bool) result.Fit {
		return result.Fit{Control: l.Control.Name, Model: l.Net.Name, At: l.Place(), Dim: s.Dim, Rank: s.Rank,
			Variance: s.Variance, Samples: s.Samples, Cached: cached, Seconds: time.Since(start).Seconds()}
	}
	key := o.FitKey(l, d)
	s, damaged := o.cache.Load(key, dim)
	if s != nil && !anew {
		return s, fit(s, true), nil
	}
	if o.Together {
		lock := flock.New(filepath.Join(o.cache.Dir, key+".lock"))
		err := os.MkdirAll(o.cache.Dir, 0o755)
		if err == nil {
			_, err = lock.TryLockContext(ctx, time.Second)
		}
		defer lock.Close()
		if ctx.Err() != nil {
			return nil, result.Fit{}, context.Cause(ctx)
		}
		// If nothing can be locked there, each process fits for itself.
		if s, damaged = o.cache.Load(key, dim); s != nil && err == nil {
			return s, fit(s, true), nil
		}
	}
	if damaged {
		o.Progress.Report(progress.FitDamaged{Path: o.cache.Path(key)})
	}
	o.Progress.Report(progress.FitStarted{Model: l.Net.Name, Dim: dim, Images: d.Len()})
	states := l.Chain.CleanStates(l.T, d.Len(), d.Pixels)
	s, err := pca.Fit(ctx, dim, states, target, pca.Options{Seed: o.Config.Seed, Workers: o.Pool.Workers()})
	if err != nil {
		return nil, result.Fit{}, err
	}
	made := fit(s, false)
	done := progress.FitFinished{Model: made.Model, Dim: dim, Images: s.Samples, Rank: s.Rank, Variance: s.Variance,
		Seconds: made.Seconds}
	if target.Capped(s) {
		done.VarianceAsked, done.MaxRank = target.Variance, pca.MaxRank(dim)
	}
	o.Progress.Report(done)
	if err := o.cache.Store(key, s); err != nil {
		o.Progress.Report(progress.FitNotCached{Error: err.Error()})
	}
	return s, made, nil
}
