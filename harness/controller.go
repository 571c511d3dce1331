package harness

import (
	"context"
	"fmt"
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
	"selfheal/harness/result"
	"selfheal/models/onnx"
)

// placed is a layer of a control where a network has it.
type placed struct {
	*config.Layer
	control *config.Control
	index   int // of the layer in the control
	net     *control.Network
	chain   *control.Chain // the network, cut for the whole control
	t       int            // the segment whose input is controlled
}

func (p placed) state() onnx.Shape { return p.chain.StateShape(p.t) }

// at names the layer's place in results.
func (p placed) at() string { return place(p.At).String() }

// target is what a linear embedding is to reach.
func (p placed) target() pca.Target {
	return pca.Target{Variance: p.Embedding.Variance, Rank: p.Embedding.Rank}
}

func place(a config.At) control.At {
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

// cut cuts a network for a control and finds its layers, which have one chain.
func cut(n *control.Network, c *config.Control) ([]placed, error) {
	places, layers := make([]control.At, len(c.Layers)), make([]placed, len(c.Layers))
	for i, l := range c.Layers {
		places[i] = place(l.At)
	}
	chain, err := n.Cut(places...)
	for i := 0; i < len(layers) && err == nil; i++ {
		layers[i] = placed{Layer: &c.Layers[i], control: c, index: i, net: n, chain: chain}
		layers[i].t, err = chain.Index(places[i])
	}
	if err != nil {
		return nil, fmt.Errorf("control %s on model %s: %w", c.Name, n.Name, err)
	}
	return layers, nil
}

// controller is a closed loop around a network.
type controller struct {
	*control.Controller
	config     *config.Control
	embeddings []control.Layer
	state      int64          // that it keeps for an image, in bytes
	places     map[int]string // the layers' stages, as the config calls them
}

// layers names the layers of an outcome.
func (c *looped) layers(costs []control.LayerCost) []result.SolverLayer {
	out := make([]result.SolverLayer, len(costs))
	for i, l := range costs {
		out[i] = result.SolverLayer{At: c.Places[l.T], ControlNorm: l.Norm, Loss: l.Loss}
	}
	return out
}

// controller closes the loop of a control around a network. With fit unset a
// linear embedding, which must be fitted first, is replaced by the identity:
// enough to see whether everything else is in order.
func (o *opener) controller(ctx context.Context, n *control.Network, c *config.Control, fit bool) (*controller, error) {
	layers, err := cut(n, c)
	if err != nil {
		return nil, err
	}
	var embeddings []control.Layer
	places := map[int]string{}
	for _, l := range layers {
		places[l.t] = l.at()
		var g *onnx.Graph
		if fit || l.Embedding.Kind != control.Linear {
			g, err = o.embedding(ctx, l)
		} else if _, err = o.fitSet(l); err == nil {
			g, err = control.IdentityEmbedding(l.state())
		}
		if err != nil {
			return nil, fmt.Errorf("control %s on model %s: layer at %s: %w", c.Name, n.Name, l.at(), err)
		}
		embeddings = append(embeddings, control.Layer{T: l.t, Embedding: g})
	}
	return closeLoop(layers[0].chain, c, embeddings, places)
}

// closeLoop closes the loop of a control around a network that is cut for it.
func closeLoop(chain *control.Chain, c *config.Control, embeddings []control.Layer, places map[int]string) (
	*controller, error) {
	loop, err := control.NewController(chain, c.Name, c.Solver, embeddings)
	if err != nil {
		return nil, err
	}
	return &controller{loop, c, embeddings, loopState(chain), places}, nil
}

// around is the same control, of the same embeddings, around the same network where attacks run.
func (c *controller) around(n *control.Network) (*controller, error) {
	layers, err := cut(n, c.config)
	if err != nil {
		return nil, err
	}
	return closeLoop(layers[0].chain, c.config, c.embeddings, c.places)
}

// recorded is what results say of a control. The hashes of files and data sets are filled in
// when these are opened.
func recorded(c config.Control) result.Control {
	known := result.Control{Solver: c.Solver.Settings()}
	for _, l := range c.Layers {
		e := l.Embedding
		known.Layers = append(known.Layers, result.Layer{At: place(l.At).String(), Embedding: result.LayerEmbedding{
			Kind: e.Kind, Fit: e.Fit, Variance: e.Variance, Rank: e.Rank, Path: e.Path}})
	}
	return known
}

// embedding opens a layer's embedding, or fits a linear one.
func (o *opener) embedding(ctx context.Context, l placed) (*onnx.Graph, error) {
	e, known := l.Embedding, &o.record.Controls[l.control.Name].Layers[l.index].Embedding
	switch e.Kind {
	case control.Identity:
		return control.IdentityEmbedding(l.state())
	case control.ONNX:
		path := embeddingPath(e.Path, l.state())
		file, err := readModel(o.cfg.Files, path)
		if err != nil {
			return nil, fmt.Errorf("embedding %w", err)
		}
		g, err := control.ONNXEmbedding(file.Data, l.state())
		if err != nil {
			return nil, fmt.Errorf("embedding %s: %w", path, err)
		}
		if known.SHA256 = file.SHA256; path != e.Path {
			if known.SHA256 = ""; known.Files == nil {
				known.Files = map[string]string{}
			}
			known.Files[strconv.FormatInt(l.state().Items(), 10)] = file.SHA256
		}
		return g, nil
	}
	d, err := o.fitSet(l)
	if err != nil {
		return nil, err
	}
	s, fit, err := o.subspace(ctx, l, d, false)
	if err != nil {
		return nil, err
	}
	same := func(f result.Fit) bool { return f.Control == fit.Control && f.Model == fit.Model && f.At == fit.At }
	if !slices.ContainsFunc(o.record.Fits, same) {
		o.record.Fits = append(o.record.Fits, fit)
	}
	return control.LinearEmbedding(l.state(), s.Mean, s.Components, s.Rank)
}

// fitSet opens the data set that a linear embedding is fitted on.
func (o *opener) fitSet(l placed) (*dataset.Dataset, error) {
	d, err := o.open(l.Embedding.Fit, 0)
	if err != nil {
		return nil, err
	}
	if err := fitsShape(d.Shape(), l.net); err != nil {
		return nil, fmt.Errorf("the images of dataset %s %w", l.Embedding.Fit, err)
	}
	o.record.Controls[l.control.Name].Layers[l.index].Embedding.FitSHA256 = d.SHA256()
	return d, nil
}

// fitKey identifies the fit of a linear embedding on a data set.
func (o *opener) fitKey(l placed, d *dataset.Dataset) string {
	return pca.Key(l.chain.StatesID(l.t), l.state(), d.SHA256(), l.target(), o.cfg.Seed)
}

// subspace fits the principal subspace of the clean states, or unless anew takes it from the cache.
func (o *opener) subspace(ctx context.Context, l placed, d *dataset.Dataset, anew bool) (*pca.Subspace, result.Fit,
	error) {
	start := time.Now()
	dim, target := int(l.state().Items()), l.target()
	fit := func(s *pca.Subspace, cached bool) result.Fit {
		return result.Fit{Control: l.control.Name, Model: l.net.Name, At: l.at(), Dim: s.Dim, Rank: s.Rank,
			Variance: s.Variance, Samples: s.Samples, Cached: cached, Seconds: time.Since(start).Seconds()}
	}
	key := o.fitKey(l, d)
	if s, ok := o.cache.Load(key, dim); ok && !anew {
		return s, fit(s, true), nil
	}
	if o.together { // one of all shards fits, the others wait for it
		lock := flock.New(filepath.Join(o.cache.Dir, key+".lock"))
		err := os.MkdirAll(o.cache.Dir, 0o755)
		if err == nil {
			_, err = lock.TryLockContext(ctx, time.Second)
		}
		defer lock.Close()
		if ctx.Err() != nil {
			return nil, result.Fit{}, context.Cause(ctx)
		}
		if s, ok := o.cache.Load(key, dim); ok && err == nil { // else nothing can be locked there: each fits for itself
			return s, fit(s, true), nil
		}
	}
	o.progress.report(fitStarted{l.net.Name, dim, d.Len()})
	states := l.chain.CleanStates(l.t, d.Len(), d.Pixels)
	s, err := pca.Fit(ctx, dim, states, target, pca.Options{Seed: o.cfg.Seed, Workers: o.pool.Workers()})
	if err != nil {
		return nil, result.Fit{}, err
	}
	made := fit(s, false)
	done := fitFinished{Model: made.Model, Dim: dim, Images: s.Samples, Rank: s.Rank, Variance: s.Variance,
		Seconds: made.Seconds}
	if target.Capped(s) {
		done.Asked, done.MaxRank = target.Variance, pca.MaxRank(dim)
	}
	o.progress.report(done)
	if err := o.cache.Store(key, s); err != nil {
		o.progress.report(fitNotCached{err.Error()})
	}
	return s, made, nil
}
