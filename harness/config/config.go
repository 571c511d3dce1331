// Package config reads the strict YAML config: what to attack, how, and what
// controls to heal it with. An unknown or misspelt key, a wrong type, a value
// outside its range and a reference to a name that is not defined are all
// errors with line, column and a suggestion, all told at once; a config that loads is one that
// can be planned. No file that a config names is opened here.
//
// docs/config.md is the reference of every key.
package config

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/dataset"
	"selfheal/internal/fault"
	"selfheal/internal/input"
)

// Version is the config version that this program reads.
const Version = 1

// None is the reserved name of "no attack" (clean accuracy) and of "no control".
const None = "none"

// Config is a whole config, or the part of it that [Config.Selected] returns.
// Every slice is in the file's order.
type Config struct {
	Seed            uint64
	OtherSeeds      []uint64 // under which the attacks are made again; nil in most configs
	DefaultSuites   []string // all suites when the file names none
	SaveAdversarial bool     // the default of suites
	Runtime         Runtime
	Datasets        []Dataset
	Models          []Model
	Controls        []Control
	Attacks         []Attack
	Suites          []Suite
	Groups          []Group
	Theory          bool // of what [Config.Selected] returned: the report has the theory's checks and figures

	// Gate holds the rules of check; nil for none. Not part of [Config.Hash].
	Gate *Gate `json:"-"`
	// Limit is --limit: at most this many images of every scored set, 0 for no
	// such limit. Sets opened for a fit are not cut. Set by the caller; part of [Config.Hash].
	Limit int
	// Files opens the paths that the config names, exactly as they stand in it.
	Files fs.FS `json:"-"`
}

// Dataset is a named set of images.
type Dataset struct {
	Name string
	dataset.Spec
}

// Model is a named network.
type Model struct {
	Name   string
	Path   string // for Config.Files
	SHA256 string // lower-case hex that the file must have; "" when not given
	// Scale, Mean and Std are the preprocessing (x·Scale − Mean)/Std, Mean and Std with one value for all channels or
	// one a channel. Mean and Std are nil, and Scale 0, when there is none.
	Scale      float64
	Mean, Std  []float64
	Layout     string   // of the input, one of [simplify.Layouts]; "" where the model tells
	Output     string   // logits or probabilities
	OutputName string   // the output that is taken; "": the first
	SplitAt    []string // boundaries as tensor names; nil for the default ones
}

// Control is a named closed-loop controller.
type Control struct {
	Name   string
	Solver control.Solver
	Layers []Layer
}

// Layer is one embedding and where it stands.
type Layer struct {
	At        At
	Embedding Embedding
}

// Embedding is what a state is drawn towards.
type Embedding struct {
	Kind     string  // one of [control.EmbeddingKinds]; an autoencoder is, once decoded, ONNX with a Training
	Fit      string  // linear: the data set it is fitted on
	Variance float64 // linear: share of the variance kept, in (0,1]; 0 when Rank is given
	Rank     int     // linear: number of components; 0 when Variance is given
	Path     string  // onnx: for Config.Files
	// Training says how selfheal fit makes the file at Path; nil for a file of the user's own. It
	// is no part of [Config.Hash]: a run reads the file.
	Training *Training `json:"-"`
}

// Attack is a named attack; it makes one cell for each of its Epsilons, or of its Corruptions.
type Attack struct {
	Name string
	attacks.Setup
	Epsilons    []float64
	Corruptions []attacks.Corruption // of kind corruption, which has no epsilons; nil for others
	// Prove has bounds decide images that AutoAttack's first component leaves.
	Prove bool
}

// Suite is a named set of cells: its models, without and with each of its
// controls, under no attack and each of its attacks.
type Suite struct {
	Name            string
	Title           string
	Dataset         string
	Models          []string
	Controls        []string // without "none"
	Attacks         []string // without "none"
	Mode            string   // one of [result.Modes]
	SaveAdversarial bool
	Solver          *SolverStudy // nil for none
	// Published are numbers to show beside ours; nil for none. Not part of [Config.Hash].
	Published *Published
}

// Load reads the config at path. Each of sets is a --set argument
// ("attacks.NAME.key=value"), applied before anything is checked, so that it
// obeys the same rules. The paths in the config are relative to its folder.
func Load(path string, sets ...string) (*Config, error) {
	data, err := input.Read(path, maxBytes)
	if err != nil { // names the file once, without the system call that failed
		return nil, fmt.Errorf("config %s: %w", path, fault.Reason(err))
	}
	return Parse(path, data, Folder(filepath.Dir(path)), sets...)
}

// Parse is [Load] for a config in memory: name stands for it in messages and
// files opens the paths it names (a bundled config has an embed.FS).
func Parse(name string, data []byte, files fs.FS, sets ...string) (*Config, error) {
	root, err := parseTree(name, data)
	if err != nil {
		return nil, err
	}
	d, cfg := decoder{sets: len(sets) > 0}, &Config{}
	for _, s := range sets {
		if err := set(root, s); err != nil {
			d.errs = append(d.errs, err)
		}
	}
	d.config(cfg).decode(&d, root, "")
	d.resolve(cfg, root)
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

// Folder is a folder of the machine as an [fs.FS] that, unlike os.DirFS, also
// takes names that are absolute or lead out of it: a config may name any file.
type Folder string

// Open opens name, relative to the folder unless it is absolute.
func (f Folder) Open(name string) (fs.File, error) { return input.Open(f.Path(name)) }

// Path is the machine's path of name.
func (f Folder) Path(name string) string {
	name = filepath.FromSlash(name)
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(string(f), name)
}

func find[T any](list []T, name string, nameOf func(*T) string) *T {
	for i := range list {
		if nameOf(&list[i]) == name {
			return &list[i]
		}
	}
	return nil
}

func datasetName(d *Dataset) string { return d.Name }
func modelName(m *Model) string     { return m.Name }
func controlName(c *Control) string { return c.Name }
func attackName(a *Attack) string   { return a.Name }
func suiteName(s *Suite) string     { return s.Name }

// Dataset returns the data set called name, or nil.
func (c *Config) Dataset(name string) *Dataset { return find(c.Datasets, name, datasetName) }

// Model returns the model called name, or nil.
func (c *Config) Model(name string) *Model { return find(c.Models, name, modelName) }

// Control returns the control called name, or nil.
func (c *Config) Control(name string) *Control { return find(c.Controls, name, controlName) }

// Attack returns the attack called name, or nil.
func (c *Config) Attack(name string) *Attack { return find(c.Attacks, name, attackName) }

// Suite returns the suite called name, or nil.
func (c *Config) Suite(name string) *Suite { return find(c.Suites, name, suiteName) }
