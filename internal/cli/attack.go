package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/plan"
	"selfheal/internal/fault"
)

type attackFlags struct {
	scaleFlags
	providerFlags
	outputFlags
	dataFlags
	preprocessFlags
	attack, norm, epsilon string
	params                []string
	seed                  uint64
	seeds                 int
	probabilities, save   bool
}

func attackCommand(g *globals) *cobra.Command {
	f := &attackFlags{}
	c := &cobra.Command{
		Use:   "attack MODEL --data FILE --norm NORM --epsilon EPSILON",
		Short: "Attack one model without a config; write the results and reports that run writes",
		Long: `Scores a model on labelled images, clean and under one attack, as run does with
a config that says the same: verdicts, results and reports are the same.

Of a folder of images --limit N takes N evenly by class, which ones by seed 0.
--attack names an attack, --param sets its parameters, which docs/config.md explains:

` + choicesHelp(),
		Example: `  selfheal attack model.onnx --data test.npz --norm linf --epsilon 8/255
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
			return execute(c, g, p, f.outputFlags, plan.Shard{}, false)
		},
	}
	to := flags{c}
	f.scaleFlags.add(to, "all cores", "64")
	f.providerFlags.add(to, config.CPU)
	f.outputFlags.add(to, g)
	f.dataFlags.add(to)
	f.preprocessFlags.add(to)
	f.normFlag(to)
	to.text(&f.epsilon, "epsilon", "", "its bound, a number or a fraction, or a list of them: 2/255,4/255", noFiles)
	to.text(&f.attack, "attack", "aa", "the attack",
		words(described(choices(), func(c choice) (string, string) { return c.name, c.doc })...))
	to.texts(&f.params, "param", "a parameter of the attack: steps=50; may be repeated", f.paramWords)
	to.seed(&f.seed, "of every random number")
	to.whole(&f.seeds, "seeds", 1, "how many seeds to attack under, from --seed up")
	f.probability(to)
	to.on(&f.save, "save-adversarial", "write the adversarial images, float32 .npy, to adversarial/ in --out")
	return c
}

func (f *attackFlags) normFlag(to flags) {
	to.text(&f.norm, "norm", "", "norm of the perturbation: "+strings.Join(config.Norms, ", "), words(config.Norms...))
}

func (f *attackFlags) probability(to flags) {
	to.on(&f.probabilities, "probabilities", "the model gives probabilities, not logits")
}

// guess says of which format --data is where --format does not.
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

// choice is a value of --attack: a kind of attack, or a version of AutoAttack that needs no list
// of components, which only a config can give.
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

// chosen is what --attack asks for.
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

// paramWords complete --param by what the attack of --attack takes.
func (f *attackFlags) paramWords(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	c, err := f.chosen()
	if err != nil || c.takes == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return beginning(described(c.takes, func(p attacks.Parameter) (string, string) {
		return p.Name + "=", p.Doc + ", default " + p.DefaultText()
	}), word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// choicesHelp lists the attacks, and the parameters of each with their defaults.
func choicesHelp() string {
	var b strings.Builder
	for _, c := range choices() {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.doc)
		var defaults []string
		for _, p := range c.takes {
			defaults = append(defaults, p.Name+"="+p.DefaultText())
		}
		if defaults != nil {
			fmt.Fprintf(&b, "  %-10s   %s\n", "", strings.Join(defaults, ", "))
		}
	}
	return b.String()
}

// plan plans what the config that says the same as the flags asks for.
func (f *attackFlags) plan(c *cobra.Command, model string) (*plan.Plan, error) {
	if err := f.needed(c); err != nil {
		return nil, err
	}
	cfg, err := f.parse(model)
	if err != nil {
		return nil, err
	}
	return f.scaleFlags.plan(c, cfg, nil)
}

// needed are flags that must be given.
func (f *attackFlags) needed(c *cobra.Command) error {
	data := needed(c, "data", f.data, ", for example --data test.npz")
	if f.attack == attacks.CorruptionKind {
		return data
	}
	return cmp.Or(data,
		needed(c, "norm", f.norm, ", for example --norm linf"),
		needed(c, "epsilon", f.epsilon, ", for example --epsilon 8/255"))
}

// parse is the config that says the same as the flags.
func (f *attackFlags) parse(model string) (*config.Config, error) {
	text, err := f.config(model)
	if err != nil {
		return nil, usage("%w", err)
	}
	cfg, err := config.Parse("flags", text, config.Folder("."), f.providerFlags.sets()...)
	if err != nil {
		return nil, usage("%w", f.inFlags(err, model))
	}
	return cfg, nil
}

var (
	plainScalar = regexp.MustCompile(`^[A-Za-z0-9_.+/-]+$`)
	paramKey    = regexp.MustCompile(`^[a-z_]+$`)
	unfit       = regexp.MustCompile(`[^A-Za-z0-9._+@-]+`)
)

// named makes a name for a config of a path.
func named(path, otherwise string) string {
	base := filepath.Base(filepath.Clean(path))
	base = strings.TrimLeft(unfit.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-"), "-_.+@")
	if base == "" {
		return otherwise
	}
	return base[:min(len(base), 100)]
}

// scalars checks the parts of a flag's list, which stand in the config as they are:
// what they mean and whether they are in range is the config's affair.
func scalars(flag, list string) (string, error) {
	parts := listed(list)
	for _, p := range parts {
		if !plainScalar.MatchString(p) {
			return "", fmt.Errorf("--%s: %q is not a number", flag, p)
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return "[" + strings.Join(parts, ", ") + "]", nil
}

// taken says as a config does how the flags have the model's input and output taken.
func (f *preprocessFlags) taken(probabilities bool) (preprocess, output string, err error) {
	var parts []string
	for _, p := range []struct{ flag, list string }{{"scale", f.scale}, {"mean", f.mean}, {"std", f.std}} {
		if p.list != "" {
			values, err := scalars(p.flag, p.list)
			if err != nil {
				return "", "", err
			}
			parts = append(parts, p.flag+": "+values)
		}
	}
	if _, err := f.options(); err != nil {
		return "", "", err
	}
	output = "output: logits"
	if probabilities {
		output = "output: probabilities"
	}
	if f.layout != "" {
		output += ", layout: " + f.layout
	}
	if f.output != "" {
		output += fmt.Sprintf(", output_name: %q", f.output)
	}
	return "{" + strings.Join(parts, ", ") + "}", output, nil
}

// config writes the config that says the same, in YAML's flow style.
func (f *attackFlags) config(model string) ([]byte, error) {
	format, err := f.guess()
	if err != nil {
		return nil, err
	}
	attack, err := f.chosen()
	if err != nil {
		return nil, err
	}
	preprocess, output, err := f.taken(f.probabilities)
	if err != nil {
		return nil, err
	}
	epsilon, err := scalars("epsilon", f.epsilon)
	if err != nil {
		return nil, err
	}
	parameters := []string{"kind: " + attack.kind}
	if f.norm != "" || attack.kind != attacks.CorruptionKind {
		parameters = append(parameters, fmt.Sprintf("norm: %q", f.norm))
	}
	if f.epsilon != "" || attack.kind != attacks.CorruptionKind {
		parameters = append(parameters, "epsilon: "+epsilon)
	}
	if attack.version != "" {
		parameters = append(parameters, "version: "+attack.version)
	}
	given := []string{"norm", "epsilon", "kind", "version"}
	for _, p := range f.params {
		key, value, ok := strings.Cut(p, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok || !paramKey.MatchString(key):
			return nil, fmt.Errorf("--param %s: this must be KEY=VALUE, for example steps=50", p)
		case !plainScalar.MatchString(value):
			return nil, fmt.Errorf("--param %s: the value must be a number or a word", p)
		case slices.Contains(given, key):
			return nil, fmt.Errorf("--param %s: %s is given twice", p, key)
		}
		given, parameters = append(given, key), append(parameters, key+": "+value)
	}
	shape, err := f.shaping()
	if err != nil {
		return nil, err
	}
	data, name, shaping := named(f.data, "data"), named(model, "model"), inConfig(shape)
	if f.limit > 0 {
		shaping += first(format, f.limit)
	}
	return fmt.Appendf(nil, `version: 1
seed: %d
seeds: %d
save_adversarial: %t
datasets: {%q: {format: %s, path: %q%s}}
models: {%q: {path: %q, preprocess: %s, %s}}
attacks: {%s: {%s}}
suites: {attack: {dataset: %q, models: [%q], attacks: [%s]}}
`, f.seed, f.seeds, f.save, data, format, filepath.ToSlash(f.data), shaping, name, filepath.ToSlash(model),
		preprocess, output, f.attack, strings.Join(parameters, ", "), data, name, f.attack), nil
}

// inFlags says what is wrong with the flags' config in terms of the flags: nobody has seen the config.
func (f *attackFlags) inFlags(err error, model string) error {
	var list config.Errors
	if !errors.As(err, &list) {
		return err
	}
	attack, m, data := "attacks."+f.attack, "models."+named(model, "model"), "datasets."+named(f.data, "data")
	flags := strings.NewReplacer(
		attack+".norm", "--norm", attack+".epsilon", "--epsilon", attack+".", "--param ", attack, "--attack "+f.attack,
		m+".preprocess.scale", "--scale", m+".preprocess.mean", "--mean", m+".preprocess.std", "--std",
		m+".preprocess", "--mean and --std", m+".output_name", "--output-name",
		m+".path", "MODEL", data+".path", "--data", data+".format", "--format", data+".split", "--split",
		data+".keys", "--keys", data+".transform", "--resize and --crop",
	)
	for i, e := range list {
		list[i] = &config.Error{Message: flags.Replace(e.Message)}
	}
	return list
}
