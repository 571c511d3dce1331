// Package config reads the strict YAML config: what to attack and how, and which controls heal it. It owns the keys,
// their defaults, the hash of a config and its JSON Schema. [Load] or [Parse] reads a whole config, [Config.Selected]
// returns the part that some suites use, and [Config.Hash] identifies this part. An unknown or misspelt key, a wrong
// type, a value outside its range and an undefined name are errors with line, column and a suggestion, all reported
// at once; a config that loads can be planned. The package opens no file that a config names.
package config

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/setting"
	"selfheal/internal/suggest"
)

// Version is the config version that this program reads.
const Version = 1

// Config is a whole config, or the part of it that [Config.Selected] returns. Every slice is in the file's order.
type Config struct {
	Seed            uint64
	OtherSeeds      []uint64 // further seeds of the attacks; nil in most configs
	DefaultSuites   []string // all suites if the file names none
	SaveAdversarial bool     // default for suites
	Runtime         Runtime
	Datasets        []Dataset
	Models          []Model
	Controls        []Control
	Attacks         []Attack
	Suites          []Suite
	Groups          []Group
	Theory          bool  // set by [Config.Selected]: the report has the theory's checks and figures
	Gate            *Gate `json:"-"` // the rules of check; nil if the config has none
	// Limit is --limit: at most this many images of every scored set, 0 for no such limit. It does not cut sets
	// opened for a fit. The caller sets it; it is part of [Config.Hash].
	Limit int
	// Files opens the paths that the config names, exactly as they stand in it.
	Files fs.FS `json:"-"`
	// Function asks the function that a model stands for about images of a shape [N, C, H, W]; nil if there is none to
	// ask. The answers are logits, as many of each image, or labels, one of each.
	Function func(x []float32, shape [4]int) (answers []float32, labels bool, err error) `json:"-"`
}

// Load reads the config at path. Each of sets is a --set argument ("attacks.NAME.key=value"), applied before anything
// is checked, so that it obeys the same rules. The paths in the config are relative to its folder.
func Load(path string, sets ...string) (*Config, error) {
	data, err := input.Read(path, maxBytes)
	if err != nil { // names the file once, and not the system call that failed
		return nil, fmt.Errorf("config %s: %w", path, fault.Reason(err))
	}
	return Parse(path, data, Folder(filepath.Dir(path)), sets...)
}

// Parse is [Load] for a config in memory. Messages call it name; files opens the paths that it names.
func Parse(name string, data []byte, files fs.FS, sets ...string) (*Config, error) {
	root, err := parseTree(name, data)
	if err != nil {
		return nil, err
	}
	return decode(root, files, sets...)
}

func decode(root *node, files fs.FS, sets ...string) (*Config, error) {
	d, cfg := decoder{sets: len(sets) > 0}, &Config{}
	d.set(root, sets)
	cfg.object().decode(&d, root, "")
	d.resolve(root)
	if len(d.errs) == 0 {
		for _, finish := range d.later {
			finish(cfg)
		}
	}
	if err := d.errs.sorted(); err != nil {
		return nil, err
	}
	cfg.Files = files
	for i := range cfg.Attacks {
		cfg.Attacks[i].Precision = cfg.Runtime.Reduced()
	}
	return cfg, nil
}

// Folder is a folder of the machine as an [fs.FS]. Unlike os.DirFS it also takes names that are absolute or lead out
// of it, as a config may name any file.
type Folder string

// Open opens name, relative to the folder unless it is absolute.
func (f Folder) Open(name string) (fs.File, error) { return input.Open(f.Path(name)) }

// Path returns the machine's path of name.
func (f Folder) Path(name string) string {
	if name = filepath.FromSlash(name); filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(string(f), name)
}

// Inputs lists the machine's paths of the files and folders that the config names. If trained is set, it includes
// embeddings that `selfheal fit` makes. Files that are built into the program have no path.
func (c *Config) Inputs(trained bool) (paths []string) {
	folder, ok := c.Files.(Folder)
	if !ok {
		return nil
	}
	add := func(path string) {
		if path != "" {
			paths = append(paths, folder.Path(path))
		}
	}
	for _, d := range c.Datasets {
		add(d.Path)
		add(d.Targets)
		add(d.Truth)
	}
	for _, m := range c.Models {
		add(m.Path)
		for _, one := range m.Members {
			add(one.Path)
		}
		add(m.Task.Texts)
		add(m.Task.Head)
	}
	for _, k := range c.Controls {
		for _, l := range k.Layers {
			if t := l.Embedding.Training; t != nil {
				add(t.Start)
			}
			if l.Embedding.Training == nil || trained {
				add(l.Embedding.Path)
			}
		}
	}
	return paths
}

func (c *Config) object() object {
	return object{rows: []row{
		required("version", version(), "version of the config's layout"),
		optional("seed", seed(&c.Seed), "0", "keys every random number"),
		optional("seeds", c.seeds(), "1",
			"how many seeds attacks run under, from `seed` up, or a list of seeds; each costs the attacks again"),
		optional("default_suites", names(&c.DefaultSuites, "a suite", "suites or groups", 1), "",
			"suites that `run` runs without `--suite`; default: all").notHashed(),
		optional("save_adversarial", boolean(&c.SaveAdversarial), "false",
			// each suite's own value counts
			"write adversarial images, `adversarial/*.npy`, float32 [N, C, H, W]").notHashed(),
		optional("runtime", c.Runtime.object().value(), "{}", "how to compute"),
		required("datasets", named(&c.Datasets, datasetName, false, datasetObject),
			"labelled images, by names of your choice"),
		required("models", named(&c.Models, modelName, false, modelObject), "ONNX classifiers, by name"),
		optional("controls", named(&c.Controls, controlName, true, controlObject), "",
			"closed-loop controls, by name; none, the undefended network, is always defined"),
		optional("attacks", named(&c.Attacks, attackName, true, attackObject), "",
			"attacks, by name; none, clean accuracy, is always defined"),
		optional("suites", named(&c.Suites, suiteName, false, c.suiteObject), "",
			"cells to score, by name: every model, undefended and under each control, under none and each attack"),
		optional("groups", named(&c.Groups, groupName, false, groupObject), "",
			"names for several suites together").notHashed(),
		optional("gate", c.gate(), "", "when `selfheal check` passes").notHashed(),
	}, check: func(d *decoder, n *node, where string) {
		if suites := n.get("suites"); suites != nil && len(suites.entries) == 0 {
			d.fail(suites.pos, "suites must define at least one suite")
		}
		if seeds := n.get("seeds"); seeds != nil && seeds.kind == listNode && n.get("seed") != nil {
			d.fail(seeds.pos, "seeds: a list of seeds stands for seed too; give one of the two, or how many seeds "+
				"there are")
		}
		c.join(d, n)
		for i, g := range c.Groups {
			if c.Suite(g.Name) != nil {
				d.fail(n.get("groups").entries[i].pos, "groups.%s: a suite has that name already; choose another",
					g.Name)
			}
		}
		if c.DefaultSuites == nil {
			c.DefaultSuites = namesOf(c.Suites, suiteName)
		}
	}}
}

const maxSeeds = 1000

// seeds reads the attacks' seeds, a number of them or a list, into Seed and OtherSeeds. It comes after the config's
// seed.
func (c *Config) seeds() value {
	count, all := 0, []uint64(nil)
	number := whole(&count, setting.Interval{Min: 1, Max: maxSeeds}).then(func(*decoder, *node, string) {
		for i := 1; i < count; i++ {
			c.OtherSeeds = append(c.OtherSeeds, c.Seed+uint64(i))
		}
	})
	listed := list(&all, span{least: 1, most: maxSeeds, once: true}, seed).then(func(*decoder, *node, string) {
		if len(all) > 0 {
			c.Seed, c.OtherSeeds = all[0], all[1:]
		}
	})
	return either("how many seeds there are, from 1 to 1000, or a list of them", number, listed)
}

func version() value {
	number := strconv.Itoa(Version)
	v := custom(number+", the only one this program reads", schema{"const": Version}, func(n *node) bool {
		return !n.quoted && n.text == number
	})
	v.want = number
	return v
}

// Unknown returns the error about a name that the config does not define; kind says what was looked for.
func (c *Config) Unknown(kind, name string) error {
	known := map[string][]string{"data set": namesOf(c.Datasets, datasetName), "model": namesOf(c.Models, modelName),
		"control": namesOf(c.Controls, controlName), "attack": namesOf(c.Attacks, attackName)}
	return fmt.Errorf("the config has no %s %q%s", kind, name, suggest.Or(name, "it has", known[kind]))
}

func find[T any](list []T, name string, nameOf func(*T) string) *T {
	i := slices.Index(namesOf(list, nameOf), name)
	if i < 0 {
		return nil
	}
	return &list[i]
}

func datasetName(d *Dataset) string { return d.Name }
func modelName(m *Model) string     { return m.Name }
func controlName(c *Control) string { return c.Name }
func attackName(a *Attack) string   { return a.Name }
func suiteName(s *Suite) string     { return s.Name }

// Dataset, Model, Control, Attack and Suite return what is called name, or nil.
func (c *Config) Dataset(name string) *Dataset { return find(c.Datasets, name, datasetName) }
func (c *Config) Model(name string) *Model     { return find(c.Models, name, modelName) }
func (c *Config) Control(name string) *Control { return find(c.Controls, name, controlName) }
func (c *Config) Attack(name string) *Attack   { return find(c.Attacks, name, attackName) }
func (c *Config) Suite(name string) *Suite     { return find(c.Suites, name, suiteName) }
