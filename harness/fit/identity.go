package fit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"selfheal/control"
	"selfheal/control/train"
	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// fitVersion is part of every training's identity. Raise it when the same training gives another embedding.
const fitVersion = "fit/5"

// noiseVersion is part of the identity of perturbed objectives. Raise it when the same keys give other noise or starts.
const noiseVersion = 2

// trainingIdentity holds everything that a training's bits depend on. It is JSON in the metadata of the embedding and
// in checkpoints.
type trainingIdentity struct {
	Recipe       string `json:"recipe"`
	Selfheal     string `json:"selfheal"`
	ONNXRuntime  string `json:"onnxruntime"`
	Provider     string `json:"provider"`
	Precision    string `json:"precision,omitzero"` // of the passes, unless float32
	Winograd     bool   `json:"winograd"`
	At           string `json:"at"`
	Architecture string `json:"architecture,omitzero"`
	train.Dimensions
	StartSHA256   string `json:"start_sha256,omitzero"`
	DatasetSHA256 string `json:"dataset_sha256"`
	train.Settings
	Noise    int                              `json:"noise,omitzero"`
	Models   []string                         `json:"models"` // in the order by which steps draw them
	Networks map[string]result.Network        `json:"networks"`
	Before   map[string]result.LayerEmbedding `json:"before,omitempty"`      // by place
	Linear   *uint64                          `json:"linear_seed,omitempty"` // if a linear embedding is before it
	Along    *alongIdentity                   `json:"along,omitempty"`
}

// alongIdentity is of the embedding that trains along.
type alongIdentity struct {
	At           string `json:"at"`
	Architecture string `json:"architecture,omitzero"`
	train.Dimensions
	StartSHA256    string               `json:"start_sha256,omitzero"`
	Reconstruction train.Reconstruction `json:"reconstruction"`
}

// identify returns the identity of a layer's training. It opens networks only if a place or a state's size is not
// known without them.
func (f *fitter) identify(layer int, t *config.Training, names []string) ([]byte, error) {
	d, err := f.Dataset(t.Fit, 0)
	if err != nil {
		return nil, err
	}
	id := trainingIdentity{Recipe: fitVersion, Selfheal: harness.Version, ONNXRuntime: ort.Version(),
		Provider: f.Pool.Target(true).Provider, Winograd: f.Config.Runtime.Winograd,
		At:           open.Place(f.control.Layers[layer].At).String(),
		Architecture: t.Architecture, Dimensions: t.Dimensions, DatasetSHA256: d.SHA256(),
		Settings: t.Settings, Models: names,
		Networks: map[string]result.Network{}, Before: map[string]result.LayerEmbedding{}}
	if on := target(f.Pool); on.Precision != ort.Float32 {
		id.Precision = on.Precision
	}
	if id.HeldOut, err = heldOut(t, d); err != nil {
		return nil, err
	}
	if t.Objective == train.Gaussian || t.Objective == train.Denoising {
		id.Noise = noiseVersion
	}
	id.Seed = t.Seed
	if id.StartSHA256, err = hashOfStart(f.Config.Files, t); err != nil {
		return nil, err
	}
	if other := t.Along; other != nil {
		id.Along = &alongIdentity{At: open.Place(f.control.Layers[along(layer)].At).String(),
			Architecture: other.Architecture, Dimensions: other.Dimensions, Reconstruction: other.Reconstruction}
		if id.Along.StartSHA256, err = hashOfStart(f.Config.Files, other); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		m, err := f.model(name)
		if err != nil {
			return nil, err
		}
		known, err := f.Describe(m)
		if err != nil {
			return nil, err
		}
		id.Networks[name] = known.Network()
	}
	before, err := f.before(layer, names)
	if err != nil {
		return nil, err
	}
	for _, i := range before {
		at := open.Place(f.control.Layers[i].At).String()
		if id.Before[at], err = f.identifyBefore(i, names); err != nil {
			return nil, fmt.Errorf("the layer at %s, which comes before: %w", at, err)
		}
		if id.Before[at].Kind == control.Linear {
			id.Linear = &f.Config.Seed
		}
	}
	return json.Marshal(id)
}

// hashOfStart returns the hash of the file that a training starts with; "" without one.
func hashOfStart(files fs.FS, t *config.Training) (string, error) {
	if t.Start == "" {
		return "", nil
	}
	file, err := open.ReadModel(files, t.Start)
	if err != nil {
		return "", fmt.Errorf("start %w", err)
	}
	return file.SHA256, nil
}

// identifyBefore describes the embedding of another layer.
func (f *fitter) identifyBefore(layer int, names []string) (result.LayerEmbedding, error) {
	e, sizes := f.control.Layers[layer].Embedding, result.LayerEmbedding{Files: map[string]string{}}
	if strings.Contains(e.Path, plan.SizeKey) {
		for _, name := range names {
			layers, err := f.cut(name)
			if err != nil {
				return sizes, err
			}
			sizes.Files[strconv.FormatInt(layers[layer].State().Items(), 10)] = ""
		}
	}
	known := f.Record.Controls[f.control.Name].Layers[layer].Embedding
	err := f.IdentifyEmbedding(e, sizes, &known)
	known.Path = ""
	return known, err
}

// before lists the layers that a network meets before one. If the config does not tell, places are compared in the
// networks.
func (f *fitter) before(layer int, names []string) (list []int, err error) {
	for i, l := range f.control.Layers {
		first, known := precedes(l.At, f.control.Layers[layer].At)
		for k := 0; k < len(names) && !known && !first; k++ {
			layers, err := f.cut(names[k])
			if err != nil {
				return nil, err
			}
			first = layers[i].T < layers[layer].T
		}
		if first {
			list = append(list, i)
		}
	}
	return list, nil
}

// precedes reports whether a place comes before another in every network; known is false if the places alone do not
// tell.
func precedes(a, b config.At) (first, known bool) {
	switch {
	case a == b || b.Kind == config.AtInput:
		return false, true
	case a.Kind == config.AtInput:
		return true, true
	case a.Kind == config.AtBoundary && b.Kind == config.AtBoundary:
		return a.Boundary < b.Boundary, true
	}
	return false, false
}

// trainedFrom reads the identity of the training that made an embedding. It is nil if the file does not tell; the
// error is an [fs.ErrNotExist] if there is none.
func trainedFrom(path string) ([]byte, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	g, _, err := simplify.Load(path, simplify.Options{})
	if err != nil || g.Meta["training"] == "" {
		return nil, nil
	}
	return []byte(g.Meta["training"]), nil
}

// anotherTraining returns the error about files of another training at a path. It says how the trainings differ.
func anotherTraining(path string, there, here []byte) error {
	if !json.Valid(there) {
		return occupied(path, "is there already and does not say of what training it is")
	}
	list := result.Differences(json.RawMessage(there), json.RawMessage(here))
	return occupied(path, "is of another training: %s", result.SayFirst(list, "there", "here"))
}
