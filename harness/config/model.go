package config

import (
	"regexp"
	"strings"

	"selfheal/internal/setting"
	"selfheal/models/onnx/simplify"
)

// Model is a named network.
type Model struct {
	Name   string
	Path   string // for Config.Files
	SHA256 string // required SHA-256 of the file in lower-case hex; "" if not given
	// The preprocessing is (x·Scale − Mean)/Std, with one value or one a channel. Without it they are 0 and nil.
	Scale      float64
	Mean, Std  []float64
	Layout     string   // of the input, one of [simplify.Layouts]; "" if the model tells
	Output     string   // logits, probabilities or label
	OutputName string   // the output to use; "": the first
	SplitAt    []string // boundaries as tensor names; nil for the default ones
	Votes      int      // passes that decide an answer, for a network that draws random numbers; 0 for others
	Task       Task
	Members    []Model // of an ensemble, whose Path is the first one's
}

var outputs = []string{"logits", "probabilities", "label"}

var sha256Text = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

// digest reads a SHA-256 in hex.
func digest(v *string) value {
	form := schema{"type": "string", "pattern": sha256Text.String()}
	hex := custom("64 hexadecimal digits", form, func(n *node) bool {
		*v = strings.ToLower(n.text)
		return sha256Text.MatchString(n.text)
	})
	hex.to = v
	return hex
}

func modelObject(name string, m *Model) object {
	m.Name = name
	tensor := func(v *string) value { return text(v, "the name of a tensor") }
	split := object{rows: []row{
		required("at", list(&m.SplitAt, span{least: 1, once: true}, tensor),
			"exactly these boundaries, plus those that a control names"),
	}}
	return object{rows: []row{
		optional("path", file(&m.Path), "", "an ONNX classifier with one input, [N, C, H, W] or [N, H, W, C], or "+
			"[N, d]; every model but an ensemble has one"),
		optional("sha256", digest(&m.SHA256), "", "hash of the file"),
		optional("preprocess", m.preprocess(), "",
			"(x·scale − mean)/std is prepended as nodes: attacks and embeddings live in [0,1]"),
		optional("layout", choice(&m.Layout, simplify.Layouts()), "", "layout of the input, if its shape cannot tell"),
		optional("output", choice(&m.Output, outputs), "logits",
			"the model's outputs; logarithms of probabilities serve as logits, and a label of an ArgMax suits "+
				"attacks that see nothing else"),
		optional("votes", whole(&m.Votes, setting.Interval{Min: 2, Max: 10_000}), "",
			"passes whose most frequent class is the answer, of a network that draws at random"),
		optional("output_name", tensor(&m.OutputName), "",
			"which output, if there are several, or an inner tensor to end at"),
		optional("task", m.task(), "", "the model's task; default: classification"),
		optional("split", split.value(), "", "where the network is cut, instead of at its blocks"),
	}, check: func(d *decoder, n *node, where string) {
		if len(m.Task.Of) > 0 {
			for _, e := range n.entries {
				if e.key != "task" {
					d.fail(e.pos, "%s.%s: an ensemble has a task alone; its members have the rest", where, e.key)
				}
			}
			return
		}
		if n.get("path") == nil {
			d.fail(n.pos, `%s lacks the key "path"`, where)
		}
		if !m.Task.Classifies() && m.Output != outputs[0] {
			d.fail(n.pos, "%s: output: %s is for classification; a task takes the outputs as they are", where, m.Output)
		}
	}}
}

// join gives ensembles their members.
func (c *Config) join(d *decoder, n *node) {
	for i := range c.Models {
		m := &c.Models[i]
		for _, name := range m.Task.Of {
			one := c.Model(name)
			switch {
			case one == nil: // reported as a wrong reference
			case one.Task.Kind != "":
				d.fail(n.get("models").entries[i].pos, "models.%s: its member %s should be a classifier by itself",
					m.Name, name)
			default:
				m.Members = append(m.Members, *one)
				m.Path = m.Members[0].Path // tells images and classes
			}
		}
	}
}

// eachOf reads one number, or a list of them.
func eachOf(to *[]float64, within setting.Interval) value {
	return list(to, span{least: 1, single: true}, func(v *float64) value { return decimal(v, within) })
}

func (m *Model) preprocess() value {
	return object{rows: []row{
		optional("scale", decimal(&m.Scale, setting.Positive), "1",
			"255 for a network of images in [0,255], such as Keras's with a Rescaling"),
		optional("mean", eachOf(&m.Mean, setting.Any), "0", "one, or one a channel, or a feature of rows"),
		optional("std", eachOf(&m.Std, setting.Positive), "1", "likewise"),
	}, check: func(d *decoder, n *node, where string) {
		if len(m.Mean) > 1 && len(m.Std) > 1 && len(m.Mean) != len(m.Std) {
			d.fail(n.pos, "%s: mean has %d values and std has %d; give one a channel, or one for all", where,
				len(m.Mean), len(m.Std))
		}
		if n.get("scale") == nil {
			m.Scale = 0
		}
		if m.Scale == 0 && n.get("mean") == nil && n.get("std") == nil {
			m.Mean, m.Std = nil, nil
		}
	}}.value()
}
