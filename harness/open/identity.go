package open

import (
	"fmt"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"strings"
)

// Identify fills in the hashes of the files that the run will open, as far as they can be known
// without opening the networks: which embeddings {size} stands for, the held run knows.
func (o *Opener) Identify(held *result.File) error {
	for _, s := range o.Config.Suites {
		if _, err := o.Scored(s.Dataset); err != nil {
			return err
		}
	}
	for i := range o.Config.Models {
		m := &o.Config.Models[i]
		file, err := ReadModel(o.Config.Files, m.Path)
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Name, err)
		}
		o.Record.Models[m.Name] = Identified(m, file.SHA256)
	}
	for _, c := range o.Config.Controls {
		for i, l := range c.Layers {
			var before result.LayerEmbedding
			if old := held.Controls[c.Name].Layers; i < len(old) {
				before = old[i].Embedding
			}
			known := &o.Record.Controls[c.Name].Layers[i].Embedding
			if err := o.IdentifyEmbedding(l.Embedding, before, known); err != nil {
				return fmt.Errorf("control %s: layer at %s: %w", c.Name, Place(l.At), err)
			}
		}
	}
	return nil
}

// IdentifyEmbedding fills in what is known of an embedding from the hashes of its files. Those before stand for
// {size}.
func (o *Opener) IdentifyEmbedding(e config.Embedding, before result.LayerEmbedding,
	known *result.LayerEmbedding) error {
	switch {
	case e.Kind == control.Linear:
		d, err := o.Dataset(e.Fit, 0)
		if err == nil {
			known.FitSHA256 = d.SHA256()
		}
		return err
	case e.Kind != control.ONNX:
		return nil
	case !strings.Contains(e.Path, plan.SizeKey):
		file, err := ReadModel(o.Config.Files, e.Path)
		if err == nil {
			known.SHA256 = file.SHA256
		}
		return err
	}
	known.Files = map[string]string{}
	for size := range before.Files {
		file, err := ReadModel(o.Config.Files, strings.ReplaceAll(e.Path, plan.SizeKey, size))
		if err != nil {
			return err
		}
		known.Files[size] = file.SHA256
	}
	return nil
}
