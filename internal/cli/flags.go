package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/lists"
	"selfheal/internal/suggest"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// flags adds flags to a command. For a flag that takes a value it also registers the completion.
type flags struct{ *cobra.Command }

func (c flags) text(to *string, name, value, usage string, words completer) {
	c.Flags().StringVar(to, name, value, usage)
	c.completed(name, words)
}

// texts adds a flag that may be repeated.
func (c flags) texts(to *[]string, name, usage string, words completer) {
	c.Flags().StringArrayVar(to, name, nil, usage)
	c.completed(name, words)
}

func (c flags) whole(to *int, name string, value int, usage string) {
	c.Flags().IntVar(to, name, value, usage)
	c.completed(name, noFiles)
}

func (c flags) seed(to *uint64, usage string) {
	c.Flags().Uint64Var(to, "seed", 0, usage)
	c.completed("seed", noFiles)
}

func (c flags) on(to *bool, name, usage string) { c.Flags().BoolVar(to, name, false, usage) }

func (c flags) completed(name string, words completer) {
	if err := c.RegisterFlagCompletionFunc(name, words); err != nil {
		panic(err) // the flag exists and is registered once
	}
}

// needed makes an error about a required flag.
func needed(c *cobra.Command, name, value, example string) error {
	if value != "" {
		return nil
	}
	return usage("%s needs --%s%s", c.Name(), name, example)
}

// notOneOf makes an error about a flag whose value must be one of a few words.
func notOneOf(name, value string, words []string) error {
	return usage("--%s must be one of %s, not %q%s", name, strings.Join(words, ", "), value, suggest.Word(value, words))
}

// unknown makes an error about a command line; it suggests a flag for a misspelt one.
func unknown(c *cobra.Command, err error) error {
	more := fmt.Sprintf("; see %s --help", c.CommandPath())
	if e := new(pflag.NotExistError); errors.As(err, &e) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		more = cmp.Or(suggest.Word("--"+e.GetSpecifiedName(), names), more)
	}
	return fmt.Errorf("%w%s", err, more)
}

// when is a condition on a command line.
type when struct {
	holds func(c *cobra.Command, args []string) bool
	why   string // said of a flag that is set although the condition does not hold: "goes with --data"
}

// only restricts flags to a condition: if it does not hold, setting one is an error.
func (c flags) only(w when, names ...string) {
	before := c.PreRunE
	c.PreRunE = func(of *cobra.Command, args []string) error {
		if before != nil {
			if err := before(of, args); err != nil {
				return err
			}
		}
		i := slices.IndexFunc(names, func(name string) bool { return given(of, name) })
		if i >= 0 && !w.holds(of, args) {
			return of.FlagErrorFunc()(of, fmt.Errorf("--%s %s", names[i], w.why))
		}
		return nil
	}
}

// given reports whether a flag is set; --flag=false does not count.
func given(c *cobra.Command, name string) bool {
	f := c.Flag(name)
	return f != nil && f.Changed && (f.Value.Type() != "bool" || f.Value.String() == "true")
}

// beside holds if another flag is set, to one of the values if there are any.
func beside(name string, values ...string) when {
	return when{func(c *cobra.Command, _ []string) bool {
		return given(c, name) && (values == nil || slices.Contains(values, c.Flag(name).Value.String()))
	}, strings.TrimSpace("goes with --" + name + " " + strings.Join(values, " or "))}
}

// without holds if another flag is not set.
func without(name string) when {
	return when{func(c *cobra.Command, _ []string) bool { return !given(c, name) }, "does not go with --" + name}
}

// Conditions on arguments.
var (
	ofFile = when{func(_ *cobra.Command, args []string) bool { path, _ := onnxFile(args); return path != "" },
		"goes with a model's file; of a model of a config the config says it"}
	ofConfig = when{func(_ *cobra.Command, args []string) bool { path, _ := onnxFile(args); return path == "" },
		"goes with a config, not with a model's file"}
	ofModels = when{func(_ *cobra.Command, args []string) bool { return len(args) > 0 }, "goes with a MODEL"}
	// ofOpen holds if all models leave the size of images open. The command reports a model that can't be read.
	ofOpen = when{func(_ *cobra.Command, args []string) bool {
		return !slices.ContainsFunc(args, func(path string) bool {
			file, err := onnx.Read(path)
			if err != nil {
				return false
			}
			inputs, _, err := onnx.Ports(file.Data)
			return err == nil && len(inputs) > 0 &&
				(len(inputs[0].Shape) != 4 || !slices.Contains(inputs[0].Shape[1:], onnx.Batch))
		})
	}, "goes with a model that leaves the size of its images open"}
	never = when{func(*cobra.Command, []string) bool { return false }, "has no use here: no ONNX Runtime is needed"}
)

func (c flags) config(to *string) {
	c.text(to, "config", "", "config file (default: ./config.yaml, else the bundled one)", filesWith("yaml", "yml"))
}

func (c flags) sets(to *[]string, g *globals, example string) {
	c.texts(to, "set", "change the config: "+example+"; may be repeated",
		g.ofConfig(settings, cobra.ShellCompDirectiveNoSpace))
}

// useFlags are the flags of every command that uses a model of a config: --config, --model, --control and --log-format.
type useFlags struct {
	config, model, control string
	bare                   attackFlags            // for a model without a config; its attack is verify's
	images                 config.Keys            // of a model without a config; nil if they are not known
	size                   func() ([3]int, error) // see [open.Options]
}

func (f *useFlags) add(c flags, g *globals, control string) {
	c.logFormat(g)
	c.config(&f.config)
	c.text(&f.model, "model", "", "a model of the config", g.ofConfig(modelNames, 0))
	c.text(&f.control, "control", "", control, g.ofConfig(controlNames, 0))
	c.only(ofConfig, "config", "model", "control")
}

// addBare adds the flags of a model without a config.
func (f *useFlags) addBare(c flags) {
	f.bare.preprocessFlags.add(c)
	f.bare.form.add(c)
	c.only(ofFile, "scale", "mean", "std", "layout", "output-name", "probabilities", "label")
}

// load reads the config or, given a model's path, makes one of that model and f's images.
func (f *useFlags) load(c *cobra.Command, g *globals, path string) (*config.Config, error) {
	if path != "" {
		f.model = named(path, "model")
		network, err := f.bare.network(path, f.bare.form)
		if err != nil {
			return nil, usage("%w", err)
		}
		if f.images == nil {
			f.images = config.Keys{key("format", "image-folder", ""), key("path", ".", "")}
		}
		return asked(network, f.images)
	}
	err := needed(c, "model", f.model, ", the name of a model of the config")
	if err != nil {
		return nil, err
	}
	cfg, err := g.loadConfig(f.config, nil)
	if err != nil {
		return nil, usage("%w", err)
	}
	return cfg, nil
}

// onnxFile splits the path of a model off the front of a command's arguments; "" if there is none.
func onnxFile(args []string) (path string, others []string) {
	if len(args) > 0 && strings.EqualFold(filepath.Ext(args[0]), ".onnx") {
		return args[0], args[1:]
	}
	return "", args
}

// scaleFlags are --limit, --workers and --batch: the number of images, and how they are computed.
type scaleFlags struct{ limit, workers, batch int }

// add adds the flags; workers and batch are the defaults that the help shows.
func (f *scaleFlags) add(c flags, workers, batch string) {
	c.whole(&f.limit, "limit", 0, "score N images only: the first, or evenly by class where they are sorted by class")
	c.whole(&f.workers, "workers", 0, "cores to use, one model pass on each (default: "+workers+")")
	c.whole(&f.batch, "batch", 0, "images in one model pass (default: "+batch+")")
}

// addConfigs adds the flags with the config's defaults.
func (f *scaleFlags) addConfigs(c flags) { f.add(c, "the config's, 0: all cores", "the config's") }

func (f *scaleFlags) check(c *cobra.Command) error {
	for _, flag := range []struct {
		name         string
		value, least int
	}{{"limit", f.limit, 1}, {"batch", f.batch, 1}, {"workers", f.workers, 0}} {
		if c.Flags().Changed(flag.name) && flag.value < flag.least {
			return usage("--%s must be a whole number from %d up, not %d", flag.name, flag.least, flag.value)
		}
	}
	return nil
}

// apply sets a config's runtime by the flags that were given.
func (f *scaleFlags) apply(c *cobra.Command, cfg *config.Config) {
	cfg.Limit = f.limit
	if c.Flags().Changed("workers") {
		cfg.Runtime.Workers = f.workers
	}
	if f.batch > 0 {
		cfg.Runtime.Batch = f.batch
	}
}

// providerFlags are --provider and --precision.
type providerFlags struct{ provider, precision string }

func (f *providerFlags) add(c flags, otherwise string) {
	c.text(&f.provider, "provider", "", "ONNX Runtime's execution provider: "+strings.Join(config.Providers, ", ")+
		" (default: "+otherwise+")", words(config.Providers...))
	c.text(&f.precision, "precision", "", precisionsHelp()+" (default: "+config.Float32+")",
		words(ort.PrecisionNames()...))
}

// precisionsHelp lists the precisions of each provider.
func precisionsHelp() string {
	help := "of attacks' passes: " + config.Float32
	for _, p := range ort.Precisions[1:] {
		for _, row := range ort.Providers {
			if slices.Contains(row.Precisions, p.Name) {
				help += "; " + p.Name + " on " + row.Name
				if p.Instructions {
					help += ", on processors that have it"
				}
			}
		}
	}
	return help
}

// runtime returns the config's keys for the flags, the provider first, because the other keys depend on it.
func (f *providerFlags) runtime() config.Keys {
	return filled(key("provider", config.Word(f.provider), "--provider"),
		key("precision", config.Word(f.precision), "--precision"))
}

// sets returns the flags as values of --set.
func (f *providerFlags) sets() []string {
	return lists.Map(f.runtime(), func(k config.Key) string { return fmt.Sprintf("runtime.%s=%v", k.Name, k.Value) })
}

func (c flags) metrics(g *globals) {
	c.on(&g.metrics, "metrics", "end with calibration, risk over coverage and the time until images break, too")
}

func (c flags) quiet(g *globals) { c.on(&g.quiet, "quiet", "print nothing but errors") }

var logFormats = []string{progress.TextLog, progress.JSONLog}

func (c flags) logFormat(g *globals) {
	g.log = progress.TextLog
	c.Flags().Var(checked[string]{&g.log, "string", func(s string) (string, error) {
		if !slices.Contains(logFormats, s) {
			return "", fmt.Errorf("it must be %s%s", strings.Join(logFormats, " or "), suggest.Word(s, logFormats))
		}
		return s, nil
	}}, "log-format", "progress on stderr: text, or json, a record a line for machines")
	c.completed("log-format", words(logFormats...))
}

// checked is the value of a flag with a check.
type checked[T any] struct {
	to    *T
	kind  string // in the help
	parse func(string) (T, error)
}

func (v checked[T]) String() string { return fmt.Sprint(*v.to) }
func (v checked[T]) Type() string   { return v.kind }

func (v checked[T]) Set(s string) error {
	value, err := v.parse(s)
	if err == nil {
		*v.to = value
	}
	return err
}

func (c flags) logEvery(g *globals) {
	g.every = progress.Every
	c.Flags().Var(checked[time.Duration]{&g.every, "duration", func(s string) (time.Duration, error) {
		const least = 10 * time.Millisecond
		d, err := time.ParseDuration(s)
		if err != nil || d < least {
			err = fmt.Errorf("it must be a time of %v or more, such as 1s", least)
		}
		return d, err
	}}, "log-every", "time between two lines or records of one attack or training")
	c.completed("log-every", noFiles)
}

// findLogFormat reads only --log-format from a faulty command line, so that its errors are reported in that format.
func (g *globals) findLogFormat(args []string) {
	c := flags{&cobra.Command{FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}}}
	c.logFormat(g)
	_ = c.ParseFlags(args) // its error was reported already
}

// outputFlags are --out, --resume and --force.
type outputFlags struct {
	out    string
	resume bool
}

func (f *outputFlags) add(c flags, g *globals) {
	c.output(&f.out, "out", "results", "output folder", folders)
	c.on(&f.resume, "resume", "continue: it is an error if --out does not hold this run, finished or not")
	c.on(new(bool), "force", "start anew, and replace what another run has left in --out")
	c.quiet(g)
	c.logFormat(g)
	c.logEvery(g)
}

// dataFlags are --data and the flags that say how to read it.
type dataFlags struct {
	data, format, split, keys, classes, box string
	resize, crop                            int
}

func (f *dataFlags) add(c flags) {
	c.text(&f.data, "data", "", "labelled images: a file or folder", anyFile)
	c.text(&f.format, "format", "",
		"of --data: "+strings.Join(dataset.Formats(), ", ")+" (default: by its name or layout)",
		words(dataset.Formats()...))
	c.text(&f.split, "split", "",
		"the part of --data, where it has several: train, val or test (default: test), or fog/3",
		words("train", "val", "test"))
	c.text(&f.keys, "keys", "",
		"the names of the images' and the labels' arrays or columns: image,label (default: found)", noFiles)
	c.text(&f.classes, "classes", "",
		"the names of the model's classes in its order: cat,dog, or a file of a name a line", anyFile)
	c.whole(&f.resize, "resize", 0, "resize images, by their shorter side, to so many pixels, as torchvision does")
	c.whole(&f.crop, "crop", 0, "take a square of so many pixels a side from their middle")
	c.text(&f.box, "box", "", "of rows of features: their least and largest value, 0,16 (default: each feature's in "+
		"the file); epsilon is a fraction of it", noFiles)
	c.only(beside("data"), "format", "split", "keys", "box")
}

// transform returns what --resize and --crop do to an image; nil for nothing.
func (f *dataFlags) transform() (*result.Transform, error) {
	switch {
	case f.resize < 0 || f.crop < 0:
		return nil, errors.New("--resize and --crop take numbers of pixels")
	case f.resize == 0 && f.crop == 0:
		return nil, nil
	}
	return &result.Transform{Resize: f.resize, Crop: f.crop, Interpolation: result.Bilinear}, nil
}

// images returns the config's keys for --data.
func (f *dataFlags) images() (keys config.Keys, err error) {
	format, err := f.guess()
	if err != nil {
		return nil, err
	}
	x, y, _ := strings.Cut(f.keys, ",")
	if f.keys != "" && (x == "" || y == "") {
		return nil, fmt.Errorf("--keys %s: it takes two names, of the images and of the labels: image,label", f.keys)
	}
	if _, err := f.transform(); err != nil {
		return nil, err
	}
	names, err := f.classNames()
	keys = filled(key("format", config.Word(format), "--format"), key("path", filepath.ToSlash(f.data), "--data"),
		key("split", f.split, "--split"), key("keys", filled(key("x", x, ""), key("y", y, "")), "--keys"),
		transformed(f.resize, f.crop), key("classes", names, "--classes"))
	spec := dataset.Spec{Format: format, Path: filepath.ToSlash(f.data)}
	if spec.Split = f.split; f.keys != "" {
		spec.Keys = &result.Keys{X: x, Y: y}
	}
	rows := dataset.Rows(spec, config.Folder("."))
	switch {
	case err != nil:
		return nil, err
	case rows:
		box, err := f.boxOf(spec)
		return append(keys, key("layout", result.Flat, ""), key("box", box, "--box")), err
	case f.box != "":
		return nil, errors.New("--box is for rows of features, [N, d]; --data holds images")
	}
	return keys, nil
}

// boxOf returns the config's box of rows: that of --box or, without it, each feature's range in the file.
func (f *dataFlags) boxOf(spec dataset.Spec) (config.Keys, error) {
	if f.box != "" {
		ends := listed(f.box)
		if len(ends) != 2 {
			return nil, fmt.Errorf("--box %s: it takes the least and the largest value of features: 0,16", f.box)
		}
		return config.Keys{key("low", config.Word(ends[0]), ""), key("high", config.Word(ends[1]), "")}, nil
	}
	box, err := dataset.Range(spec, config.Folder("."))
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", f.data, err)
	}
	words := func(v []float64) []config.Word {
		return lists.Map(v, func(x float64) config.Word {
			return config.Word(strconv.FormatFloat(x, 'f', -1, 32)) // float32 values
		})
	}
	return config.Keys{key("low", words(box.Low), ""), key("high", words(box.High), "")}, nil
}

// mostNames bounds the size of a file of class names, in bytes.
const mostNames = 16 << 20

// classNames returns the names of --classes: the lines of a file, if there is one, otherwise the items of a list.
func (f *dataFlags) classNames() (names []string, err error) {
	list := strings.Split(f.classes, ",")
	if info, err := os.Stat(f.classes); err == nil && info.Mode().IsRegular() {
		data, err := input.Read(f.classes, mostNames)
		var text string
		if err == nil {
			text, err = dataset.Text(data)
		}
		if err != nil {
			return nil, fmt.Errorf("--classes %s: %w", f.classes, fault.Reason(err))
		}
		list = strings.Split(text, "\n")
	} else if f.classes != "" && len(list) < 2 {
		return nil, fmt.Errorf("--classes %s: this is neither a file of names nor a list: cat,dog", f.classes)
	}
	for _, name := range list {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

// transformed returns a config's transform of the sizes that are not 0.
func transformed(resize, crop int) config.Key {
	return key("transform", filled(key("resize", resize, ""), key("crop", crop, "")), "--resize and --crop")
}

// preprocessFlags say how a model takes its input and returns its output.
type preprocessFlags struct{ scale, mean, std, layout, output, size string }

func (f *preprocessFlags) add(c flags) {
	c.text(&f.scale, "scale", "", "what images in [0,1] are multiplied by first: 255 for [0,255]", noFiles)
	c.text(&f.mean, "mean", "", "mean of the inputs, one value or one a channel: 0.49,0.48,0.45", noFiles)
	c.text(&f.std, "std", "", "standard deviation of the inputs, likewise", noFiles)
	c.text(&f.layout, "layout", "", "of the model's input: nchw or nhwc (default: detected)",
		words(simplify.Layouts()...))
	c.text(&f.output, "output-name", "", "the output to take, or an inner tensor (default: the first output)", noFiles)
}

// addSize adds --size, for verbs without images.
func (f *preprocessFlags) addSize(c flags) {
	c.text(&f.size, "size", "", "height and width of images, 224x160 or 224, for a network that leaves them open; "+
		"also 1x28x28, with channels", noFiles)
	c.only(ofOpen, "size")
}

// sizes returns the channels, height and width of --size.
func (f *preprocessFlags) sizes() (size [3]int, err error) {
	var n []int
	for _, part := range strings.Split(f.size, "x") {
		v, err := strconv.Atoi(part)
		if err != nil || v < 1 || v > 1<<16 {
			return size, usage("--size %q: it must be a height and a width, such as 224x160, or one number", f.size)
		}
		n = append(n, v)
	}
	switch len(n) {
	case 1:
		return [3]int{3, n[0], n[0]}, nil
	case 2:
		return [3]int{3, n[0], n[1]}, nil
	case 3:
		return [3]int(n), nil
	}
	return size, usage("--size %q has %d numbers; it takes a height and a width", f.size, len(n))
}

func (f *preprocessFlags) options() (o simplify.Options, err error) {
	if f.layout != "" && !slices.Contains(simplify.Layouts(), f.layout) {
		return o, notOneOf("layout", f.layout, simplify.Layouts())
	}
	o.Layout, o.Output = f.layout, f.output
	if f.size != "" {
		size, err := f.sizes()
		if err != nil {
			return o, err
		}
		o.Size = func() ([3]int, error) { return size, nil }
	}
	scale, err := parseFloats("--scale", f.scale)
	switch {
	case err != nil:
		return o, err
	case len(scale) > 1:
		return o, usage("--scale: %q is not one number", f.scale)
	case len(scale) == 1:
		if o.Scale = scale[0]; !(o.Scale > 0) {
			return o, usage("--scale %v is not above 0", o.Scale)
		}
	}
	if o.Mean, err = parseFloats("--mean", f.mean); err == nil {
		o.Std, err = parseFloats("--std", f.std)
	}
	return o, err
}

func parseFloats(flag, s string) ([]float32, error) {
	var out []float32
	for _, part := range listed(s) {
		v, err := strconv.ParseFloat(part, 32)
		if err != nil {
			return nil, usage("%s: %q is not a number", flag, part)
		}
		out = append(out, float32(v))
	}
	return out, nil
}

// listed splits a flag's list.
func listed(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
