package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"selfheal/harness/result"
)

// Selected returns the part of the config that the named suites use (the
// default suites when none is named; a group stands for its suites): those suites in the
// order named, and the data sets, models, controls and attacks they refer to in the file's
// order.
func (c *Config) Selected(suites []string) (*Config, error) {
	if len(suites) == 0 {
		suites = c.DefaultSuites
	}
	part := *c
	part.DefaultSuites, part.Suites = nil, nil
	used := map[string]map[string]bool{"dataset": {}, "model": {}, "control": {}, "attack": {}}
	use := func(kind string, names ...string) {
		for _, name := range names {
			used[kind][name] = true
		}
	}
	members, theory, err := c.members(suites)
	if err != nil {
		return nil, err
	}
	part.Theory = theory
	for _, s := range members {
		part.DefaultSuites = append(part.DefaultSuites, s.Name)
		part.Suites = append(part.Suites, *s)
		use("dataset", s.Dataset)
		use("model", s.Models...)
		use("control", s.Controls...)
		use("attack", s.Attacks...)
		if s.Solver != nil {
			use("control", s.Solver.Controls...)
			use("attack", s.Solver.Attack)
		}
	}
	part.Models = keep(c.Models, used["model"], modelName)
	part.Controls = keep(c.Controls, used["control"], controlName)
	part.Attacks = keep(c.Attacks, used["attack"], attackName)
	use("dataset", part.FitDatasets()...)
	part.Datasets = keep(c.Datasets, used["dataset"], datasetName)
	return &part, nil
}

// FitDatasets returns the names of the data sets that the controls are fitted on, each once.
func (c *Config) FitDatasets() []string {
	var names []string
	for _, control := range c.Controls {
		for _, l := range control.Layers {
			if fit := l.Embedding.Fit; fit != "" && !slices.Contains(names, fit) {
				names = append(names, fit)
			}
		}
	}
	return names
}

func keep[T any](list []T, used map[string]bool, nameOf func(*T) string) []T {
	var kept []T
	for i := range list {
		if used[nameOf(&list[i])] {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// Hash returns the SHA-256, in hex, of what the config means as JSON with
// sorted keys: the same for two configs that ask for the same results, however
// they are written, ordered, commented and wherever they lie. Left out is what
// can't change a result (workers, threads, which device, and on the CPU the batch)
// and what only stands beside one (titles, published numbers). Call it on what
// [Config.Selected] returned, with Limit set.
func (c *Config) Hash() string {
	type mapping = map[string]any
	c = c.Portable()
	fits, scored := c.FitDatasets(), map[string]bool{}
	suites := mapping{}
	for _, s := range c.Suites {
		scored[s.Dataset] = true
		o := mapping{
			"dataset": s.Dataset, "models": s.Models, "controls": orEmpty(s.Controls), "attacks": orEmpty(s.Attacks),
			"mode": s.Mode, "save_adversarial": s.SaveAdversarial}
		if s.Solver != nil {
			o["solver"] = s.Solver.hash()
		}
		suites[s.Name] = o
	}
	datasets := mapping{}
	for _, d := range c.Datasets {
		o := mapping{"format": d.Format, "path": d.Path, "indices": orEmpty(d.Indices),
			"classes": d.Classes, "names": orEmpty(d.ClassNames)}
		if d.Shaping != (result.Shaping{}) {
			o["shaping"] = d.Shaping
		}
		if scored[d.Name] {
			o["limit"] = tighter(d.Limit, c.Limit)
		}
		if slices.Contains(fits, d.Name) {
			o["fit_limit"] = d.Limit
		}
		datasets[d.Name] = o
	}
	models := mapping{}
	for _, m := range c.Models {
		o := mapping{"path": m.Path, "sha256": m.SHA256, "mean": orEmpty(m.Mean), "std": orEmpty(m.Std),
			"output": m.Output, "split": orEmpty(m.SplitAt)}
		if m.Scale != 0 || m.Layout != "" || m.OutputName != "" {
			o["scale"], o["layout"], o["output_name"] = m.Scale, m.Layout, m.OutputName
		}
		models[m.Name] = o
	}
	controls := mapping{}
	for _, control := range c.Controls {
		var layers []mapping
		for _, l := range control.Layers {
			layers = append(layers, mapping{"at": l.At, "embedding": l.Embedding})
		}
		controls[control.Name] = mapping{"solver": control.Solver, "layers": layers}
	}
	attacks := mapping{}
	for _, a := range c.Attacks {
		kinds, params := []string{}, maps.Clone(a.Parameters)
		for i, component := range a.Components {
			kinds = append(kinds, component.Kind)
			for name, v := range component.Parameters {
				params[fmt.Sprintf("components[%d].%s", i, name)] = v
			}
		}
		attacks[a.Name] = mapping{"kind": a.Kind, "version": a.Version, "norm": a.Norm.String(), "epsilon": a.Epsilons,
			"components": kinds, "params": params}
		if a.Prove { // which runs networks as their files have them
			attacks[a.Name].(mapping)["prove"] = true
		}
		if a.Corruptions != nil {
			attacks[a.Name] = mapping{"kind": a.Kind, "corruptions": a.Corruptions}
		}
	}
	batch := 0
	if c.Runtime.Target().Row().Device() { // its kernels are chosen by shape, and round differently
		batch = c.Runtime.Batch
	}
	plan := mapping{
		"version": Version, "seed": c.Seed, "provider": c.Runtime.Provider, "winograd": c.Runtime.Winograd,
		"cuda_batch": batch, "datasets": datasets, "models": models, "controls": controls, "attacks": attacks,
		"suites": suites}
	if precision := c.Runtime.Reduced(); precision != "" {
		plan["precision"] = precision
	}
	if len(c.OtherSeeds) > 0 {
		plan["other_seeds"] = c.OtherSeeds
	}
	text, err := json.Marshal(plan)
	if err != nil {
		panic("config: the plan can't be written as JSON: " + err.Error()) // numbers are finite, so it always can
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// orEmpty makes an absent list and an empty one the same.
func orEmpty[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// tighter returns the smaller of two limits, where 0 is none.
func tighter(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Portable is the config, its paths relative to its folder where they lie in it: it means the same, and in the same
// words wherever the folder is.
func (c *Config) Portable() *Config {
	p := *c
	p.Datasets, p.Models, p.Controls = slices.Clone(c.Datasets), slices.Clone(c.Models), slices.Clone(c.Controls)
	for i := range p.Datasets {
		p.Datasets[i].Path = c.relative(p.Datasets[i].Path)
	}
	for i := range p.Models {
		p.Models[i].Path = c.relative(p.Models[i].Path)
	}
	for i := range p.Controls {
		layers := slices.Clone(p.Controls[i].Layers)
		for k := range layers {
			layers[k].Embedding.Path = c.relative(layers[k].Embedding.Path)
		}
		p.Controls[i].Layers = layers
	}
	return &p
}

// relative makes an absolute path that lies in the config's folder relative to it.
func (c *Config) relative(path string) string {
	folder, ok := c.Files.(Folder)
	if !ok || !filepath.IsAbs(filepath.FromSlash(path)) {
		return path
	}
	base, err := filepath.Abs(string(folder))
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(base, filepath.FromSlash(path)); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}
