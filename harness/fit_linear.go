package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/internal/atomicfile"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// linear fits a layer's principal subspace for each model. The file is out, where it is
// not empty, else one beside the config.
func (f *fitter) linear(ctx context.Context, layer int, out string) ([]Fitted, error) {
	names, err := f.models(nil)
	if err != nil {
		return nil, err
	}
	var all []Fitted
	for _, name := range names {
		layers, err := f.cut(name)
		if err != nil {
			return all, err
		}
		here := layers[layer]
		d, err := f.fitSet(here)
		if err != nil {
			return all, ConfigError{err}
		}
		done := Fitted{At: here.at(), Kind: config.Linear, Models: []string{name}}
		if done.Path, err = f.linearFile(done, out); err != nil {
			return all, err
		}
		s, cached, seconds, err := f.subspace(ctx, here, d, f.o.Force)
		if err != nil {
			return all, err
		}
		done.Rank, done.Dim, done.Variance, done.Cached, done.Seconds = s.Rank, s.Dim, s.Variance, cached, seconds
		if done.Path != "" {
			if err := f.writeLinear(here.state(), s, done, f.linearProvenance(done, here, d, s)); err != nil {
				return all, err
			}
		}
		all = append(all, done)
	}
	return all, nil
}

// linearFile is where a linear embedding is to be written, known to be free or its own, in
// a folder that is there; "" where only the cache is left.
func (f *fitter) linearFile(done Fitted, out string) (string, error) {
	path := out
	if path == "" {
		path = f.linearPath(done)
	}
	if path == "" {
		f.progress.Say("the bundled config's folder can't be written: the embedding stays in the cache; " +
			"--out FILE writes it as ONNX, of one model")
		return "", nil
	}
	if _, err := os.Stat(path); err == nil && !f.o.Force {
		g, _, err := simplify.Load(path, nil, nil)
		if err != nil || g.Meta["fit_sha256"] == "" {
			return "", ConfigError{fmt.Errorf("%s is there already and is no linear embedding that fit made; "+
				"--force replaces it, --out FILE writes another", path)}
		}
		if model, _, _ := strings.Cut(g.Meta["models"], " "); g.Meta["control"] != f.control.Name ||
			g.Meta["at"] != done.At || model != done.Models[0] {
			return "", ConfigError{fmt.Errorf("%s is there already and is the embedding of control %s at %s "+
				"of model %s; --force replaces it, --out FILE writes another",
				path, g.Meta["control"], g.Meta["at"], model)}
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		if out != "" {
			return "", err
		}
		f.progress.Say("%v: the embedding stays in the cache; --out FILE writes it as ONNX, of one model", err)
		return "", nil
	}
	return path, nil
}

// linearPath is where a linear embedding's file goes: embeddings/CONTROL-PLACE-MODEL.onnx
// beside the config; "" where that is bundled.
func (f *fitter) linearPath(done Fitted) string {
	folder, ok := f.cfg.Files.(config.Folder)
	if !ok {
		return ""
	}
	// Tensors have slashes, colons and more in their names.
	plain := func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}
	name := strings.Map(plain, f.control.Name+"-"+done.At+"-"+done.Models[0]) + ".onnx"
	return folder.Path(filepath.Join("embeddings", name))
}

// linearProvenance is what the file says of its making.
func (f *fitter) linearProvenance(done Fitted, l placed, d *dataset.Dataset, s *pca.Subspace) map[string]string {
	e := l.Embedding
	meta := map[string]string{
		"selfheal": Version, "onnxruntime": ort.Version(), "control": f.control.Name, "at": done.At,
		"models": done.Models[0] + " " + f.record.Models[done.Models[0]].SHA256, "kind": config.Linear,
		"dataset": e.Fit, "dataset_sha256": d.SHA256(), "config_sha256": f.cfg.Hash(),
		"seed":       strconv.FormatUint(f.cfg.Seed, 10),
		"fit_sha256": f.fitKey(l, d),
		"samples":    strconv.Itoa(s.Samples), "dim": strconv.Itoa(s.Dim), "rank": strconv.Itoa(s.Rank),
		"variance": strconv.FormatFloat(s.Variance, 'g', 9, 64),
	}
	if e.Rank == 0 {
		meta["variance_asked"] = strconv.FormatFloat(e.Variance, 'g', -1, 64)
	}
	return meta
}

// writeLinear writes a subspace as an embedding, unless the file holds this very fit.
func (f *fitter) writeLinear(state onnx.Shape, s *pca.Subspace, done Fitted, meta map[string]string) error {
	if _, err := os.Stat(done.Path); err == nil && !f.o.Force {
		if g, _, err := simplify.Load(done.Path, nil, nil); err == nil && g.Meta["fit_sha256"] == meta["fit_sha256"] {
			return nil
		}
	}
	g, err := control.LinearEmbedding(state, s.Mean, s.Components, s.Rank)
	if err != nil {
		return err
	}
	g.Meta = meta
	data, err := g.Encode()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(done.Path, data); err != nil {
		return fmt.Errorf("%s: %w", done.Path, err)
	}
	f.progress.Say("wrote %s", done.Path)
	return nil
}
