package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"selfheal/harness/dataset"
)

// Outputs say what a model's output is.
var Outputs = []string{"logits", "probabilities"}

// The ways a suite's adversarial images may be made.
const (
	Oblivious        = "oblivious"         // once per model, on the undefended network
	WhiteboxDetached = "whitebox-detached" // through the defended network, controls constant in the gradient
	WhiteboxThrough  = "whitebox-through"  // the gradient goes through the controls too
	WhiteboxBPDA     = "whitebox-bpda"     // every control replaced by the identity in the backward pass
)

// Modes are the values of a suite's mode. A caller that has not built one of them refuses it.
var Modes = []string{Oblivious, WhiteboxDetached, WhiteboxThrough, WhiteboxBPDA}

// config decodes the whole file.
func (d *decoder) config(n *node) *Config {
	c := &Config{Runtime: defaultRuntime}
	d.object(n, "",
		required("version", d.version),
		optional("seed", d.seed(&c.Seed)),
		optional("seeds", d.seeds(c, n.get("seed") != nil)),
		optional("default_suites", func(n *node, where string) {
			d.words(&c.DefaultSuites, "the name of a suite", 1)(n, where)
			d.refer(n, where, "suites or groups")
		}),
		optional("save_adversarial", d.boolean(&c.SaveAdversarial)),
		optional("runtime", func(n *node, where string) { c.Runtime = d.runtime(n, where) }),
		required("datasets", d.named(func(name string, n *node, where string) {
			c.Datasets = append(c.Datasets, d.dataset(name, n, where))
		})),
		required("models", d.named(func(name string, n *node, where string) {
			c.Models = append(c.Models, d.model(name, n, where))
		})),
		optional("controls", d.named(func(name string, n *node, where string) {
			d.reserved(name, n, where)
			c.Controls = append(c.Controls, d.control(name, n, where))
		})),
		optional("attacks", d.named(func(name string, n *node, where string) {
			d.reserved(name, n, where)
			c.Attacks = append(c.Attacks, d.attack(name, n, where))
		})),
		required("suites", d.named(func(name string, n *node, where string) {
			c.Suites = append(c.Suites, d.suite(name, n, where, c.SaveAdversarial))
		})),
		optional("groups", d.named(func(name string, n *node, where string) {
			if c.Suite(name) != nil {
				d.fail(n.pos, "%s: a suite has that name already; choose another", where)
			}
			c.Groups = append(c.Groups, d.group(name, n, where))
		})),
		optional("gate", func(n *node, where string) { c.Gate = d.gate(n, where) }),
	)
	if s := n.get("suites"); s != nil && s.kind == mapNode && len(s.entries) == 0 {
		d.fail(s.pos, "suites must define at least one suite")
	}
	if n.get("default_suites") == nil {
		for _, s := range c.Suites {
			c.DefaultSuites = append(c.DefaultSuites, s.Name)
		}
	}
	return c
}

func (d *decoder) reserved(name string, n *node, where string) {
	if name == None {
		d.fail(n.pos, "%s: the name none is reserved, it is always defined; choose another", where)
	}
}

func (d *decoder) version(n *node, where string) {
	if n.kind != scalarNode || n.quoted || n.text != strconv.Itoa(Version) {
		d.fail(n.pos, "version must be %d, the only one this program reads, not %s", Version, n.describe())
	}
}

func (d *decoder) seed(to *uint64) setter {
	return func(n *node, where string) {
		v, err := strconv.ParseUint(n.text, 10, 63)
		if n.kind != scalarNode || n.quoted || err != nil {
			d.fail(n.pos, "%s must be a whole number from 0 up, not %s", where, n.describe())
			return
		}
		*to = v
	}
}

func (d *decoder) dataset(name string, n *node, where string) Dataset {
	s := Dataset{Name: name}
	d.object(n, where,
		required("format", d.enum(&s.Format, dataset.Formats())),
		required("path", d.file(&s.Path)),
		optional("limit", d.integer(&s.Limit, 1)),
		optional("indices", func(n *node, where string) {
			seen := map[int]bool{}
			d.list(1, false, func(n *node, where string) {
				i := -1
				if d.integer(&i, 0)(n, where); i < 0 {
					return
				}
				if seen[i] {
					d.fail(n.pos, "%s: image %d is listed twice", where, i)
					return
				}
				seen[i] = true
				s.Indices = append(s.Indices, i)
			})(n, where)
		}),
		optional("classes", func(n *node, where string) {
			if n.kind == listNode {
				d.words(&s.ClassNames, "the name of a class", 2)(n, where)
				s.Classes = len(s.ClassNames)
				return
			}
			if n.kind != scalarNode || n.quoted || !wholeNumber.MatchString(n.text) {
				d.fail(n.pos, "%s must be the number of classes or a list of their names, not %s", where, n.describe())
				return
			}
			d.integer(&s.Classes, 2)(n, where)
		}),
	)
	return s
}

var sha256Text = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (d *decoder) model(name string, n *node, where string) Model {
	m := Model{Name: name, Output: "logits"}
	d.object(n, where,
		required("path", d.file(&m.Path)),
		optional("sha256", func(n *node, where string) {
			if n.kind != scalarNode || !sha256Text.MatchString(n.text) {
				d.fail(n.pos, "%s must be 64 hexadecimal digits, not %s", where, n.describe())
				return
			}
			m.SHA256 = strings.ToLower(n.text)
		}),
		optional("preprocess", func(n *node, where string) {
			before := len(d.errs)
			d.object(n, where,
				optional("mean", d.numbers(&m.Mean, anyNumber, 1)),
				optional("std", d.numbers(&m.Std, positive, 1)),
			)
			if len(m.Mean) == 0 && len(m.Std) > 0 {
				m.Mean = []float64{0}
			}
			if len(m.Std) == 0 && len(m.Mean) > 0 {
				m.Std = []float64{1}
			}
			if len(d.errs) == before && len(m.Mean) > 1 && len(m.Std) > 1 && len(m.Mean) != len(m.Std) {
				d.fail(n.pos, "%s: mean has %d values and std has %d; give one a channel, or one for all", where, len(m.Mean), len(m.Std))
			}
		}),
		optional("output", d.enum(&m.Output, Outputs)),
		optional("split", func(n *node, where string) {
			d.object(n, where, required("at", d.words(&m.SplitAt, "the name of a tensor", 1)))
		}),
	)
	return m
}

func (d *decoder) suite(name string, n *node, where string, save bool) Suite {
	s := Suite{Name: name, Mode: Oblivious, SaveAdversarial: save}
	names := func(to *[]string, what, section string, least int) setter {
		return func(n *node, where string) {
			d.words(to, what, least)(n, where)
			d.refer(n, where, section)
		}
	}
	d.object(n, where,
		required("dataset", func(n *node, where string) {
			d.str(&s.Dataset, "the name of a data set")(n, where)
			d.refer(n, where, "datasets")
		}),
		required("models", names(&s.Models, "the name of a model", "models", 1)),
		optional("controls", names(&s.Controls, "the name of a control", "controls", 0)),
		required("attacks", names(&s.Attacks, "the name of an attack", "attacks", 0)),
		optional("mode", d.enum(&s.Mode, Modes)),
		optional("title", d.str(&s.Title, "text")),
		optional("save_adversarial", d.boolean(&s.SaveAdversarial)),
		optional("solver", func(n *node, where string) { s.Solver = d.study(n, where) }),
		optional("published", func(n *node, where string) { s.Published = d.published(n, where, s.Controls) }), // last: it needs the controls
	)
	isNone := func(name string) bool { return name == None }
	s.Controls = slices.DeleteFunc(s.Controls, isNone)
	s.Attacks = slices.DeleteFunc(s.Attacks, isNone)
	return s
}
