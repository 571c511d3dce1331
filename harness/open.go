package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// scored opens the data set that a suite scores, cut to --limit.
func (r *runner) scored(name string) (*dataset.Dataset, []attacks.Image, error) {
	d, err := r.open(name, r.cfg.Limit)
	if err != nil {
		return nil, nil, err
	}
	set := make([]attacks.Image, d.Len())
	for i := range set {
		set[i].ID, set[i].Pixels, set[i].Label = d.Image(i)
	}
	r.file.Datasets[name] = result.Dataset{N: d.Len(), SHA256: d.SHA256(), ClassNames: d.ClassNames()}
	return d, set, nil
}

// open opens a data set once for each limit.
func (r *runner) open(name string, limit int) (*dataset.Dataset, error) {
	key := fmt.Sprintf("%s/%d", name, limit)
	if d, ok := r.sets[key]; ok {
		return d, nil
	}
	d, err := dataset.Open(r.cfg.Dataset(name).Spec, r.cfg.Files, limit)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", name, err)
	}
	r.sets[key] = d
	return d, nil
}

// read reads a model file that the config names, with the weights that lie beside it.
func (r *runner) read(path string) (*onnx.File, error) {
	if folder, ok := r.cfg.Files.(config.Folder); ok {
		f, err := onnx.Read(folder.Path(path))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err)) // under the name that the config gives it
		}
		return f, nil
	}
	f, err := onnx.ReadFS(r.cfg.Files, path)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// network opens a model.
func (r *runner) network(m *config.Model) (*control.Network, error) {
	file, err := r.read(m.Path)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	if m.SHA256 != "" && !strings.EqualFold(m.SHA256, file.SHA256) {
		return nil, fmt.Errorf("model %s: %s has SHA-256 %s, the config says %s", m.Name, m.Path, file.SHA256, m.SHA256)
	}
	o := control.NetworkOptions{Mean: float32s(m.Mean), Std: float32s(m.Std), Probabilities: m.Output == "probabilities", At: m.SplitAt,
		Direct: !r.cfg.Runtime.Winograd || r.pool.Provider() != ort.ProviderCPU}
	n, err := control.NewNetwork(r.pool, m.Name, file.Data, o)
	if err != nil {
		return nil, fmt.Errorf("model %s (%s): %w", m.Name, m.Path, err)
	}
	r.file.Models[m.Name] = result.Model{SHA256: file.SHA256, Parameters: n.Parameters, Segments: len(n.Boundaries()) + 1, FLOPs: n.FLOPs()}
	return n, nil
}

func float32s(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
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

// chain cuts a network for a control and finds its layers' segments.
func (r *runner) chain(n *control.Network, c *config.Control) (*control.Chain, []int, error) {
	fail := func(err error) (*control.Chain, []int, error) {
		return nil, nil, fmt.Errorf("control %s on model %s: %w", c.Name, n.Name, err)
	}
	var places []control.At
	for _, l := range c.Layers {
		places = append(places, place(l.At))
	}
	chain, err := n.Cut(places...)
	if err != nil {
		return fail(err)
	}
	at := make([]int, len(places))
	for i, p := range places {
		if at[i], err = chain.Index(p); err != nil {
			return fail(err)
		}
	}
	return chain, at, nil
}

// controller is a closed loop around a network.
type controller struct {
	*control.Controller
	state  int64          // that it keeps for an image, in bytes
	places map[int]string // the layers' stages, as the config calls them
}

// layers names the layers of an outcome.
func (c *controller) layers(costs []control.LayerCost) []result.SolverLayer {
	out := make([]result.SolverLayer, len(costs))
	for i, l := range costs {
		out[i] = result.SolverLayer{At: c.places[l.T], ControlNorm: l.Norm, Loss: l.Loss}
	}
	return out
}

// controller closes the loop of a control around a network. With fit unset a
// linear embedding, which must be fitted first, is replaced by the identity:
// enough to see whether everything else is in order.
func (r *runner) controller(ctx context.Context, n *control.Network, c *config.Control, fit bool) (*controller, error) {
	chain, at, err := r.chain(n, c)
	if err != nil {
		return nil, err
	}
	var layers []control.Layer
	places := map[int]string{}
	for i, l := range c.Layers {
		places[at[i]] = place(l.At).String()
		var g *onnx.Graph
		if fit || l.Embedding.Kind != config.Linear {
			g, err = r.embedding(ctx, n, chain, c, place(l.At), at[i], l.Embedding)
		} else if _, err = r.fitSet(n, l.Embedding); err == nil {
			g, err = control.IdentityEmbedding(chain.StateShape(at[i]))
		}
		if err != nil {
			return nil, fmt.Errorf("control %s on model %s: layer at %s: %w", c.Name, n.Name, place(l.At), err)
		}
		layers = append(layers, control.Layer{T: at[i], Embedding: g})
	}
	loop, err := control.NewController(chain, c.Name, c.Solver, layers)
	if err != nil {
		return nil, err
	}
	return &controller{loop, loopState(chain), places}, nil
}

func (r *runner) embedding(ctx context.Context, n *control.Network, chain *control.Chain, c *config.Control, at control.At, t int, e config.Embedding) (*onnx.Graph, error) {
	state := chain.StateShape(t)
	switch e.Kind {
	case config.Identity:
		return control.IdentityEmbedding(state)
	case config.ONNX:
		path := embeddingPath(e.Path, state)
		file, err := r.read(path)
		if err != nil {
			return nil, fmt.Errorf("embedding %w", err)
		}
		g, err := control.ONNXEmbedding(file.Data, state)
		if err != nil {
			return nil, fmt.Errorf("embedding %s: %w", path, err)
		}
		used := result.Embedding{Control: c.Name, At: at.String(), SHA256: file.SHA256}
		if !slices.Contains(r.file.Embeddings, used) {
			r.file.Embeddings = append(r.file.Embeddings, used)
		}
		return g, nil
	}
	d, err := r.fitSet(n, e)
	if err != nil {
		return nil, err
	}
	s, cached, seconds, err := r.subspace(ctx, n, chain, t, d, pca.Target{Variance: e.Variance, Rank: e.Rank}, false)
	if err != nil {
		return nil, err
	}
	fit := result.Fit{Control: c.Name, Model: n.Name, At: at.String(), Dim: s.Dim, Rank: s.Rank, Variance: s.Variance,
		Samples: s.Samples, Cached: cached, Seconds: seconds}
	same := func(f result.Fit) bool { return f.Control == fit.Control && f.Model == fit.Model && f.At == fit.At }
	if !slices.ContainsFunc(r.file.Fits, same) {
		r.file.Fits = append(r.file.Fits, fit)
	}
	return control.LinearEmbedding(state, s.Mean, s.Components, s.Rank)
}

// fitSet opens the data set that a linear embedding is fitted on.
func (r *runner) fitSet(n *control.Network, e config.Embedding) (*dataset.Dataset, error) {
	d, err := r.open(e.Fit, 0)
	if err != nil {
		return nil, err
	}
	if shape := d.Shape(); (attacks.Shape{C: shape[0], H: shape[1], W: shape[2]}) != n.Shape() {
		return nil, fmt.Errorf("dataset %s has images of shape %v, the model takes %v", e.Fit, shape, n.Shape())
	}
	return d, nil
}

// subspace fits the principal subspace of the clean states, or unless anew takes it from the cache.
func (r *runner) subspace(ctx context.Context, n *control.Network, chain *control.Chain, t int, d *dataset.Dataset, target pca.Target, anew bool) (*pca.Subspace, bool, float64, error) {
	start := time.Now()
	dim := int(chain.StateShape(t).Items())
	key := pca.Key(chain.StatesID(t), chain.StateShape(t), d.SHA256(), target, r.seed)
	if s, ok := r.cache.Load(key, dim); ok && !anew {
		return s, true, time.Since(start).Seconds(), nil
	}
	r.progress.Say("fitting a linear embedding of %d-dimensional states of %s on %d images", dim, n.Name, d.Len())
	states, err := chain.CleanStates(t, d.Len(), d.Pixels)
	if err != nil {
		return nil, false, 0, err
	}
	s, err := pca.Fit(ctx, dim, states, target, pca.Options{Seed: r.seed, Workers: n.Pool().Workers()})
	if err != nil {
		return nil, false, 0, err
	}
	seconds := time.Since(start).Seconds()
	reached := fmt.Sprintf("%.2f %% of the variance", 100*s.Variance)
	if target.Capped(s) {
		reached += fmt.Sprintf(" (%.6g %% were asked for: states of %d values may have %d components, %d images give %d)",
			100*target.Variance, dim, pca.MaxRank(dim), s.Samples, s.Samples-1)
	}
	r.progress.Say("fitted rank %d of %d, %s, in %.1f s", s.Rank, dim, reached, seconds)
	if err := r.cache.Store(key, s); err != nil {
		r.progress.Say("the fit could not be cached: %v", err)
	}
	return s, false, seconds, nil
}
