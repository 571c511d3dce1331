package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/control/pca"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// open opens the model, and the control if one is requested.
func (f *useFlags) open(c *cobra.Command, g *globals, cfg *config.Config, scale *scaleFlags) (*open.Model, error) {
	if err := scale.check(c); err != nil {
		return nil, err
	}
	scale.apply(c, cfg)
	if err := g.runtime(c, cfg.Runtime); err != nil {
		return nil, err
	}
	return open.Use(c.Context(), cfg, f.model, f.control, open.Options{
		Progress: g.progress(c), Cache: pca.UserCache(), Size: f.size,
	})
}

// prediction is a line of predict's --json.
type prediction struct {
	Image               any          `json:"image"` // a file's name, or the id in a data set
	Label               *int         `json:"label,omitempty"`
	Predicted           int          `json:"predicted"`
	Margin              float64      `json:"margin"` // the largest logit minus the second
	Probabilities       []number.Any `json:"probabilities"`
	Logits              []number.Any `json:"logits"`
	LabelName           string       `json:"label_name,omitempty"` // from --classes, like the names below
	PredictedName       string       `json:"predicted_name,omitempty"`
	HealedPredicted     *int         `json:"healed_predicted,omitempty"`
	HealedPredictedName string       `json:"healed_predicted_name,omitempty"`
	HealedMargin        *float64     `json:"healed_margin,omitempty"`
	HealedProbabilities []number.Any `json:"healed_probabilities,omitempty"`
	HealedLogits        []number.Any `json:"healed_logits,omitempty"`
}

// numbers converts values for JSON, because logarithms of probabilities may be infinite.
func numbers[T float32 | float64](values []T) []number.Any {
	return lists.Map(values, func(v T) number.Any { return number.Any(v) })
}

func predictCommand(g *globals) *cobra.Command {
	f, d, s, asJSON := &useFlags{}, &dataFlags{}, &scaleFlags{}, false
	c := &cobra.Command{
		Use:   "predict (MODEL | --model NAME [--control NAME]) (IMAGE... | --data FILE)",
		Short: "Classify images with a model, plain and healed",
		Long: `Prints, for each image, the class that the model gives it and the margin, by which
the largest logit exceeds the second; with --control those of the controlled
network as well. The model is a file or, by --model, one of the config. Images are PNG,
JPEG or WebP files of the size that the model takes, or brought to it by --resize and
--crop, or a labelled data set. --json has probabilities and logits too.`,
		Example: `  selfheal predict model.onnx cat.png --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
  selfheal predict --model mine --config my.yaml cat.png dog.jpg
  selfheal predict --model preact-robust --control msa --data models/zoo/shapes10/test.bin --limit 10
  selfheal predict --model mine --control pca --config my.yaml --data test.npz --json > answers.jsonl`,
		ValidArgsFunction: filesWith("onnx", "png", "jpg", "jpeg", "webp"),
		RunE: func(c *cobra.Command, args []string) error {
			model, args := onnxFile(args)
			if (len(args) > 0) == (d.data != "") {
				return usage("predict takes image files or --data FILE, one of the two")
			}
			if d.data != "" {
				images, err := d.images()
				if err != nil {
					return usage("%w", err)
				}
				f.images = images
			}
			cfg, err := f.load(c, g, model)
			if err != nil {
				return err
			}
			f.size = func() ([3]int, error) { return d.size(args) }
			u, err := f.open(c, g, cfg, s)
			if err != nil {
				return err
			}
			defer u.Close()
			if u.Net.Task.Truth() > 0 {
				return usage("model %s: predict tells classes, and the model's task compares answers with a truth",
					u.Net.Name)
			}
			var list []prediction // without answers at first
			var pixels func(i int) ([]float32, error)
			if s.limit > 0 {
				args = args[:min(len(args), s.limit)]
			}
			if d.data != "" {
				var set *dataset.Dataset
				if set, err = d.open(u, s.limit); err == nil {
					defer set.Close()
					list, pixels = setImages(set)
				}
			} else {
				list, pixels, err = d.pictures(u, args)
			}
			if err != nil {
				return usage("%w", err)
			}
			name, err := d.namesOf(u)
			if err != nil {
				return usage("%w", err)
			}
			alone, healed, err := u.Answers(c.Context(), len(list), pixels)
			if err != nil {
				return err
			}
			for i, a := range alone {
				p := &list[i]
				p.Predicted, p.PredictedName, p.Margin = a.Class, name(a.Class), a.Margin
				if p.Label != nil {
					p.LabelName = name(*p.Label)
				}
				p.Probabilities, p.Logits = numbers(a.Probabilities()), numbers(a.Logits)
				if healed != nil {
					h := &healed[i]
					p.HealedPredicted, p.HealedPredictedName, p.HealedMargin = &h.Class, name(h.Class), &h.Margin
					p.HealedProbabilities, p.HealedLogits = numbers(h.Probabilities()), numbers(h.Logits)
				}
			}
			return printPredictions(c, list, asJSON)
		},
	}
	f.add(flags{c}, g, "a control of the config, to heal with")
	f.addBare(flags{c})
	d.add(flags{c})
	s.addConfigs(flags{c})
	flags{c}.on(&asJSON, "json", "print a line of JSON an image")
	return c
}

// namesOf returns a function that names a model's classes by --classes, or returns "" without it.
func (f *dataFlags) namesOf(u *open.Model) (func(class int) string, error) {
	names, err := f.classNames()
	if n := u.Net.Classes(); err == nil && len(names) > n {
		err = fmt.Errorf("--classes names %d classes, the model has %d", len(names), n)
	}
	return func(class int) string {
		if class < len(names) {
			return names[class]
		}
		return ""
	}, err
}

// pictures reads PNG, JPEG and WebP files.
func (f *dataFlags) pictures(u *open.Model, paths []string) (list []prediction, pixels func(i int) ([]float32, error),
	err error) {
	transform, err := f.transform()
	if err != nil {
		return nil, nil, err
	}
	var all [][]float32
	for _, path := range paths {
		x, shape, err := dataset.ReadImage(config.Folder("."), filepath.ToSlash(path), u.Net.Shape().C, transform)
		if err != nil {
			return nil, nil, err
		}
		if err := u.FitsImage(shape); err != nil {
			return nil, nil, fmt.Errorf("image %s: %w", path, err)
		}
		list, all = append(list, prediction{Image: path}), append(all, x)
	}
	return list, func(i int) ([]float32, error) { return all[i], nil }, nil
}

// size returns the shape of the images, or of the first picture file.
func (f *dataFlags) size(pictures []string) (shape [3]int, err error) {
	if len(pictures) > 0 {
		transform, err := f.transform()
		if err == nil {
			_, shape, err = dataset.ReadImage(config.Folder("."), filepath.ToSlash(pictures[0]), 0, transform)
		}
		return shape, err
	}
	spec, err := f.spec()
	if err == nil {
		shape, err = open.FirstSize(spec, config.Folder("."))
	}
	return shape, err
}

// spec returns the data set of --data as a config describes it.
func (f *dataFlags) spec() (spec dataset.Spec, err error) {
	images, err := f.images()
	if err != nil {
		return spec, err
	}
	cfg, err := asked(config.Keys{key("path", "none", "")}, images)
	if err != nil {
		return spec, err
	}
	return cfg.Datasets[0].Spec, nil
}

// open opens a data set with images that fit the model.
func (f *dataFlags) open(u *open.Model, limit int) (*dataset.Dataset, error) {
	spec, err := f.spec()
	if err != nil {
		return nil, err
	}
	spec.Channels = func() int { return u.Net.Shape().C }
	if box := u.Box(); box != nil { // that of the model's own data
		spec.Box = box
	}
	d, err := dataset.Open(spec, config.Folder("."), limit)
	if err != nil {
		return nil, err
	}
	u.Noted(f.data, d)
	if err := u.Fits(d); err != nil {
		d.Close()
		return nil, fmt.Errorf("--data %s: %w", f.data, err)
	}
	return d, nil
}

// setImages lists the images of a data set.
func setImages(d *dataset.Dataset) (list []prediction, pixels func(i int) ([]float32, error)) {
	for i := range d.Len() {
		label := d.Label(i)
		list = append(list, prediction{Image: d.ID(i), Label: &label})
	}
	return list, func(i int) ([]float32, error) {
		_, x, _, err := d.Image(i)
		return x, err
	}
}

func printPredictions(c *cobra.Command, list []prediction, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(c.OutOrStdout())
		for _, p := range list {
			if err := enc.Encode(p); err != nil {
				return err
			}
		}
		return nil
	}
	w := columns(c.OutOrStdout())
	head := []string{"image"}
	if list[0].Label != nil {
		head = append(head, "label")
	}
	head = append(head, "predicted", "margin")
	if list[0].HealedPredicted != nil {
		head = append(head, "healed", "healed margin")
	}
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, p := range list {
		row := []string{fmt.Sprint(p.Image)}
		if p.Label != nil {
			row = append(row, cmp.Or(p.LabelName, fmt.Sprint(*p.Label)))
		}
		row = append(row, cmp.Or(p.PredictedName, fmt.Sprint(p.Predicted)), fmt.Sprintf("%.4g", p.Margin))
		if p.HealedPredicted != nil {
			row = append(row, cmp.Or(p.HealedPredictedName, fmt.Sprint(*p.HealedPredicted)),
				fmt.Sprintf("%.4g", *p.HealedMargin))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}
