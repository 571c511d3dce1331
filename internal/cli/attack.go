package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
)

type attackFlags struct {
	scaleFlags
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

--attack is aa (AutoAttack's standard version), aa-plus, aa-rand, aa-quick, or one
attack: ` + strings.Join(kinds(), ", ") + `.
--param sets that attack's own parameters, which docs/config.md lists.`,
		Example: `  selfheal attack model.onnx --data test.npz --norm linf --epsilon 8/255
  selfheal attack model.onnx --data test_batch.bin --norm l2 --epsilon 0.25,0.5 --limit 1000 \
      --mean 0.4914,0.4822,0.4465 --std 0.2471,0.2435,0.2616
  selfheal attack model.onnx --data images/ --norm linf --epsilon 4/255 --attack pgd --param steps=50 --param restarts=5`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			plan, err := f.plan(args[0], c.Flags().Changed)
			if err != nil {
				return usageError{err}
			}
			return execute(c, g, plan, f.outputFlags)
		},
	}
	f.scaleFlags.add(c, "all cores", "64")
	f.outputFlags.add(c)
	f.dataFlags.add(c)
	f.preprocessFlags.add(c)
	c.Flags().StringVar(&f.norm, "norm", "", "norm of the perturbation: "+strings.Join(config.Norms, ", "))
	c.Flags().StringVar(&f.epsilon, "epsilon", "", "its bound, a number or a fraction, or a list of them: 2/255,4/255")
	c.Flags().StringVar(&f.attack, "attack", "aa", "the attack")
	c.Flags().StringArrayVar(&f.params, "param", nil, "a parameter of the attack: steps=50; may be repeated")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "of every random number")
	c.Flags().IntVar(&f.seeds, "seeds", 1, "how many seeds to attack under, from --seed up")
	c.Flags().BoolVar(&f.probabilities, "probabilities", false, "the model gives probabilities, not logits")
	c.Flags().BoolVar(&f.save, "save-adversarial", false, "write the adversarial images, float32 .npy, to adversarial/ in --out")
	return c
}

// dataFlags are --data and --format.
type dataFlags struct{ data, format string }

func (f *dataFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.data, "data", "", "labelled images: a file or folder")
	c.Flags().StringVar(&f.format, "format", "",
		"of --data: "+strings.Join(dataset.Formats(), ", ")+" (default: by its name or layout)")
}

// guess says of which format --data is where --format does not.
func (f *dataFlags) guess() (string, error) {
	format, err := dataset.Guess(config.Folder("."), filepath.ToSlash(f.data))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("--data %s: %w", f.data, systemError(err))
	case f.format == "" && err != nil:
		return "", fmt.Errorf("--data %s: %w; say it with --format", f.data, err)
	case f.format == "":
		return format, nil
	case !slices.Contains(dataset.Formats(), f.format):
		return "", fmt.Errorf("--format must be one of %s, not %q", strings.Join(dataset.Formats(), ", "), f.format)
	}
	return f.format, nil
}

// systemError is a file's error without the call and the name, which the message has.
func systemError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// kinds are the attacks beside AutoAttack.
func kinds() []string {
	return slices.DeleteFunc(slices.Clone(config.AttackKinds), func(k string) bool { return k == "autoattack" })
}

// version is the version of AutoAttack that --attack names, "" for another attack.
func (f *attackFlags) version() (string, error) {
	names := []string{"aa"}
	if f.attack == "aa" || f.attack == "autoattack" {
		return "standard", nil
	}
	for _, v := range config.AttackVersions {
		if v == "standard" || v == "custom" { // custom needs a config: a list of components
			continue
		}
		if names = append(names, "aa-"+v); f.attack == "aa-"+v {
			return v, nil
		}
	}
	if names = append(names, kinds()...); !slices.Contains(names, f.attack) {
		return "", fmt.Errorf("--attack must be one of %s, not %q", strings.Join(names, ", "), f.attack)
	}
	return "", nil
}

// plan plans what the config that says the same as the flags asks for.
func (f *attackFlags) plan(model string, changed func(flag string) bool) (*harness.Plan, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	for _, required := range []struct{ flag, value, example string }{
		{"data", f.data, "test.npz"}, {"norm", f.norm, "linf"}, {"epsilon", f.epsilon, "8/255"},
	} {
		if required.value == "" {
			return nil, fmt.Errorf("attack needs --%s, for example --%s %s", required.flag, required.flag, required.example)
		}
	}
	text, err := f.config(model)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse("flags", text, config.Folder("."))
	if err != nil {
		return nil, f.inFlags(err, model)
	}
	if cfg, err = cfg.Selected(nil); err != nil {
		return nil, err
	}
	f.apply(cfg, changed)
	return harness.NewPlan(cfg)
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
	parts := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
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

// config writes the config that says the same, in YAML's flow style.
func (f *attackFlags) config(model string) ([]byte, error) {
	format, err := f.guess()
	if err != nil {
		return nil, err
	}
	version, err := f.version()
	if err != nil {
		return nil, err
	}
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			panic(err) // a string can always be written
		}
		return string(b)
	}
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	say("version: 1\nseed: %d\nseeds: %d\nsave_adversarial: %t", f.seed, f.seeds, f.save)
	say("datasets: {%s: {format: %s, path: %s}}", quoted(named(f.data, "data")), format, quoted(filepath.ToSlash(f.data)))

	say("models:\n  %s:\n    path: %s", quoted(named(model, "model")), quoted(filepath.ToSlash(model)))
	if f.probabilities {
		say("    output: probabilities")
	}
	if f.mean != "" || f.std != "" {
		say("    preprocess:")
	}
	for _, p := range []struct{ flag, list string }{{"mean", f.mean}, {"std", f.std}} {
		if p.list == "" {
			continue
		}
		values, err := scalars(p.flag, p.list)
		if err != nil {
			return nil, err
		}
		say("      %s: %s", p.flag, values)
	}

	epsilon, err := scalars("epsilon", f.epsilon)
	if err != nil {
		return nil, err
	}
	say("attacks:\n  %s:\n    norm: %s\n    epsilon: %s", f.attack, quoted(f.norm), epsilon)
	if version != "" {
		say("    kind: autoattack\n    version: %s", version)
	} else {
		say("    kind: %s", f.attack)
	}
	given := map[string]bool{"norm": true, "epsilon": true, "kind": true, "version": true}
	for _, p := range f.params {
		key, value, ok := strings.Cut(p, "=")
		if key = strings.TrimSpace(key); !ok || !paramKey.MatchString(key) {
			return nil, fmt.Errorf("--param %s: this must be KEY=VALUE, for example steps=50", p)
		}
		if value = strings.TrimSpace(value); !plainScalar.MatchString(value) {
			return nil, fmt.Errorf("--param %s: the value must be a number or a word", p)
		}
		if given[key] {
			return nil, fmt.Errorf("--param %s: %s is given twice", p, key)
		}
		given[key] = true
		say("    %s: %s", key, value)
	}
	say("suites:\n  attack: {dataset: %s, models: [%s], attacks: [%s]}", quoted(named(f.data, "data")), quoted(named(model, "model")), f.attack)
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}

// inFlags says what is wrong with the flags' config in terms of the flags: nobody
// has seen the config.
func (f *attackFlags) inFlags(err error, model string) error {
	var e *config.Error
	if !errors.As(err, &e) {
		return err
	}
	attack, m, data := "attacks."+f.attack, "models."+named(model, "model"), "datasets."+named(f.data, "data")
	return errors.New(strings.NewReplacer(
		attack+".norm", "--norm", attack+".epsilon", "--epsilon", attack+".", "--param ", attack, "--attack "+f.attack,
		m+".preprocess.mean", "--mean", m+".preprocess.std", "--std", m+".preprocess", "--mean and --std", m+".path", "MODEL",
		data+".path", "--data", data+".format", "--format",
	).Replace(e.Message))
}
