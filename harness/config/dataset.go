package config

import (
	"cmp"
	"strings"

	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/setting"
)

// Dataset is a named set of images.
type Dataset struct {
	Name string
	dataset.Spec
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
			"train, val or test, if there are several; default: test, "+unusualSplits()),
		optional("keys", keyNames(s), "", "names of arrays or columns; default: found").in(dataset.Keyed()...),
		optional("layout", choice(&s.Layout, []string{images, result.Flat}), "",
			"flat: rows of features, [N, d]; default: images").in(dataset.WithRows()...),
		optional("box", boxObject(s).value(), "",
			"with `layout: flat`: where features lie. Attacks see (v − low)/(high − low), so that epsilon is a "+
				"fraction of each feature's range; the network gets v. Default: 0 to 1").in(dataset.WithRows()...),
		optional("scale", eachOf(&s.Scale, setting.Positive), "",
			"with `layout: flat`: what the values are multiplied by to make features, one or one a feature; "+
				"default: 1").
			in(dataset.WithRows()...),
		optional("transform", transformObject(s).value(), "",
			"change of each image, as by torchvision's Resize and CenterCrop"),
		optional("indices", list(&s.Indices, span{least: 1, once: true}, id), "", "ids to take, in this order"),
		optional("sample", sampleObject(s).value(), "", "images at random, after `indices`"),
		optional("limit", count(&s.Limit), "",
			"number of images after `indices` and `sample`: the first, or evenly by class if they are sorted by "+
				"class. `run --limit` cuts scored sets further, but none of a `fit`"),
		optional("targets", file(&s.Targets), "", "a class for each image of the file or folder, in order, for "+
			"attacks with `target: file`: a NumPy array (.npy), or a number on each line"),
		optional("truth", file(&s.Truth), "", "numbers for each image of the file or folder, in order, with which a "+
			"model's `task` compares its answers: a NumPy array (.npy, .npz) or numbers on lines (.csv, .jsonl). "+
			"In a CSV file that lists the images they follow the file. Labels do not count then"),
		optional("classes", classes(s), "", "how many, or their names in the labels' order"),
		optional("sha256", digest(&s.SHA256), "",
			"hash of the scored images and labels, as in results.json").notHashed(),
	}, check: func(d *decoder, n *node, where string) {
		flat := s.Layout == result.Flat
		if s.Layout == images {
			s.Layout = ""
		}
		if flat && s.Box == nil {
			s.Box = &result.Box{Low: []float64{0}, High: []float64{1}}
		}
		switch {
		case flat && s.Transform != nil:
			d.fail(n.pos, "%s: transform is for images, not for layout: flat", where)
		case !flat && (s.Box != nil || s.Scale != nil):
			d.fail(n.pos, "%s: box and scale go with layout: flat", where)
		}
	}}
}

// images is the usual layout.
const images = "images"

func boxObject(s *Dataset) object {
	b := cmp.Or(s.Box, &result.Box{})
	return object{rows: []row{
		required("low", eachOf(&b.Low, setting.Any), "the least value, one or one a feature"),
		required("high", eachOf(&b.High, setting.Any), "the largest, likewise"),
	}, check: func(*decoder, *node, string) { s.Box = b }}
}

// unusualSplits lists the splits, and their defaults, of formats with others than the usual ones.
func unusualSplits() string {
	var texts []string
	formats := map[string][]string{}
	for _, f := range dataset.Table {
		if f.Splits != "" && formats[f.Splits] == nil {
			texts = append(texts, f.Splits)
		}
		formats[f.Splits] = append(formats[f.Splits], "`"+f.Name+"`")
	}
	for i, text := range texts {
		texts[i] = "of " + strings.Join(formats[text], " and ") + " " + text
	}
	return strings.Join(texts, "; ")
}

func keyNames(s *Dataset) value {
	k := cmp.Or(s.Keys, &result.Keys{})
	return object{rows: []row{
		required("x", text(&k.X, "a name"), "name of the images"),
		required("y", text(&k.Y, "a name"), "name of the labels"),
	}}.value().then(func(*decoder, *node, string) { s.Keys = k })
}

func transformObject(s *Dataset) object {
	t := cmp.Or(s.Transform, &result.Transform{})
	return object{rows: []row{
		optional("resize", count(&t.Resize), "", "length of the shorter side"),
		optional("crop", count(&t.Crop), "", "side of the square in the middle"),
		optional("interpolation", choice(&t.Interpolation, []string{result.Bilinear, result.Bicubic}), result.Bilinear,
			"how to resize, with antialiasing"),
	}, check: func(d *decoder, n *node, where string) {
		switch {
		case t.Resize == 0 && t.Crop == 0:
			d.fail(n.pos, "%s needs resize or crop, for example {resize: 256, crop: 224}", where)
		case t.Resize > 0 && t.Crop > t.Resize:
			d.fail(n.pos, "%s: a crop of %d is larger than images resized to %d", where, t.Crop, t.Resize)
		}
		s.Transform = t
	}}
}

func sampleObject(s *Dataset) object {
	a := cmp.Or(s.Sample, &result.Sample{})
	return object{rows: []row{
		required("n", count(&a.N), "how many at most"),
		optional("per_class", boolean(&a.PerClass), "false", "evenly by class"),
		optional("seed", seed(&a.Seed), "0", "which ones, with their ids"),
	}, check: func(*decoder, *node, string) { s.Sample = a }}
}

func classes(s *Dataset) value {
	number := whole(&s.Classes, setting.Interval{Min: 2, Max: orNone.Max})
	className := func(v *string) value { return text(v, "the name of a class") }
	names := list(&s.ClassNames, span{least: 2, once: true}, className).then(func(*decoder, *node, string) {
		s.Classes = len(s.ClassNames)
	})
	return either("a whole number from 2 up, or a list of names", number, names)
}
