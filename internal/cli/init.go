package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/models/onnx/simplify"
)

type initFlags struct {
	labelledFlags
	preprocessFlags
	taskFlags
	fit, out string
}

func initCommand(g *globals) *cobra.Command {
	f := &initFlags{}
	c := &cobra.Command{
		Use:   "init MODEL --data FILE",
		Short: "Write a config for a model and its data",
		Long: `Opens a model and labelled images, finds out how the model was trained to take images
(it is asked about the first --limit, taken in the usual ways), and writes a config with
comments that runs as it is: a suite of minutes, and AutoAttack's standard version on more images.
With --fit there is a control as well, which heals the network while it runs, once fit has fitted it.`,
		Example: `  selfheal init model.onnx --data test_batch.bin
  selfheal run
  selfheal init model.onnx --data test.npz --fit train.npz --out mine.yaml
  selfheal fit --config mine.yaml --control healed && selfheal run --config mine.yaml`,
		Args:              exactly(1, "one model"),
		ValidArgsFunction: once(filesWith("onnx")),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, g, args[0]) },
	}
	to := flags{c}
	f.labelledFlags.add(to, "images that the model is asked about, and that the config scores")
	f.preprocessFlags.add(to)
	f.taskFlags.add(to)
	to.text(&f.fit, "fit", "", "clean training images, in the format of --data, to fit a control to", anyFile)
	to.output(&f.out, "out", "config.yaml", "the config's file", filesWith("yaml", "yml"))
	to.force()
	return c
}

// usualBounds are the usual bounds of perturbations in benchmarks, for images with few pixels and with many.
type usualBounds struct{ Linf, L2 string }

// configValues holds the values of a new config.
type configValues struct {
	Out              string
	Embedding        string      // file of the control's embedding
	Network, Images  string      // names
	Model, Data, Fit config.Keys // of the network, the images and the training images; Fit may be nil
	Training         string      // name of the training images
	open.Tried                   // the preprocessing that fits best
	Others           []open.Tried
	Usual            usualBounds
	Stages           int               // of the control's embedding; 0: the images can't be halved, and it is linear
	Suites           map[string]string // attacks of each suite
	Label            bool              // the network returns only a label
	Rows             bool              // the images are rows of features
	Task             bool              // the model does not classify
}

var newConfig = template.Must(template.New("").Parse(`# {{.Network}} under attack.
{{- if .Stages}}
# Fit the control, once:       selfheal fit --config {{.Out}} --control healed
{{- end}}
# Run it:                      selfheal run --config {{.Out}} --out results
# What it takes, before:       selfheal run --config {{.Out}} --dry-run
# The longer suite:            selfheal run --config {{.Out}} --out results --suite full
# A gate for CI:               selfheal check --update --baseline baseline.json results
#                              selfheal check --baseline baseline.json results
version: 1
seed: 0
default_suites: [quick]

datasets:
{{- if .Labels}}
  # {{.Labels}}
{{- end}}
  {{printf "%q" .Images}}: {{.Data}}
{{- if .Fit}}
  {{.Training}}: {{.Fit}}
{{- end}}

models:
{{- if .Task}}
  # Images of {{index .Shape 0}} channels of {{index .Shape 1}} rows and {{index .Shape 2}} columns.
{{- else if .Rows}}
  # {{.Classes}} classes; rows of {{index .Shape 2}} features. Epsilon is a fraction of each feature's box.
{{- else}}
  # {{.Classes}} classes; {{index .Shape 0}} channels of {{index .Shape 1}} rows and {{index .Shape 2}} columns.
{{- end}}
  # Right on {{.Right}} of {{.Of}} images when it takes them {{.Name}}.
{{- range .Others}}
  #   {{.Name}}, preprocess: {{.Preprocessing}}: {{.Right}} of {{.Of}}
{{- end}}
  {{printf "%q" .Network}}:
    {{.Model}}
{{if .Fit}}
controls:
  healed:
    solver: {method: greedy}
    layers:
{{- if .Stages}}
      # Draws images to where clean training images lie. For few of them (the epochs here suit 10,000) take more epochs.
      - at: input
        embedding: {kind: autoencoder, architecture: unet, stages: {{.Stages}},
                    {{if .Coarse}}coarse: {{.Coarse}}, {{end}}fit: {{.Training}}, epochs: 8,
                    path: {{printf "%q" .Embedding}}, augment: {flip: true}, optimizer: {lr: 0.002},
                    objective: {kind: gaussian, sigma: 0.06, loss: stability}, weight_start: 1, lr_warmup: 0.1,
                    clip: 1, average: 0.99}
{{- else}}
      # Draws states to the subspaces that clean training images lie near.
      - {at: input, embedding: {kind: linear, fit: {{.Training}}, variance: 0.99}}
      - {at: last, embedding: {kind: linear, fit: {{.Training}}, variance: 0.99}}
{{- end}}
{{end}}
attacks:
{{- if .Label}}
  # They see labels alone; a query is a pass.
  quick-linf: {kind: rays, norm: linf, epsilon: {{.Usual.Linf}}, queries: 1000}
  quick-l2: {kind: hop-skip-jump, norm: l2, epsilon: {{.Usual.L2}}, queries: 1000}
  full-linf: {kind: rays, norm: linf, epsilon: {{.Usual.Linf}}}
  full-l2: {kind: hop-skip-jump, norm: l2, epsilon: {{.Usual.L2}}}
{{- else if .Steps}}
  # A tree ensemble has no gradients: these see its scores, and its labels; a query is a pass.
  quick-linf: {kind: square, norm: linf, epsilon: {{.Usual.Linf}}, queries: 1000}
  quick-l2: {kind: hop-skip-jump, norm: l2, epsilon: {{.Usual.L2}}, queries: 1000}
  full-linf: {kind: square, norm: linf, epsilon: {{.Usual.Linf}}}
  full-l2: {kind: hop-skip-jump, norm: l2, epsilon: {{.Usual.L2}}}
{{- else}}
  # The version quick comes close to standard for under a twentieth of its passes; standard is what is published.
  quick-linf: {kind: autoattack, version: quick, norm: linf, epsilon: {{.Usual.Linf}}}
  quick-l2: {kind: autoattack, version: quick, norm: l2, epsilon: {{.Usual.L2}}}
  aa-linf: {kind: autoattack, version: standard, norm: linf, epsilon: {{.Usual.Linf}}}
  aa-l2: {kind: autoattack, version: standard, norm: l2, epsilon: {{.Usual.L2}}}
{{- end}}

suites:
{{- range $name, $attacks := .Suites}}
  {{$name}}:
    dataset: {{printf "%q" $.Images}}
    models: [{{printf "%q" $.Network}}]
{{- if $.Fit}}
    controls: [healed]
{{- end}}
    attacks: [{{$attacks}}]
{{- end}}
`))

func (f *initFlags) run(c *cobra.Command, g *globals, model string) error {
	if err := needed(c, "data", f.data, ", for example --data test.npz"); err != nil {
		return err
	}
	if f.task != "" && f.fit != "" {
		return usage("--fit trains by classes, and a model of --task gives none")
	}
	if f.form.label && f.fit != "" {
		return usage("--fit trains through logits, and a model of --label gives none")
	}
	network, scored, err := f.keys(model, &f.preprocessFlags)
	if err != nil {
		return err
	}
	if network, scored, err = f.tasked(network, scored); err != nil {
		return usage("%w", err)
	}
	to, err := g.file(f.out, "config")
	if err != nil {
		return err
	}
	if err := g.runtime(c, config.Runtime{}); err != nil {
		return err
	}
	var transform config.Keys // it gives images of other sizes the model's size
	tried, err := ask(c, network, scored)
	if errors.As(err, new(open.ConfigError)) && f.resize+f.crop == 0 {
		if size := f.side(model); size > 0 {
			transform = config.Keys{transformed(open.Resized(size), size)}
			again, terr := ask(c, network, slices.Concat(scored, transform))
			if terr == nil {
				tried, err = again, nil
			}
		}
	}
	if err != nil {
		return err
	}
	if err := open.Undecided(named(model, "model"), tried); err != nil {
		return usage("%w", err)
	}
	network[1].Value = config.Word(tried[0].String())
	about := configValues{Out: filepath.Base(f.out), Network: named(model, "model"), Images: named(f.data, "data"),
		Model: network, Data: slices.Concat(scored, transform), Tried: tried[0],
		Others: tried[1:], Usual: usualBounds{"8/255", "0.5"},
		Suites: map[string]string{"quick": "quick-linf, quick-l2", "full": "aa-linf, aa-l2"}, Label: f.form.label,
		Task: f.task != ""}
	if f.form.label || about.Steps {
		about.Suites["full"] = "full-linf, full-l2"
	}
	if f.fit != "" {
		if about.Fit, err = f.fitted(network[:1], slices.Concat(scored[:len(scored)-1], transform)); err != nil {
			return err
		}
		if about.Training = "train"; about.Images == about.Training {
			about.Training = "training"
		}
	}
	next := "selfheal run --config " + f.out
	if f.fit != "" {
		about.Stages = halvings(about.Shape)
		about.Embedding = strings.TrimSuffix(about.Out, filepath.Ext(about.Out)) + "-healed.onnx"
	}
	if about.Stages > 0 {
		next = fmt.Sprintf("selfheal fit --config %s --control healed && %s", f.out, next)
	}
	switch about.Rows = slices.ContainsFunc(scored, func(k config.Key) bool { return k.Name == "box" }); {
	case about.Rows:
		about.Usual = usualBounds{"0.05", "0.2"}
	case about.Shape[1] > 64:
		about.Usual = usualBounds{"4/255", "3"}
	}
	for _, keys := range []config.Keys{about.Model, about.Data, about.Fit} {
		if err := fromFolder(f.out, keys); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err = newConfig.Execute(&b, about); err != nil {
		return err
	}
	if err := to.Write(b.Bytes()); err != nil {
		return err
	}
	doubt := ""
	if 2*about.Right < about.Of {
		doubt = "; that is little: the model may have another --mean and --std, or the data other labels"
	}
	if o, err := f.options(); err == nil && f.task == "" {
		if g, _, err := simplify.Load(model, o); err == nil && likelyTask(g, model) != "" {
			doubt += "; " + likelyTask(g, model)
		}
	}
	if about.Labels != "" {
		fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", f.data, about.Labels)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: right on %d of %d images, taken %s%s; next: %s\n", f.out,
		about.Right, about.Of, about.Name, doubt, next)
	return err
}

// Coarse returns the embedding's key coarse, which was measured on images of 32×32 pixels: 4, or 0 for images of more
// than 64 pixels a side and for sides that 4 does not divide.
func (v configValues) Coarse() int {
	if h, w := v.Shape[1], v.Shape[2]; h%4 != 0 || w%4 != 0 || max(h, w) > 64 {
		return 0
	}
	return 4
}

// halvings returns how often an image's sides can be halved, up to the default number of unet.
func halvings(shape [3]int) int { return min(3, bits.TrailingZeros(uint(shape[1]|shape[2]))) }

// ask asks a network about images, once for each way of preprocessing.
func ask(c *cobra.Command, network, images config.Keys) (all []open.Tried, err error) {
	cfg, err := asked(network, images)
	if err != nil {
		return nil, err
	}
	if m := cfg.Models[0]; m.Scale == 0 && m.Mean == nil {
		return open.TryPreprocessing(c.Context(), cfg)
	}
	given, advice, err := open.Examine(c.Context(), cfg, cfg.Models[0].Name)
	if advice != "" {
		fmt.Fprintf(c.ErrOrStderr(), "selfheal: %s\n", advice)
	}
	return []open.Tried{given}, err
}

// asked makes a config of a network, whose path comes first, and images.
func asked(network, images config.Keys) (*config.Config, error) {
	name := named(network[0].Value.(string), "model")
	suite := config.Keys{key("dataset", "d", ""), key("models", []string{name}, ""), key("attacks", []string{}, "")}
	cfg, err := config.Make(config.Keys{key("version", config.Version, ""),
		key("datasets", config.Keys{key("d", images, "")}, ""), key("models", config.Keys{key(name, network, "")}, ""),
		key("suites", config.Keys{key("s", suite, "")}, "")}, config.Folder("."))
	if err != nil {
		return nil, usage("%w", err)
	}
	return cfg, nil
}

// fitted returns the config's keys for --fit: the images' keys with their split for training, if they have one.
func (f *initFlags) fitted(network, images config.Keys) (config.Keys, error) {
	var keys config.Keys
	for _, k := range images {
		if k.Name == "path" {
			k = key("path", filepath.ToSlash(f.fit), "--fit")
		}
		if k.Name != "split" {
			keys = append(keys, k)
		}
	}
	opens := func(keys config.Keys) error {
		cfg, err := asked(network, keys)
		if err == nil {
			_, err = dataset.Open(cfg.Datasets[0].Spec, cfg.Files, 1)
		}
		return err
	}
	const train = "train"
	same := filepath.Clean(f.fit) == filepath.Clean(f.data)
	split := append(slices.Clip(keys), key("split", train, "--fit"))
	if (!same || f.split != train) && opens(split) == nil {
		return split, nil
	}
	if same {
		return nil, usage("--fit %s are the images that are attacked; it takes others, to train on", f.fit)
	}
	if err := opens(keys); err != nil {
		return nil, usage("--fit: %w", err)
	}
	return keys, nil
}

// side returns the side of the square images that a model takes, 0 if it takes none.
func (f *initFlags) side(model string) int {
	o, err := f.options()
	if err != nil {
		return 0
	}
	g, _, err := simplify.Load(model, o)
	if err != nil || len(g.Inputs[0].Shape) != 4 || g.Inputs[0].Shape[2] != g.Inputs[0].Shape[3] {
		return 0
	}
	return int(g.Inputs[0].Shape[2])
}

// fromFolder makes the paths among keys relative to the folder of a file.
func fromFolder(file string, keys config.Keys) error {
	file, err := filepath.Abs(file)
	for i, k := range keys {
		path, is := k.Value.(string)
		if inner, nested := k.Value.(config.Keys); nested {
			err = cmp.Or(err, fromFolder(file, inner))
		}
		if word, named := k.Value.(config.Word); named && (k.Name == "head" || k.Name == "texts") {
			path, is = string(word), true
		}
		if err != nil || !slices.Contains([]string{"path", "truth", "head", "texts"}, k.Name) || !is ||
			filepath.IsAbs(path) {
			continue
		}
		if path, err = filepath.Abs(path); err == nil {
			path, err = filepath.Rel(filepath.Dir(file), path)
		}
		keys[i].Value = filepath.ToSlash(path)
	}
	return err
}
