package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/setting"
	"selfheal/models/onnx/simplify"
)

// outputs say what a model's output is.
var outputs = []string{"logits", "probabilities"}

// config is the whole file.
func (d *decoder) config(c *Config) object {
	return object{rows: []row{
		required("version", version(), "version of the config's layout"),
		optional("seed", seed(&c.Seed), "0", "keys every random number, with the attack, restart, target and image id"),
		optional("seeds", c.seeds(), "1",
			"how many seeds the attacks are made under, from `seed` up, or a list of seeds "+
				"instead of `seed`; each further one costs the attacks again, and tables show the spread"),
		optional("default_suites", names(&c.DefaultSuites, "a suite", "suites or groups", 1), "",
			"what `run` runs without `--suite`; default: all suites"),
		optional("save_adversarial", boolean(&c.SaveAdversarial), "false",
			"write the adversarial images, `adversarial/*.npy`, float32 [N, C, H, W]"),
		optional("runtime", c.Runtime.object().value(), "{}", "how to compute"),
		required("datasets", named(&c.Datasets, false, datasetObject),
			"sets of labelled images, by names of your choice"),
		required("models", named(&c.Models, false, modelObject), "ONNX classifiers, by names of your choice"),
		optional("controls", named(&c.Controls, true, controlObject), "",
			"closed-loop controllers, by names of your choice; none, no control, is always defined"),
		optional("attacks", named(&c.Attacks, true, attackObject), "",
			"attacks, by names of your choice; none, clean accuracy, is always defined"),
		required("suites", named(&c.Suites, false, func(name string, s *Suite) object {
			s.SaveAdversarial = c.SaveAdversarial
			return suiteObject(name, s)
		}), "what is scored, by names of your choice: every model without and with each control, on clean images and "+
			"under each attack"),
		optional("groups", named(&c.Groups, false, groupObject), "",
			"names for several suites that are run and reported together"),
		optional("gate", c.gate(), "", "when `selfheal check` passes"),
	}, check: func(d *decoder, n *node, where string) {
		if suites := n.get("suites"); len(suites.entries) == 0 {
			d.fail(suites.pos, "suites must define at least one suite")
		}
		if seeds := n.get("seeds"); seeds != nil && seeds.kind == listNode && n.get("seed") != nil {
			d.fail(seeds.pos, "seeds: a list of seeds stands for seed too; give one of the two, or how many seeds "+
				"there are")
		}
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

// maxSeeds is how many seeds a run takes at most.
const maxSeeds = 1000

// seeds reads the attacks' seeds, their number or a list, into Seed and OtherSeeds. It comes
// after the config's seed.
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
	want := strconv.Itoa(Version) + ", the only one this program reads"
	return custom("1", schema{"const": Version}, func(d *decoder, n *node, where string) {
		if n.kind != scalarNode || n.quoted || n.text != strconv.Itoa(Version) {
			d.fail(n.pos, "version must be %s, not %s", want, n.describe())
		}
	})
}

func datasetObject(name string, s *Dataset) object {
	s.Name = name
	formats := "how the images are stored"
	for _, f := range dataset.Table {
		formats += "; " + f.Name + ": " + f.Doc
	}
	id := func(v *int) value { return whole(v, orNone) }
	return object{forms: formsBy("format", dataset.Formats()), rows: []row{
		required("format", choice(&s.Format, dataset.Formats()), formats),
		required("path", file(&s.Path), "the file or folder"),
		optional("split", text(&s.Split, "the name of a split"), "",
			"the part of a set that has several, such as train, val or test; default: test, of `tiny-imagenet` val; "+
				"of `cifar10-c` and `imagenet-c` a corruption and severity as fog/3, a corruption, or all"),
		optional("keys", keyNames(s), "",
			"the names of the images' and the labels' arrays or columns; default: found").in(dataset.Keyed()...),
		optional("transform", transformObject(s).value(), "",
			"what is done with each image, as torchvision's Resize and CenterCrop do it with Pillow's"),
		optional("indices", list(&s.Indices, span{least: 1, once: true}, id), "",
			"ids of the images to take, in this order"),
		optional("sample", sampleObject(s).value(), "", "takes images at random after `indices`"),
		optional("limit", whole(&s.Limit, setting.Count), "",
			"the first N after `indices` and `sample`. `run --limit` cuts scored sets further, never one that a `fit` "+
				"names"),
		optional("classes", classes(s), "", "the number of classes, or their names in the order of the labels"),
	}}
}

// keyNames are of arrays or columns.
func keyNames(s *Dataset) value {
	var k result.Keys
	return object{rows: []row{
		required("x", text(&k.X, "a name"), "of the images"),
		required("y", text(&k.Y, "a name"), "of the labels"),
	}}.value().then(func(*decoder, *node, string) { s.Keys = &k })
}

func transformObject(s *Dataset) object {
	var t result.Transform
	return object{rows: []row{
		optional("resize", whole(&t.Resize, setting.Count), "", "length of the shorter side"),
		optional("crop", whole(&t.Crop, setting.Count), "", "side of the square that is taken from the middle"),
		optional("interpolation", choice(&t.Interpolation, []string{result.Bilinear, result.Bicubic}), result.Bilinear,
			"how resizing is done, with antialiasing"),
	}, check: func(d *decoder, n *node, where string) {
		switch {
		case t.Resize == 0 && t.Crop == 0:
			d.fail(n.pos, "%s needs resize or crop, for example {resize: 256, crop: 224}", where)
		case t.Resize > 0 && t.Crop > t.Resize:
			d.fail(n.pos, "%s: a crop of %d is larger than images resized to %d", where, t.Crop, t.Resize)
		}
		s.Transform = &t
	}}
}

func sampleObject(s *Dataset) object {
	var a result.Sample
	return object{rows: []row{
		required("n", whole(&a.N, setting.Count), "how many; all where there are fewer"),
		optional("per_class", boolean(&a.PerClass), "false", "evenly by class"),
		optional("seed", seed(&a.Seed), "0", "which ones, with their ids"),
	}, check: func(*decoder, *node, string) { s.Sample = &a }}
}

// classes are a number or names.
func classes(s *Dataset) value {
	number := whole(&s.Classes, setting.Interval{Min: 2, Max: orNone.Max})
	className := func(v *string) value { return text(v, "the name of a class") }
	names := list(&s.ClassNames, span{least: 2, once: true}, className).then(func(*decoder, *node, string) {
		s.Classes = len(s.ClassNames)
	})
	return either("a whole number from 2 up, or a list of names", number, names)
}

var sha256Text = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func modelObject(name string, m *Model) object {
	m.Name = name
	hash := custom("64 hexadecimal digits", schema{"type": "string", "pattern": sha256Text.String()},
		func(d *decoder, n *node, where string) {
			if n.kind != scalarNode || !sha256Text.MatchString(n.text) {
				d.fail(n.pos, "%s must be 64 hexadecimal digits, not %s", where, n.describe())
			}
			m.SHA256 = strings.ToLower(n.text)
		})
	tensor := func(v *string) value { return text(v, "the name of a tensor") }
	split := object{rows: []row{
		required("at", list(&m.SplitAt, span{least: 1, once: true}, tensor),
			"names of tensors: exactly these boundaries, plus those that a control names"),
	}}
	return object{rows: []row{
		required("path", file(&m.Path), "an ONNX classifier with one input, [N, C, H, W] or [N, H, W, C]"),
		optional("sha256", hash, "", "what the file must have"),
		optional("preprocess", m.preprocess(), "",
			"(x·scale − mean)/std is prepended as nodes of its own, so that attacks and embeddings live in [0,1]"),
		optional("layout", choice(&m.Layout, simplify.Layouts()), "",
			"of the input, where it can't be told from its shape"),
		optional("output", choice(&m.Output, outputs), "logits",
			"what the model puts out; of probabilities the logarithm serves as logits"),
		optional("output_name", tensor(&m.OutputName), "", "the output to take of a model that has several"),
		optional("split", split.value(), "",
			"where the network is cut into segments, instead of at its blocks' boundaries"),
	}}
}

func (m *Model) preprocess() value {
	values := func(to *[]float64, within setting.Interval) value {
		return list(to, span{least: 1, single: true}, func(v *float64) value { return decimal(v, within) })
	}
	return object{rows: []row{
		optional("scale", decimal(&m.Scale, setting.Positive), "1",
			"255 for a network that takes images in [0,255], such as Keras's with their own Rescaling"),
		optional("mean", values(&m.Mean, setting.Any), "0", "one value, or one a channel"),
		optional("std", values(&m.Std, setting.Positive), "1", "one value, or one a channel"),
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

func suiteObject(suite string, s *Suite) object {
	s.Name = suite
	without := func(to *[]string, what, section string) value {
		return names(to, what, section, 0).then(func(*decoder, *node, string) {
			*to = slices.DeleteFunc(*to, func(name string) bool { return name == None })
		})
	}
	return object{rows: []row{
		required("dataset", name(&s.Dataset, "a data set", "datasets"), "the data set that is scored"),
		required("models", names(&s.Models, "a model", "models", 1), "the networks that are scored"),
		optional("controls", without(&s.Controls, "a control", "controls"), "",
			"every network is scored without and with each"),
		required("attacks", without(&s.Attacks, "an attack", "attacks"), "besides none"),
		optional("mode", choice(&s.Mode, result.ModeNames()), result.Oblivious, "what the attacker knows"),
		optional("title", text(&s.Title, "text"), "", "for the reports"),
		optional("save_adversarial", boolean(&s.SaveAdversarial), "", "as above; default: the config's"),
		optional("solver", s.study(), "", "asks for a study of the controls' solvers"),
		optional("published", s.published(), "",
			"numbers to show beside ours: the name of a table of the paper, or one's own, in "+
				"per cent: {MODEL: {none or ATTACK: [baseline, controlled]}}"), // last: it needs the controls
	}}
}

func groupObject(name string, g *Group) object {
	g.Name = name
	return object{rows: []row{
		required("suites", names(&g.Suites, "a suite", "suites", 1), "their names, in the report's order"),
		optional("theory", boolean(&g.Theory), "false",
			"the report has the checks and figures of `selfheal theory` too, made with the "+
				"config's seed; a check that fails ends the run with exit code 1, after the report is written"),
	}}
}
