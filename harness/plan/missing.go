package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/models/onnx"
)

// Missing is a file or folder that a plan needs and that is not there.
type Missing struct {
	Kind string   // "data set", "network" or "embedding"
	Path string   // as the config has it
	For  []string // what of the config needs it
	What string   // what belongs there, in a sentence
	Make string   // the command that makes it; "" where none is known
}

// Missing lists data sets, networks and embeddings that are absent, in the config's order, each path once, and reads
// none. Fit is the command that fits a control's embeddings when the control's name is put behind it.
func (p *Plan) Missing(fit string) []Missing {
	var all []Missing
	add := func(m Missing, by string) {
		if i := slices.IndexFunc(all, func(o Missing) bool { return o.Path == m.Path }); i < 0 {
			m.For = []string{by}
			all = append(all, m)
		} else if !slices.Contains(all[i].For, by) {
			all[i].For = append(all[i].For, by)
		}
	}
	cfg, opened := p.Config, p.opened()
	for _, d := range cfg.Datasets {
		if slices.Contains(opened, d.Name) && Absent(cfg.Files, d.Path) {
			add(missingSet(d.Spec), d.Name)
		}
	}
	for _, j := range p.Jobs {
		if Absent(cfg.Files, j.Model.Path) {
			add(missingNetwork(j.Model.Path, cfg.Dataset(j.Suite.Dataset).Spec), j.Model.Name)
		}
	}
	for _, c := range cfg.Controls {
		for _, l := range c.Layers {
			if e := l.Embedding; e.Kind == control.ONNX && Absent(cfg.Files, e.Path) {
				add(missingEmbedding(e, fit+c.Name), c.Name+" at "+l.At.String())
			}
		}
	}
	return all
}

// opened names the data sets that are needed: those scored, and those that embeddings are yet to be fitted on.
func (p *Plan) opened() []string {
	var names []string
	for _, s := range p.Config.Suites {
		names = append(names, s.Dataset)
	}
	for _, c := range p.Config.Controls {
		for _, l := range c.Layers {
			e := l.Embedding
			if e.Kind == control.Linear || e.Fit != "" && Absent(p.Config.Files, e.Path) {
				names = append(names, e.Fit)
			}
		}
	}
	return names
}

// Lacks names a file that a job needs and that is absent; "" for none.
func (p *Plan) Lacks(j *Job) string {
	cfg := p.Config
	paths := []string{cfg.Dataset(j.Suite.Dataset).Path, j.Model.Path}
	for _, name := range j.Suite.Controls {
		for _, l := range cfg.Control(name).Layers {
			switch e := l.Embedding; e.Kind {
			case control.Linear:
				paths = append(paths, cfg.Dataset(e.Fit).Path)
			case control.ONNX:
				paths = append(paths, e.Path)
			}
		}
	}
	if i := slices.IndexFunc(paths, func(path string) bool { return Absent(cfg.Files, path) }); i >= 0 {
		return paths[i]
	}
	return ""
}

// SizeKey stands, in the path of an embedding, for the number of values of the state.
const SizeKey = "{size}"

// EmbeddingPath is the file of an embedding on states of a shape.
func EmbeddingPath(pattern string, state onnx.Shape) string {
	return strings.ReplaceAll(pattern, SizeKey, strconv.FormatInt(state.Items(), 10))
}

// Absent reports whether nothing lies at a path. Any number may stand for {size}: only networks know which is needed.
func Absent(files fs.FS, name string) bool {
	before, after, sized := strings.Cut(path.Base(name), SizeKey)
	if !sized {
		_, err := fs.Stat(files, name)
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid)
	}
	entries, _ := fs.ReadDir(files, path.Dir(name)) // a folder that can't be read has none
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		size, begins := strings.CutPrefix(e.Name(), before)
		size, ends := strings.CutSuffix(size, after)
		_, err := strconv.ParseUint(size, 10, 32)
		return begins && ends && err == nil
	})
}

// missingSet says what a data set's format expects and where the published ones are.
func missingSet(s dataset.Spec) Missing {
	return Missing{Kind: "data set", Path: s.Path, What: dataset.Find(s.Format).Needs}
}

// missingNetwork says how a network is made: scripts/zoo/train.py leaves ARCHITECTURE-standard/model.onnx, or -robust.
func missingNetwork(file string, images dataset.Spec) Missing {
	m := Missing{Kind: "network", Path: file,
		What: "an ONNX classifier of these images; scripts/zoo/export.py writes one from PyTorch's weights"}
	folder := path.Dir(file)
	data, name := dataset.Find(images.Format).Trained, path.Base(folder)
	i := max(strings.LastIndex(name, "-"), 0)
	how, known := map[string][2]string{"-standard": {"in the standard way", ""},
		"-robust": {"adversarially", " --loss trades"}}[name[i:]]
	if data == "" || !known || path.Base(file) != "model.onnx" {
		return m
	}
	m.What = "an ONNX classifier, trained " + how[0]
	from := images.Path
	if images.Format != "tiny-imagenet" || path.Base(from) == "val" || path.Base(from) == "train" {
		from = path.Dir(from)
	}
	m.Make = fmt.Sprintf("python3 scripts/zoo/train.py --architecture %s --data %s --folder %s%s --out %s",
		name[:i], data, from, how[1], folder)
	return m
}

// missingEmbedding says how an embedding is made: by fit, if the config says how.
func missingEmbedding(e config.Embedding, fit string) Missing {
	m := Missing{Kind: "embedding", Path: e.Path, What: "an ONNX model from states to states of the same shape"}
	if strings.Contains(e.Path, SizeKey) {
		m.What += "; " + SizeKey + " is how many values a state has, and each size has a file"
	}
	if e.Fit != "" { // of kind autoencoder
		m.Make = fit
	}
	return m
}

// DescribeMissing writes for each path what belongs there, what needs it, and the command that makes it.
func DescribeMissing(all []Missing) string {
	var b strings.Builder
	kind := ""
	for _, m := range all {
		if m.Kind != kind { // they stand together
			kind = m.Kind
			fmt.Fprintf(&b, "missing %ss\n", kind)
		}
		fmt.Fprintf(&b, "  %s\n    for %s: %s\n", m.Path, strings.Join(m.For, ", "), m.What)
		if m.Make != "" {
			fmt.Fprintf(&b, "    %s\n", m.Make)
		}
	}
	return b.String()
}

// Assumptions about absent images of which the config says nothing.
const (
	AssumedImages  = 10_000 // the size of the test sets of CIFAR and of Tiny-ImageNet's validation set
	AssumedClasses = 10
)
