package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/run"
	"selfheal/internal/fault"
	"selfheal/internal/lists"
)

type attackFlags struct {
	scaleFlags
	providerFlags
	outputFlags
	dataFlags
	preprocessFlags
	taskFlags
	attack, norm, epsilon string
	pixels, target        string
	params                []string
	randomFlags
	save bool
	form outputForm
}

// randomFlags choose the random numbers: the first seed, and the number of seeds that attacks are repeated with.
type randomFlags struct {
	seed  uint64
	seeds int
}

func attackCommand(g *globals) *cobra.Command {
	f := &attackFlags{}
	c := &cobra.Command{
		Use:   "attack MODEL --data FILE --epsilon EPSILON",
		Short: "Attack one model without a config; write the results and reports that run writes",
		Long: `Scores a model on labelled images, clean and under one attack, as run does with
a config that says the same: verdicts, results and reports are the same.

--attack names an attack, --param sets its parameters, which docs/config.md explains.
Both are listed below.`,
		Annotations: map[string]string{helpList: "Attacks:\n" + choicesHelp()},
		Example: `  selfheal attack model.onnx --data photos --epsilon 8/255
  selfheal attack model.onnx --data test_batch.bin --norm l2 --epsilon 0.25,0.5 --limit 1000 \
      --mean 0.4914,0.4822,0.4465 --std 0.2471,0.2435,0.2616
  selfheal attack model.onnx --data imagenet/ --resize 256 --crop 224 --limit 1000 \
      --norm linf --epsilon 4/255 --attack pgd --param steps=50 --param restarts=5
  selfheal attack model.onnx --data test_batch.bin --attack corruption --param severities=3`,
		Args:              exactly(1, "one model"),
		ValidArgsFunction: once(filesWith("onnx")),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := f.plan(c, args[0])
			if err != nil {
				return err
			}
			return execute(c, g, p, f.outputFlags, plan.Shard{}, false,
				run.Options{Command: commandLine(c)})
		},
	}
	to := flags{c}
	f.scaleFlags.add(to, "all cores", "64")
	f.providerFlags.add(to, config.CPU)
	f.outputFlags.add(to, g)
	f.dataFlags.add(to)
	f.preprocessFlags.add(to)
	f.normFlag(to, " (default linf)")
	to.text(&f.epsilon, "epsilon", "", "its bound, a number or a fraction, or a list of them: "+
		"2/255,4/255; an attack that looks for the smallest perturbation needs none", noFiles)
	to.text(&f.pixels, "pixels", "", "of adversarial images: "+strings.Join(attacks.PixelForms, ", ")+" (on the "+
		"levels of stored images)", words(attacks.PixelForms...))
	to.text(&f.target, "target", "", "the class that breaks an image: its number, the "+attacks.NextClass+
		" after the label, or a file with a class for each image of --data (default: any wrong one)",
		filesWith("npy", "txt"))
	f.taskFlags.add(to)
	to.text(&f.attack, "attack", "aa", "the attack",
		words(described(choices(), func(c choice) (string, string) { return c.name, c.doc })...))
	to.texts(&f.params, "param", "a parameter of the attack: steps=50; may be repeated", f.paramWords)
	to.seed(&f.seed, "of every random number")
	to.whole(&f.seeds, "seeds", 1, "how many seeds to attack under, from --seed up")
	f.form.add(to)
	to.on(&f.save, "save-adversarial", "write the adversarial images, float32 .npy, to adversarial/ in --out; each "+
		"attack then makes all its steps on an image that breaks, too")
	to.metrics(g)
	to.on(&g.picture, "save-pictures", "write them as PNG files too, under the images' own names, to pictures/ "+
		"in --out")
	to.only(when{func(*cobra.Command, []string) bool { return !attacks.Proves(f.attack) },
		"has no use for a certificate, which makes no images"}, "save-adversarial", "save-pictures")
	return c
}

func (f *attackFlags) normFlag(to flags, otherwise string) {
	to.text(&f.norm, "norm", "", "norm of the perturbation: "+strings.Join(config.Norms, ", ")+otherwise,
		words(config.Norms...))
}

// outputForm says what a model returns: logits, probabilities or a label.
type outputForm struct{ probabilities, label bool }

func (f *outputForm) add(to flags) {
	to.on(&f.probabilities, "probabilities", "the model gives probabilities, not logits")
	to.on(&f.label, "label", "the model gives a label alone, by an ArgMax, not logits")
}

// key returns the config's key for the form.
func (f outputForm) key() (config.Key, error) {
	switch {
	case f.probabilities && f.label:
		return config.Key{}, usage("--probabilities and --label: a model gives one of them")
	case f.probabilities:
		return key("output", config.Word("probabilities"), "--probabilities"), nil
	case f.label:
		return key("output", config.Word("label"), "--label"), nil
	}
	return key("output", config.Word("logits"), ""), nil
}

// guess returns the format of --data if --format is not given.
func (f *dataFlags) guess() (string, error) {
	format, err := dataset.Guess(config.Folder("."), filepath.ToSlash(f.data))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("--data %s: %w", f.data, fault.Reason(err))
	case f.format == "" && err != nil:
		return "", fmt.Errorf("--data %s: %w; say it with --format", f.data, err)
	case f.format == "":
		return format, nil
	case !slices.Contains(dataset.Formats(), f.format):
		return "", notOneOf("format", f.format, dataset.Formats())
	}
	return f.format, nil
}

// choice is a value of --attack: a kind of attack, or a version of AutoAttack that needs no list of components, which
// only a config can give.
type choice struct {
	name, kind, version, doc string
	takes                    []attacks.Parameter
}

func choices() (list []choice) {
	for _, s := range attacks.Specs {
		if s.Versions == nil {
			list = append(list, choice{s.Kind, s.Kind, "", s.Doc, s.Parameters})
		}
		for i, v := range s.Versions {
			name := "aa-" + v.Name
			if i == 0 {
				name = "aa"
			}
			if !v.Listed() {
				list = append(list, choice{name, s.Kind, v.Name, s.Title + ": " + v.Doc, nil})
			}
		}
	}
	doc := "the 15 common corruptions (Hendrycks & Dietterich 2019), without --norm and --epsilon"
	return append(list, choice{attacks.CorruptionKind, attacks.CorruptionKind, "", doc, nil})
}

// chosen looks up the value of --attack.
func (f *attackFlags) chosen() (choice, error) {
	var names []string
	for _, c := range choices() {
		if c.name == f.attack || c.name == "aa" && f.attack == c.kind {
			return c, nil
		}
		names = append(names, c.name)
	}
	return choice{}, notOneOf("attack", f.attack, names)
}

// paramWords completes --param by the parameters of --attack's value.
func (f *attackFlags) paramWords(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	c, err := f.chosen()
	if err != nil || c.takes == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return beginning(described(c.takes, func(p attacks.Parameter) (string, string) {
		return p.Name + "=", p.Doc + ", default " + c.usual(p)
	}), word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// usual returns a parameter's default, or … for one that must be given.
func (c choice) usual(p attacks.Parameter) string {
	if slices.Contains(attacks.Listed(c.kind), p.Name) {
		return "…"
	}
	return p.DefaultText()
}

// choicesHelp lists the attacks, and each one's parameters with their defaults.
func choicesHelp() string {
	var b strings.Builder
	for _, c := range choices() {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.doc)
		defaults := lists.Map(c.takes, func(p attacks.Parameter) string { return p.Name + "=" + c.usual(p) })
		if defaults != nil {
			fmt.Fprintf(&b, "  %-10s   %s\n", "", strings.Join(defaults, ", "))
		}
	}
	return b.String()
}

// plan makes the plan of a config with the same meaning as the flags.
func (f *attackFlags) plan(c *cobra.Command, model string) (*plan.Plan, error) {
	if err := f.needed(c); err != nil {
		return nil, err
	}
	f.save = f.save || given(c, "save-pictures")
	if err := f.anyDistance(model); err != nil {
		return nil, err
	}
	cfg, err := f.parse(model)
	if err != nil {
		return nil, err
	}
	return f.scaleFlags.plan(c, cfg, nil)
}

// anyDistance sets the epsilon of an attack that looks for the smallest perturbation, if none is given, to the largest
// distance of two images.
func (f *attackFlags) anyDistance(model string) error {
	if f.epsilon != "" || !attacks.Minimises(f.attack) {
		return nil
	}
	f.epsilon = "1" // in any norm
	cfg, err := f.parse(model)
	if err != nil {
		return err
	}
	s, err := open.FirstSize(cfg.Datasets[0].Spec, cfg.Files)
	if err != nil {
		return usage("--data %s: %w", f.data, err)
	}
	widest := cfg.Attacks[0].Norm.Widest(attacks.Shape{C: s[0], H: s[1], W: s[2]})
	f.epsilon = strconv.FormatFloat(widest, 'g', -1, 64)
	return nil
}

// needed returns an error if a required flag is missing.
func (f *attackFlags) needed(c *cobra.Command) error {
	data := needed(c, "data", f.data, ", for example --data test.npz")
	if attacks.Free(f.attack) || attacks.Brackets(f.attack) || attacks.Minimises(f.attack) {
		return data
	}
	return cmp.Or(data,
		needed(c, "epsilon", f.epsilon, ", for example --epsilon 8/255"))
}

// parse makes a config with the same meaning as the flags.
func (f *attackFlags) parse(model string) (*config.Config, error) {
	keys, err := f.config(model)
	if err != nil {
		return nil, usage("%w", err)
	}
	cfg, err := config.Make(keys, config.Folder("."))
	if err != nil {
		return nil, usage("%w", err)
	}
	return cfg, nil
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9._+@-]+`)

// named makes a config's name from a path.
func named(path, otherwise string) string {
	base := filepath.Base(filepath.Clean(path))
	base = strings.TrimLeft(unfit.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-"), "-_.+@")
	if base == "" {
		return otherwise
	}
	return base[:min(len(base), 100)]
}

// key makes a config's key from a flag's value; flag is "" if no flag gives it.
func key(name string, value any, flag string) config.Key {
	return config.Key{Name: name, Value: value, Flag: flag}
}

// filled returns the keys whose value is neither nil nor zero; nil for none.
func filled(keys ...config.Key) (all config.Keys) {
	for _, k := range keys {
		if k.Value != nil && !reflect.ValueOf(k.Value).IsZero() {
			all = append(all, k)
		}
	}
	return all
}

// wordsOf splits a flag's list into a config's values.
func wordsOf(list string) []config.Word {
	return lists.Map(listed(list), func(part string) config.Word { return config.Word(part) })
}

// values is [wordsOf] with a single value for a list of one, and nil for a flag that is not given.
func values(list string) any {
	words := wordsOf(list)
	switch {
	case list == "":
		return nil
	case len(words) == 1:
		return words[0]
	}
	return append([]config.Word{}, words...)
}

// network returns the config's keys for a model: its path, how it takes its input and how it returns its output.
func (f *preprocessFlags) network(path string, form outputForm) (config.Keys, error) {
	if _, err := f.options(); err != nil {
		return nil, err
	}
	output, err := form.key()
	if err != nil {
		return nil, err
	}
	preprocess := filled(key("scale", values(f.scale), "--scale"), key("mean", values(f.mean), "--mean"),
		key("std", values(f.std), "--std"))
	return append(config.Keys{key("path", filepath.ToSlash(path), "MODEL"),
		key("preprocess", preprocess, "--mean and --std"), output},
		filled(key("layout", config.Word(f.layout), "--layout"), key("output_name", f.output, "--output-name"))...), nil
}

// config returns the keys of a config with the same meaning as the flags.
func (f *attackFlags) config(model string) (config.Keys, error) {
	images, err := f.images()
	if err != nil {
		return nil, err
	}
	attack, err := f.attackKeys()
	if err != nil {
		return nil, err
	}
	network, err := f.network(model, f.form)
	if err != nil {
		return nil, err
	}
	images = append(images, filled(key("limit", f.limit, "--limit"))...)
	if f.aimsByFile() {
		images = append(images, key("targets", filepath.ToSlash(f.target), "--target"))
	}
	if network, images, err = f.tasked(network, images); err != nil {
		return nil, err
	}
	data, name := named(f.data, "data"), named(model, "model")
	suite := config.Keys{key("dataset", data, ""), key("models", []string{name}, ""),
		key("attacks", []string{f.attack}, "")}
	return config.Keys{
		key("version", config.Version, ""), key("seed", f.seed, "--seed"), key("seeds", f.seeds, "--seeds"),
		key("save_adversarial", f.save, "--save-adversarial"), key("runtime", f.providerFlags.runtime(), ""),
		key("datasets", config.Keys{key(data, images, "")}, ""),
		key("models", config.Keys{key(name, network, "")}, ""),
		key("attacks", config.Keys{key(f.attack, attack, "--attack "+f.attack)}, ""),
		key("suites", config.Keys{key("attack", suite, "")}, ""),
	}, nil
}

// aimsByFile reports whether --target names a file.
func (f *attackFlags) aimsByFile() bool {
	_, err := attacks.ParseAim(f.target)
	return err != nil || f.target == attacks.FileTarget
}

// attackKeys returns the config's keys for the attack.
func (f *attackFlags) attackKeys() (config.Keys, error) {
	attack, err := f.chosen()
	if err != nil {
		return nil, err
	}
	norm := f.norm
	if !attacks.Free(attack.kind) {
		norm = cmp.Or(norm, attacks.Linf.String())
	}
	target := f.target
	if f.aimsByFile() {
		target = attacks.FileTarget
	}
	keys := filled(key("kind", attack.kind, "--attack"), key("norm", norm, "--norm"),
		key("epsilon", values(f.epsilon), "--epsilon"), key("pixels", config.Word(f.pixels), "--pixels"),
		key("target", config.Word(target), "--target"),
		key("version", attack.version, "--attack"))
	given := []string{"norm", "epsilon", "kind", "version"}
	for _, p := range f.params {
		name, value, ok := strings.Cut(p, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("--param %s: this must be KEY=VALUE, for example steps=50", p)
		case slices.Contains(given, name):
			return nil, fmt.Errorf("--param %s: %s is given twice", p, name)
		}
		given = append(given, name)
		keys = append(keys, key(name, config.Word(strings.TrimSpace(value)), "--param "+name))
	}
	for _, p := range attack.takes {
		if attack.usual(p) == "…" && !slices.Contains(given, p.Name) {
			return nil, fmt.Errorf("--attack %s needs --param %s=5 (%s)", attack.name, p.Name, p.Doc)
		}
	}
	return keys, nil
}
