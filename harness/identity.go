package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/journal"
)

// compare holds that the output folder is empty or has a run of this plan, whose journal it opens if it
// is unfinished. It returns the results of a finished one.
func (r *run) compare(o Options) (finished *result.File, err error) {
	out := r.out
	held := out.old
	if out.plan != nil {
		held = out.plan.Run
	}
	switch {
	case o.Force:
		return nil, nil
	case held == nil && o.Resume:
		return nil, ConfigError{fmt.Errorf("--resume: %s holds no run", out.dir)}
	case held == nil:
		return nil, nil
	}
	if err := r.identify(held); err != nil {
		return nil, ConfigError{err}
	}
	list, err := r.differences(held)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s holds another run: %s; %w", out.dir, result.SayFirst(list, "there", "here"), ErrOtherRun)
	}
	if err == nil && out.old != nil { // of another plan where a run with --force was stopped
		list, err = r.differences(out.old)
		out.same = len(list) == 0
	}
	switch {
	case err != nil:
		return nil, err
	case out.plan == nil && out.old.Finished != nil:
		r.progress.report(runIsThere{out.dir, *out.old.Finished})
		return out.old, failures(out.old)
	case out.plan == nil:
		return nil, nil
	}
	if held.Finished != nil { // of a shard
		if now, err := out.journalState(); err == nil && now == out.plan.Journal {
			r.progress.report(runIsThere{out.dir, *held.Finished})
			return held, nil
		}
	}
	r.record.Created, r.record.Command = held.Created, held.Command
	var damaged int
	if r.journal, damaged, err = journal.Open(out.work("")); err == nil {
		r.progress.report(runContinues{out.dir, held.Created, out.lock.before, damaged})
	}
	return nil, err
}

// failures is the error of a finished run's cells and seeds that have no verdicts.
func failures(f *result.File) error {
	var list []error
	for _, c := range f.Cells {
		if c.Error != "" && c.Error != noClean {
			list = append(list, errors.New(c.Error))
		}
	}
	for _, text := range f.Failed {
		list = append(list, errors.New(text))
	}
	return errors.Join(list...)
}

// differences lists what a held run differs in from this one, whose files are identified.
func (r *run) differences(held *result.File) ([]result.Difference, error) {
	return differ(held, r.record)
}

// differ lists what one run differs in from another.
func differ(one, other *result.File) ([]result.Difference, error) {
	there, err := provenanceOf(one)
	if err != nil {
		return nil, err
	}
	here, err := provenanceOf(other)
	if err != nil {
		return nil, err
	}
	list := result.Differences("", there, here)
	if named := slices.DeleteFunc(slices.Clone(list), func(d result.Difference) bool {
		return d.Path == "config_sha256" // which tells nobody what it is
	}); len(named) > 0 {
		return named, nil
	}
	return list, nil
}

// identify fills in the hashes of the files that the run will open, as far as they can be known
// without opening the networks: which embeddings {size} stands for, the held run knows.
func (r *run) identify(held *result.File) error {
	for _, s := range r.cfg.Suites {
		if _, err := r.scored(s.Dataset); err != nil {
			return err
		}
	}
	for i := range r.cfg.Models {
		m := &r.cfg.Models[i]
		file, err := readModel(r.cfg.Files, m.Path)
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Name, err)
		}
		r.record.Models[m.Name] = identified(m, file.SHA256)
	}
	for _, c := range r.cfg.Controls {
		for i, l := range c.Layers {
			var before result.LayerEmbedding
			if old := held.Controls[c.Name].Layers; i < len(old) {
				before = old[i].Embedding
			}
			known := &r.record.Controls[c.Name].Layers[i].Embedding
			if err := r.identifyEmbedding(l.Embedding, before, known); err != nil {
				return fmt.Errorf("control %s: layer at %s: %w", c.Name, place(l.At), err)
			}
		}
	}
	return nil
}

// identifyEmbedding fills in what is known of an embedding from the hashes of its files. Those before stand for
// {size}.
func (o *opener) identifyEmbedding(e config.Embedding, before result.LayerEmbedding,
	known *result.LayerEmbedding) error {
	switch {
	case e.Kind == control.Linear:
		d, err := o.open(e.Fit, 0)
		if err == nil {
			known.FitSHA256 = d.SHA256()
		}
		return err
	case e.Kind != control.ONNX:
		return nil
	case !strings.Contains(e.Path, sizeKey):
		file, err := readModel(o.cfg.Files, e.Path)
		if err == nil {
			known.SHA256 = file.SHA256
		}
		return err
	}
	known.Files = map[string]string{}
	for size := range before.Files {
		file, err := readModel(o.cfg.Files, strings.ReplaceAll(e.Path, sizeKey, size))
		if err != nil {
			return err
		}
		known.Files[size] = file.SHA256
	}
	return nil
}

// provenanceOf is what numbers depend on, as it stands in results.json.
func provenanceOf(f *result.File) (all map[string]any, err error) {
	of := *f
	of.Created, of.Finished, of.Command, of.Failed = time.Time{}, nil, nil, nil
	of.Fits, of.Cells, of.Solver, of.Images = nil, nil, nil, nil
	e := f.Environment
	of.Environment = result.Environment{Selfheal: e.Selfheal, ONNXRuntime: e.ONNXRuntime, Provider: e.Provider,
		Precision: e.Precision, Winograd: e.Winograd}
	of.Suites = slices.Clone(f.Suites)
	for i := range of.Suites {
		of.Suites[i].Title, of.Suites[i].Published = "", nil
	}
	of.Models = maps.Clone(f.Models)
	for name, m := range of.Models {
		m.Parameters, m.Segments, m.FLOPs = 0, 0, 0
		of.Models[name] = m
	}
	of.Controls = maps.Clone(f.Controls)
	for name, c := range of.Controls {
		c.Layers = slices.Clone(c.Layers)
		for i := range c.Layers {
			c.Layers[i].Embedding.Path = ""
		}
		of.Controls[name] = c
	}
	data, err := json.Marshal(of)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}
