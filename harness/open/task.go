package open

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/vector"
	"selfheal/models/heads"
	"selfheal/models/ort"
)

// task is [ReadTask]. The description of a threshold that follows from a file of pairs has the pairs' hash.
func (o *Opener) task(m *config.Model) (heads.Task, *result.Task, error) {
	t, known, err := ReadTask(o.Config.Files, m)
	if err == nil && t.FAR > 0 {
		var d *dataset.Dataset
		if d, err = o.pairs(m); err == nil {
			known.SHA256 = d.SHA256()
			d.Close()
		}
	}
	return t, known, err
}

// pairs opens all pairs in the file of the data set that a model is scored on first.
func (o *Opener) pairs(m *config.Model) (*dataset.Dataset, error) {
	name := o.imagesOf(m, "")
	if name == "" {
		return nil, fmt.Errorf("model %s: far: no suite says which pairs it is asked about", m.Name)
	}
	spec := Spec(o.Config, name, o.model)
	spec.Indices, spec.Sample, spec.Limit, spec.SHA256 = nil, nil, 0, ""
	return dataset.Open(spec, o.Config.Files, 0)
}

// ReadTask reads what a model's task takes from files, and returns its description for results, nil for
// classification.
func ReadTask(files fs.FS, m *config.Model) (t heads.Task, known *result.Task, err error) {
	c := m.Task
	if c.Classifies() {
		return t, nil, nil
	}
	t.Settings, known = c.Settings, &result.Task{Settings: c.Settings}
	switch {
	case c.Head != "":
		if t.File, err = ReadModel(files, c.Head); err != nil {
			return t, nil, fmt.Errorf("model %s: head %w", m.Name, err)
		}
		known.SHA256 = t.File.SHA256
	case c.Texts != "":
		shape, values, err := dataset.ReadArray(files, c.Texts, "texts", "embeddings", "text_features")
		if err == nil && (len(shape) != 2 || shape[0] < 2 || shape[1] == 0) {
			err = fmt.Errorf("embeddings of texts have the shape [classes, d], not %v", shape)
		}
		if err == nil {
			t.Texts = slices.Collect(slices.Chunk(values, shape[1]))
			none := func(text []float32) bool { return !(vector.Sum2(text) > 0) || !vector.Finite(text) }
			if i := slices.IndexFunc(t.Texts, none); i >= 0 {
				err = fmt.Errorf("the embedding of text %d has no direction: it is 0, or not finite", i)
			}
		}
		if err != nil {
			return t, nil, fmt.Errorf("model %s: texts %s: %w", m.Name, c.Texts, err)
		}
		known.SHA256 = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, shape, values)))
	}
	return t, known, nil
}

// threshold sets the threshold by which a verification falsely accepts as large a share of the pairs in its data set's
// file as its config says, and the pairs' hash. It returns a notice of it.
func (o *Opener) threshold(ctx context.Context, pool *ort.Pool, m *config.Model, images string, task *heads.Task,
	known *result.Task) (notice string, err error) {
	bare := *m
	bare.Task = config.Task{}
	n, err := o.NetworkOn(ctx, pool, &bare, images)
	if err != nil {
		return "", err
	}
	defer n.Close()
	d, err := o.pairs(m)
	if err != nil {
		return "", err
	}
	defer d.Close()
	known.SHA256 = d.SHA256()
	size := n.Shape().Size()
	if has := len(d.Truth(0)); has != size+1 {
		return "", fmt.Errorf("a truth has the other image's %d values and 1 or 0, not %d numbers", size, has)
	}
	var alike []float64 // of the pairs that are not the same
	for i := range d.Len() {
		truth := d.Truth(i)
		if truth[size] != 0 {
			continue
		}
		a, b := make([]float32, n.Classes()), make([]float32, n.Classes())
		_, x, _, err := d.Image(i)
		for _, ask := range []struct{ x, z []float32 }{{truth[:size], b}, {x, a}} {
			if err == nil {
				err = n.Logits(ctx, ask.x, ask.z)
			}
		}
		if err != nil {
			return "", err
		}
		alike = append(alike, heads.Alike(m.Task.Metric, a, b))
	}
	threshold, accepted, err := split(alike, m.Task.FAR)
	if err != nil {
		return "", err
	}
	if m.Task.Metric == heads.Distance {
		threshold = -threshold
	}
	task.Threshold = threshold
	return fmt.Sprintf("by the threshold %.4g it accepts %d of %d pairs that are not the same", threshold,
		accepted, len(alike)), nil
}

// split returns a threshold and the number of values above it, which is at most the given share of them. Equal values
// stay on one side.
func split(values []float64, share float64) (threshold float64, above int, err error) {
	slices.Sort(values)
	n := len(values)
	first := n - int(share*float64(n)+1e-9) // 0.29 of 100 are 29
	for 0 < first && first < n && values[first] == values[first-1] {
		first++
	}
	if first == 0 || first == n {
		return 0, 0, fmt.Errorf("no threshold accepts %v of %d pairs that are not the same: that is less than one or "+
			"all of them, or they are equally alike; give more pairs, or the threshold", share, n)
	}
	return values[first]/2 + values[first-1]/2, n - first, nil
}
