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
	"selfheal/internal/lists"
	"selfheal/models/onnx"
)

// Missing is a file or folder that a plan needs and that is absent.
type Missing struct {
	Kind string   // "data set", "network" or "embedding"
	Path string   // as the config has it
	For  []string // the parts of the config that need it
	What string   // describes the file or folder, in a sentence
	Make string   // the command that makes it; "" if none is known
}

// Missing lists absent data sets, networks and embeddings, in the config's order, each path once, and reads none. fit
// is the command that fits a control's embeddings, without the control's name at its end.
func (p *Plan) Missing(fit string) []Missing {
	var all []Missing
	add := func(m Missing, by string) {
		i := slices.IndexFunc(all, func(o Missing) bool { return o.Path == m.Path })
		if i < 0 {
			i, all = len(all), append(all, m)
		}
		all[i].For = lists.Once(all[i].For, by)
	}
	cfg, opened := p.Config, p.opened()
	for _, d := range cfg.Datasets {
		if slices.Contains(opened, d.Name) && Absent(cfg.Files, d.Path) {
			add(Missing{Kind: "data set", Path: d.Path, What: dataset.Find(d.Format).Needs}, d.Name)
		}
	}
	for _, j := range p.Jobs {
		for _, m := range append(slices.Clone(j.Model.Members), *j.Model) {
			if Absent(cfg.Files, m.Path) {
				add(missingNetwork(m.Path, cfg.Dataset(j.Suite.Dataset).Spec), j.Model.Name)
			}
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

// opened names the data sets that are needed: to score, and to fit embeddings that are not there yet.
func (p *Plan) opened() []string {
	names := lists.Map(p.Config.Suites, func(s config.Suite) string { return s.Dataset })
	for _, c := range p.Config.Controls {
		for _, l := range c.Layers {
			e := l.Embedding
			if e.Kind == control.Linear {
				names = append(names, e.Fit)
			} else if t := e.Training; t != nil && Absent(p.Config.Files, e.Path) {
				names = append(names, t.Fit)
			}
		}
	}
	return names
}

// Lacks names an absent file that a job needs, or returns "".
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

// SizeKey stands for the number of the state's values in the path of an embedding.
const SizeKey = "{size}"

// EmbeddingPath returns the file of an embedding on states of a shape.
func EmbeddingPath(pattern string, state onnx.Shape) string {
	return strings.ReplaceAll(pattern, SizeKey, strconv.FormatInt(state.Items(), 10))
}

// Absent reports whether nothing lies at a path. {size} matches any number, as only networks know which is needed.
func Absent(files fs.FS, name string) bool {
	before, after, sized := strings.Cut(path.Base(name), SizeKey)
	if !sized {
		_, err := fs.Stat(files, name)
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid)
	}
	entries, _ := fs.ReadDir(files, path.Dir(name)) // an unreadable folder counts as empty
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		size, begins := strings.CutPrefix(e.Name(), before)
		size, ends := strings.CutSuffix(size, after)
		_, err := strconv.ParseUint(size, 10, 32)
		return begins && ends && err == nil
	})
}

// missingNetwork says how to make a network: scripts/zoo/train.py writes ARCHITECTURE-standard/model.onnx, or -robust.
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

// missingEmbedding says how to make an embedding: by fit, if the config has a training for it.
func missingEmbedding(e config.Embedding, fit string) Missing {
	m := Missing{Kind: "embedding", Path: e.Path, What: "an ONNX model from states to states of the same shape"}
	if strings.Contains(e.Path, SizeKey) {
		m.What += "; " + SizeKey + " is how many values a state has, and each size has a file"
	}
	if e.Training != nil {
		m.Make = fit
	}
	return m
}

// DescribeMissing writes, for each path, its description, what needs it, and the command that makes it.
func DescribeMissing(all []Missing) string {
	var b strings.Builder
	kind := ""
	for _, m := range all {
		if m.Kind != kind { // one heading for each kind
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
