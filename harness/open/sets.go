package open

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// Sets opens the data sets of a config, each once, and keeps them open.
type Sets struct {
	Config   *config.Config
	Progress *progress.Progress
	Record   *result.File // its data sets, networks and fits are those opened so far
	// Known are digests of data sets that were read before, by the keys of [Sets.Opened]; may be nil.
	Known map[string]*dataset.Digest
	// IDs replace the config's choice of the images to score, by data set; nil keeps the config's.
	IDs    map[string][]int
	model  string // the only model that is opened; "" for those of the suites
	opened map[string]*dataset.Dataset
}

// Opened returns the data sets that are open, by keys that are the same in each process.
func (o *Sets) Opened() map[string]*dataset.Dataset { return o.opened }

// Scored opens the data set that a suite scores, cut to --limit.
func (o *Sets) Scored(name string) (Images, error) {
	d, err := o.scored(name)
	if err != nil {
		return Images{}, err
	}
	spec := o.Config.Dataset(name).Spec
	if spec.SHA256 != "" && spec.SHA256 != d.SHA256() {
		return Images{}, fmt.Errorf("dataset %s: its images in %s have SHA-256 %s, the config says %s", name, spec.Path,
			d.SHA256(), spec.SHA256)
	}
	if _, told := o.Record.Datasets[name]; !told && dataset.Find(spec.Format).ByClass && d.Truth(0) == nil {
		o.Progress.Report(progress.ClassesNumbered{Dataset: name, Labels: dataset.Numbered(d.ClassNames())})
	}
	limit := spec.Limit
	if o.Config.Limit > 0 && (limit == 0 || o.Config.Limit < limit) {
		limit = o.Config.Limit
	}
	spec.Sample = d.Sample()
	o.Record.Datasets[name] = result.Dataset{N: d.Len(), SHA256: d.SHA256(), Format: spec.Format, Limit: limit,
		Indices: spec.Indices, Classes: spec.Classes, ClassNames: d.ClassNames(),
		Shaping: spec.Shaping}
	o.Record.Images[name] = d.Images()
	if left := d.LeftOut(); left.Classes > 0 || left.Files > 0 || left.Changed() != "" {
		known := o.Record.Datasets[name]
		known.LeftOut = &left
		o.Record.Datasets[name] = known
	}
	return Images{Dataset: d, name: name, n: d.Len()}, nil
}

// Dataset opens a data set once for each limit.
func (o *Sets) Dataset(name string, limit int) (*dataset.Dataset, error) {
	return o.once(fmt.Sprintf("%s/%d", name, limit), Spec(o.Config, name, o.model), name, limit)
}

// scored opens the images of a data set that are to be scored.
func (o *Sets) scored(name string) (*dataset.Dataset, error) {
	ids := o.IDs[name]
	if ids == nil {
		return o.Dataset(name, o.Config.Limit)
	}
	spec := Spec(o.Config, name, o.model)
	spec.Indices, spec.Sample, spec.Limit = ids, nil, 0
	return o.once(name, spec, name, 0)
}

// once opens a data set unless one is open under key.
func (o *Sets) once(key string, spec dataset.Spec, name string, limit int) (*dataset.Dataset, error) {
	if d, ok := o.opened[key]; ok {
		return d, nil
	}
	d, err := dataset.OpenKnown(spec, o.Config.Files, limit, o.Known[key])
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", name, err)
	}
	o.Noted(name, d)
	o.opened[key] = d
	return d, nil
}

// Noted reports how a data set's images differ from its files.
func (o *Sets) Noted(name string, d *dataset.Dataset) {
	left := d.LeftOut()
	if changed := left.Changed(); changed != "" {
		o.Progress.Report(progress.ImagesChanged{Dataset: name, Changed: changed})
	}
}

// Spec returns a config's data set with the number of channels that its models take: the one named model or, if model
// is "", the models whose suites score the data set or have controls fitted on it, if they agree. Models are read
// only if the data set needs the number.
func Spec(cfg *config.Config, name, model string) dataset.Spec {
	spec := cfg.Dataset(name).Spec
	spec.Channels = func() (channels int) {
		known := map[string]bool{}
		for _, s := range cfg.Suites {
			fitted := slices.ContainsFunc(s.Controls, func(c string) bool { return cfg.Control(c).FittedOn(name) })
			for _, m := range s.Models {
				known[m] = known[m] || fitted || s.Dataset == name
			}
		}
		for i := range cfg.Models {
			m := &cfg.Models[i]
			if m.Name != model && (model != "" || !known[m.Name]) {
				continue
			}
			n := channelsOf(cfg, m)
			if n == 0 || channels > 0 && n != channels {
				return 0
			}
			channels = n
		}
		return channels
	}
	return spec
}

// channelsOf returns the channels of a model's images. It returns 0 if the model does not tell or can't be read; the
// latter is reported elsewhere.
func channelsOf(cfg *config.Config, m *config.Model) int {
	file, err := ReadModel(cfg.Files, m.Path)
	if err != nil {
		return 0
	}
	g, err := onnx.Decode(file.Data)
	if err != nil {
		return 0
	}
	return simplify.Channels(g, m.Layout)
}

// FirstSize returns the size of a data set's first image: channels, height, width.
func FirstSize(spec dataset.Spec, files fs.FS) (shape [3]int, err error) {
	d, err := dataset.Open(spec, files, 1)
	if err != nil {
		return shape, err
	}
	defer d.Close()
	return d.Shape(), nil
}

// fits checks that a network classifies a data set: images and classes agree.
func fits(d *dataset.Dataset, n *control.Network) error {
	switch needs, has := n.Task.Truth(), len(d.Truth(0)); {
	case needs > 0 && has == 0:
		return fmt.Errorf("the model's task compares %d numbers an image with its truth; give the data set truth: "+
			"FILE (--truth)", needs)
	case needs == 0 && has > 0:
		return errors.New("the data set has a truth, which no task of the model reads; give the model a task " +
			"(--task)")
	case needs != has:
		return fmt.Errorf("the data set's truth has %d numbers an image, the model's task takes %d", has, needs)
	}
	for i := range d.Len() {
		if err := n.Task.Judges(d.Truth(i)); err != nil {
			return fmt.Errorf("the truth of image %d: %w", d.ID(i), err)
		}
	}
	if d.Classes() > n.Classes() {
		return fmt.Errorf("the images have %d classes, the model %d: labels from %d up can't be scored; leave such "+
			"images out, or choose another output by output_name", d.Classes(), n.Classes(), n.Classes())
	}
	return fitsShape(d.Shape(), n)
}

// fitsShape checks that a network takes images of a shape: channels, height, width.
func fitsShape(shape [3]int, n *control.Network) error {
	takes := n.Shape()
	if (attacks.Shape{C: shape[0], H: shape[1], W: shape[2]}) == takes {
		return nil
	}
	advice := fmt.Sprintf("save them as %d×%d pixels", takes.W, takes.H)
	switch {
	case takes.Row():
		return fmt.Errorf("the images have %d values, the model takes rows of %d", shape[0]*shape[1]*shape[2], takes.W)
	case shape[0] != takes.C:
		advice = "save them with as many"
	case takes.H == takes.W:
		advice = fmt.Sprintf("--resize %d --crop %d, or in a config transform: {resize: %[1]d, crop: %[2]d}, "+
			"makes them fit", Resized(takes.H), takes.H)
	}
	return fmt.Errorf("the images have %d channels of %d×%d pixels, the model takes %d of %d×%d; %s", shape[0],
		shape[2], shape[1], takes.C, takes.W, takes.H, advice)
}

// Resized returns to how many pixels the shorter side is brought before an image is cropped: 256 for 224, the usual
// ratio.
func Resized(crop int) int {
	if crop < 128 {
		return crop
	}
	return (crop*256 + 112) / 224
}

// Images are the first images of a data set. They are read on demand, as the memory may not hold all.
type Images struct {
	*dataset.Dataset        // nil if only the names are known
	name             string // the data set's in the config; "" if it belongs to no suite
	n                int
	owner            []int       // the shard of each image; nil if the run has no shards
	shard            int         // the shard of this run; 0 if it has all images
	names            []ImageName // in place of an open data set
}

// ImageName is an image's id in its data set, its label, and its path if it has a file of its own.
type ImageName struct {
	ID, Label int
	File      string `json:",omitempty"`
}

// Named returns images of which only the names are known, and their shards.
func Named(names []ImageName, owner []int) Images {
	return Images{n: len(names), names: names, owner: owner}
}

// Share returns the images with the owner of each, for the run of one shard.
func (s Images) Share(shard plan.Shard) Images {
	s.owner, s.shard = plan.Deal(s.IDs(), shard.N), shard.I
	return s
}

// IDs lists the images' ids in their file.
func (s Images) IDs() []int {
	ids := make([]int, s.Len())
	for i := range ids {
		ids[i] = s.ID(i)
	}
	return ids
}

// Len returns the number of images.
func (s Images) Len() int { return s.n }

// ID returns the i-th image's id in its file.
func (s Images) ID(i int) int {
	if s.names != nil {
		return s.names[i].ID
	}
	return s.Dataset.ID(i)
}

// File returns the i-th image's path in its data set; "" if it has no file of its own.
func (s Images) File(i int) string {
	if s.names != nil {
		return s.names[i].File
	}
	return s.Dataset.File(i)
}

// Label returns the i-th image's label.
func (s Images) Label(i int) int {
	if s.names != nil {
		return s.names[i].Label
	}
	return s.Dataset.Label(i)
}

// Owner returns the i-th image's shard, or 0 if the run has no shards.
func (s Images) Owner(i int) int {
	if s.owner == nil {
		return 0
	}
	return s.owner[i]
}

// Shared reports whether other shards own some of the images.
func (s Images) Shared() bool { return s.shard > 0 }

// Own reports whether this run works on the i-th image.
func (s Images) Own(i int) bool { return s.shard == 0 || s.owner[i] == s.shard }

// Places returns the indices of this run's images for which wanted is true, or of all if wanted is nil.
func (s Images) Places(wanted func(i int) bool) (places []int) {
	for i := range s.n {
		if s.Own(i) && (wanted == nil || wanted(i)) {
			places = append(places, i)
		}
	}
	return places
}

// First reports whether this run owns the first image, and with it the work that is done once for the whole set.
func (s Images) First() bool { return s.shard == 0 || s.n > 0 && s.owner[0] == s.shard }

// Mine returns the number of this run's images.
func (s Images) Mine() int {
	return len(s.Places(nil))
}

// OwnedBy returns the number of a shard's images.
func (s Images) OwnedBy(shard int) int {
	return lists.Count(s.owner, func(owner int) bool { return owner == shard })
}

// Read reads the i-th image.
func (s Images) Read(i int) (im attacks.Image, err error) {
	if im.ID, im.Pixels, im.Label, err = s.Image(i); err != nil {
		err = fmt.Errorf("image %d: %w", s.ID(i), err)
	}
	im.Target, im.Truth = s.Target(i), s.Truth(i)
	return im, err
}

// Head returns the set of the first n images, or of all if there are fewer. It belongs to no shard.
func (s Images) Head(n int) Images {
	return Images{Dataset: s.Dataset, name: s.name, names: s.names, owner: s.owner, n: min(s.n, n)}
}
