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
)

// planKey is the journal's first block: results without cells, which say of what run it is.
const planKey = "plan"

// compare holds that the output folder is empty or has a run of this plan, which it opens if it
// is unfinished. It returns the results of a finished one.
func (r *run) compare(o Options) (finished *result.File, err error) {
	out := r.out
	if o.Force {
		return nil, nil
	}
	var begun *result.File
	if out.begun {
		if begun, err = r.openJournal(); err != nil {
			return nil, err
		}
	}
	for _, held := range []*result.File{begun, out.old} {
		if held == nil {
			continue
		}
		list, err := r.differences(held)
		if err != nil {
			return nil, ConfigError{err}
		}
		if len(list) > 0 {
			return nil, fmt.Errorf("%s holds another run: %s; %w", out.dir, result.SayFirst(list, "there", "here"),
				ErrOtherRun)
		}
	}
	out.same = out.old != nil
	switch {
	case begun != nil:
		r.record.Created = begun.Created
		r.progress.report(runContinues{out.dir, begun.Created, out.lock.before, r.damaged})
	case out.old != nil && out.old.Finished != nil:
		r.progress.report(runIsThere{out.dir, *out.old.Finished})
		return out.old, failures(out.old)
	case o.Resume && out.old == nil:
		return nil, ConfigError{fmt.Errorf("--resume: %s holds no run", out.dir)}
	}
	return nil, nil
}

// failures is the error of a run's cells that have no verdicts.
func failures(f *result.File) error {
	var list []error
	for _, c := range f.Cells {
		if c.Error != "" {
			list = append(list, errors.New(c.Error))
		}
	}
	return errors.Join(list...)
}

// openJournal opens the journal of an earlier run and reads of what plan it is.
func (r *run) openJournal() (plan *result.File, err error) {
	if r.journal, r.damaged, err = r.out.begin(false); err != nil {
		return nil, err
	}
	err = r.journal.Block(planKey).Read(func(line []byte) error { return json.Unmarshal(line, &plan) })
	if err == nil && plan == nil {
		r.progress.report(journalLost{r.out.dir})
		err = r.journal.Close()
		r.journal = nil
	}
	return plan, err
}

// begin opens a journal unless an earlier run's is open.
func (r *run) begin(o Options) (err error) {
	if r.journal != nil {
		return nil
	}
	if r.journal, _, err = r.out.begin(true); err == nil {
		err = r.journal.Block(planKey).Append(r.record)
	}
	return err
}

// differences lists what a held run differs in from this one.
func (r *run) differences(held *result.File) ([]result.Difference, error) {
	if err := r.identify(held); err != nil {
		return nil, err
	}
	there, err := provenanceOf(held)
	if err != nil {
		return nil, err
	}
	here, err := provenanceOf(r.record)
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
	for _, j := range r.plan.Jobs {
		if _, err := r.scored(j.Suite.Dataset); err != nil {
			return err
		}
		file, err := readModel(r.cfg.Files, j.Model.Path)
		if err != nil {
			return fmt.Errorf("model %s: %w", j.Model.Name, err)
		}
		r.record.Models[j.Model.Name] = identified(j.Model, file.SHA256)
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
	of.Created, of.Finished, of.Command, of.Theory = time.Time{}, nil, nil, nil
	of.Fits, of.Cells, of.Solver = nil, nil, nil
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
