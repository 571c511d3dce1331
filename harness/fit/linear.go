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
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// linear fits a layer's principal subspace for each model and writes it to out or, if that is empty, beside the
// config: embeddings/CONTROL-PLACE-MODEL.onnx.
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
		done := Fitted{Fit: result.Fit{At: here.Place()}, Kind: control.Linear, Models: []string{name}}
		var old map[string]string // metadata of the existing file
		if done.Path, old, err = f.linearFile(done, out); err != nil {
			return err
		}
		var s *pca.Subspace
		if s, done.Fit, err = f.Subspace(ctx, here, d, f.o.Force); err != nil {
			return err
		}
		meta := f.linearProvenance(done, here, d, s)
		if done.Path != "" && old["fit_sha256"] != meta["fit_sha256"] {
			if err := f.writeLinear(here.State(), s, done.Path, meta); err != nil {
				return err
			}
		}
		f.done = append(f.done, done)
	}
	return nil
}

// linearFile returns where to write a linear embedding, and the metadata of its own earlier file there. It makes the
// folder. path is "" if only the cache is left.
func (f *fitter) linearFile(done Fitted, out string) (path string, old map[string]string, err error) {
	if path = out; path == "" {
		folder, ok := f.Config.Files.(config.Folder)
		if !ok {
			f.Progress.Report(progress.EmbeddingNotWritten{Error: "the bundled config's folder can't be written"})
			return "", nil, nil
		}
		name := f.control.Name + "-" + done.At + "-" + done.Models[0] + ".onnx"
		path = folder.Path(filepath.Join("embeddings", unsafePath.ReplaceAllString(name, "_")))
	}
	if err := f.embedding(path).May(); err != nil {
		return "", nil, err
	}
	if _, err := os.Stat(path); err == nil && !f.o.Force {
		g, _, err := simplify.Load(path, simplify.Options{})
		if err != nil || g.Meta["fit_sha256"] == "" {
			return "", nil, occupied(path, "is there already and is no linear embedding that fit made")
		}
		old = g.Meta
		if model, _, _ := strings.Cut(old["models"], " "); old["control"] != f.control.Name || old["at"] != done.At ||
			model != done.Models[0] {
			return "", nil, occupied(path, "is there already and is the embedding of control %s at %s of model %s",
				old["control"], old["at"], model)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		if out != "" {
			return "", nil, err
		}
		f.Progress.Report(progress.EmbeddingNotWritten{Error: err.Error()})
		return "", nil, nil
	}
	return path, old, nil
}

// occupied returns the error about a file in an embedding's place.
func occupied(path, what string, args ...any) error {
	return open.Wrong(fmt.Errorf("%s %s; --force replaces it, --out FILE writes another", path,
		fmt.Sprintf(what, args...)))
}

// unsafePath matches characters of tensors' names that do not belong in a file's name.
var unsafePath = regexp.MustCompile(`[/\\:*?"<>| ]`)

// origin returns the metadata that every embedding's file has about its fit.
func (f *fitter) origin(done Fitted, fit string, d *dataset.Dataset, seed uint64) map[string]string {
	models := lists.Map(done.Models, func(name string) string { return name + " " + f.Record.Models[name].SHA256 })
	return map[string]string{"selfheal": harness.Version, "onnxruntime": ort.Version(),
		"config_sha256": f.Config.Hash(), "control": f.control.Name, "at": done.At,
		"models": strings.Join(models, ", "), "dataset": fit, "dataset_sha256": d.SHA256(),
		"seed": strconv.FormatUint(seed, 10)}
}

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

func (f *fitter) writeLinear(state onnx.Shape, s *pca.Subspace, path string, meta map[string]string) error {
	g, err := control.LinearEmbedding(state, s)
	if err != nil {
		return err
	}
	g.Meta = meta
	data, err := g.Encode()
	if err != nil {
		return err
	}
	if err := f.embedding(path).WriteSynced(data); err != nil {
		return err
	}
	f.Progress.Report(progress.EmbeddingWritten{Path: path})
	return nil
}
