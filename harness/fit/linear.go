package fit

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/harness/progress"
	"selfheal/internal/atomicfile"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// linear fits a layer's principal subspace for each model. The file is out, where it is
// not empty, else one beside the config.
func (f *fitter) linear(ctx context.Context, layer int, out string) error {
	names, err := f.models(nil)
	if err != nil {
		return err
	}
	for _, name := range names {
		layers, err := f.cut(name)
		if err != nil {
			return err
		}
		here := layers[layer]
		d, err := f.FitSet(here)
		if err != nil {
			return open.Wrong(err)
		}
		done := Fitted{At: here.Place(), Kind: control.Linear, Models: []string{name}}
		if done.Path, err = f.linearFile(done, out); err != nil {
			return err
		}
		s, fit, err := f.Subspace(ctx, here, d, f.o.Force)
		if err != nil {
			return err
		}
		done.Rank, done.Dim, done.Variance = fit.Rank, fit.Dim, fit.Variance
		done.Cached, done.Seconds = fit.Cached, fit.Seconds
		if err := f.writeLinear(here.State(), s, done, f.linearProvenance(done, here, d, s)); err != nil {
			return err
		}
		f.done = append(f.done, done)
	}
	return nil
}

// linearFile is where a linear embedding is to be written, known to be free or its own, in
// a folder that is there; "" where only the cache is left.
func (f *fitter) linearFile(done Fitted, out string) (string, error) {
	path := out
	if path == "" {
		path = f.linearPath(done)
	}
	if path == "" {
		f.Progress.Report(progress.EmbeddingNotWritten{Error: "the bundled config's folder can't be written"})
		return "", nil
	}
	if _, err := os.Stat(path); err == nil && !f.o.Force {
		g, _, err := simplify.Load(path, simplify.Options{})
		if err != nil || g.Meta["fit_sha256"] == "" {
			return "", open.Wrong(fmt.Errorf("%s is there already and is no linear embedding that fit made; "+
				"--force replaces it, --out FILE writes another", path))
		}
		if model, _, _ := strings.Cut(g.Meta["models"], " "); g.Meta["control"] != f.control.Name ||
			g.Meta["at"] != done.At || model != done.Models[0] {
			return "", open.Wrong(fmt.Errorf("%s is there already and is the embedding of control %s at %s "+
				"of model %s; --force replaces it, --out FILE writes another",
				path, g.Meta["control"], g.Meta["at"], model))
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		if out != "" {
			return "", err
		}
		f.Progress.Report(progress.EmbeddingNotWritten{Error: err.Error()})
		return "", nil
	}
	return path, nil
}

// linearPath is where a linear embedding's file goes: embeddings/CONTROL-PLACE-MODEL.onnx
// beside the config; "" where that is bundled.
func (f *fitter) linearPath(done Fitted) string {
	folder, ok := f.Config.Files.(config.Folder)
	if !ok {
		return ""
	}
	name := f.control.Name + "-" + done.At + "-" + done.Models[0] + ".onnx"
	return folder.Path(filepath.Join("embeddings", unsafePath.ReplaceAllString(name, "_")))
}

// unsafePath matches what a file's name had better not hold: tensors have slashes, colons and more in theirs.
var unsafePath = regexp.MustCompile(`[/\\:*?"<>| ]`)

// origin is what any embedding's file says of its making.
func (f *fitter) origin(done Fitted, fit string, d *dataset.Dataset, seed uint64) map[string]string {
	var models []string
	for _, name := range done.Models {
		models = append(models, name+" "+f.Record.Models[name].SHA256)
	}
	return map[string]string{"selfheal": harness.Version, "onnxruntime": ort.Version(),
		"config_sha256": f.Config.Hash(),
		"control":       f.control.Name, "at": done.At, "models": strings.Join(models, ", "), "dataset": fit,
		"dataset_sha256": d.SHA256(), "seed": strconv.FormatUint(seed, 10)}
}

// linearProvenance is what the file says of its making.
func (f *fitter) linearProvenance(done Fitted, l open.Layer, d *dataset.Dataset, s *pca.Subspace) map[string]string {
	e := l.Embedding
	meta := f.origin(done, e.Fit, d, f.Config.Seed)
	maps.Copy(meta, map[string]string{"kind": control.Linear, "fit_sha256": f.FitKey(l, d),
		"samples": strconv.Itoa(s.Samples), "dim": strconv.Itoa(s.Dim), "rank": strconv.Itoa(s.Rank),
		"variance": strconv.FormatFloat(s.Variance, 'g', 9, 64)})
	if e.Rank == 0 {
		meta["variance_asked"] = strconv.FormatFloat(e.Variance, 'g', -1, 64)
	}
	return meta
}

// writeLinear writes a subspace as an embedding, unless it has no file or that holds this very fit.
func (f *fitter) writeLinear(state onnx.Shape, s *pca.Subspace, done Fitted, meta map[string]string) error {
	if done.Path == "" {
		return nil
	}
	old, _, err := simplify.Load(done.Path, simplify.Options{})
	if err == nil && !f.o.Force && old.Meta["fit_sha256"] == meta["fit_sha256"] {
		return nil
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
	if err := atomicfile.WriteSynced(done.Path, data); err != nil {
		return fmt.Errorf("%s: %w", done.Path, err)
	}
	f.Progress.Report(progress.EmbeddingWritten{Path: done.Path})
	return nil
}
