package open

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/models/heads"
)

// task reads what a model's task takes from files, and returns its description for results, nil for classification.
func (o *Opener) task(m *config.Model) (t heads.Task, known *result.Task, err error) {
	c := m.Task
	if c.Classifies() {
		return t, nil, nil
	}
	t.Settings, known = c.Settings, &result.Task{Settings: c.Settings}
	switch {
	case c.Head != "":
		if t.File, err = ReadModel(o.Config.Files, c.Head); err != nil {
			return t, nil, fmt.Errorf("model %s: head %w", m.Name, err)
		}
		known.SHA256 = t.File.SHA256
	case c.Texts != "":
		shape, values, err := dataset.ReadArray(o.Config.Files, c.Texts, "texts", "embeddings", "text_features")
		if err == nil && (len(shape) != 2 || shape[0] < 2 || shape[1] == 0) {
			err = fmt.Errorf("embeddings of texts have the shape [classes, d], not %v", shape)
		}
		if err != nil {
			return t, nil, fmt.Errorf("model %s: texts %s: %w", m.Name, c.Texts, err)
		}
		t.Texts = slices.Collect(slices.Chunk(values, shape[1]))
		known.SHA256 = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, shape, values)))
	}
	return t, known, nil
}
