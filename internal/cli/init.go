package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/internal/atomicfile"
	"selfheal/models/onnx/simplify"
)

// lookedAt is how many images init asks a network about.
const lookedAt = 100

type initFlags struct {
	dataFlags
	preprocessFlags
	probabilities bool
	fit, out      string
	force         bool
}

func initCommand(g *globals) *cobra.Command {
	f := &initFlags{}
	c := &cobra.Command{
		Use:   "init MODEL --data FILE",
		Short: "Write a config for a model and its data",
		Long: `Opens a model and labelled images, finds out how the model was trained to take images
(it is asked about some, normalised in the usual ways), and writes a config with comments
that runs as it is: a suite of minutes, and AutoAttack's standard version on more images.
With --fit there is a control as well, which heals the network while it runs.`,
		Example: `  selfheal init model.onnx --data test_batch.bin
  selfheal init model.onnx --data test.npz --fit train.npz --out mine.yaml
  selfheal run`,
		Args:              exactly(1, "one model"),
		ValidArgsFunction: once(filesWith("onnx")),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, g, args[0]) },
	}
	to := flags{c}
	f.dataFlags.add(to)
	f.preprocessFlags.add(to)
	to.on(&f.probabilities, "probabilities", "the model gives probabilities, not logits")
	to.text(&f.fit, "fit", "", "clean training images, in the format of --data, to fit a control to", anyFile)
	to.text(&f.out, "out", "config.yaml", "the config's file", filesWith("yaml", "yml"))
	to.on(&f.force, "force", "replace --out")
	return c
}

// usual are the bounds of perturbations that benchmarks have, for images of few pixels and of many.
type usual struct{ Linf, L2 string }

// introduced is what a new config says.
type introduced struct {
	Out, Model, Data, Fit string // paths from the config's folder
	Network, Images       string // names
	Format, Transform     string
	Chosen                string // the split and which of its images
	open.Tried                   // the best
	Others                []open.Tried
	Output                string // how the output is taken
	Usual                 usual
	Suites                map[string]string // their attacks
}

var newConfig = template.Must(template.New("").Parse(`# {{.Network}} under attack.
# Run it:                      selfheal run --config {{.Out}} --out results
# What it takes, before:       selfheal run --config {{.Out}} --dry-run
# The longer suite:            selfheal run --config {{.Out}} --out results --suite full
# A gate for CI:               selfheal check --update --baseline baseline.json results
#                              selfheal check --baseline baseline.json results
version: 1
seed: 0
default_suites: [quick]

datasets:
  {{printf "%q" .Images}}: {format: {{.Format}}, path: {{printf "%q" .Data}}{{.Chosen}}{{.Transform}}}
{{- if .Fit}}
  train: {format: {{.Format}}, path: {{printf "%q" .Fit}}{{.Transform}}}
{{- end}}

models:
  # {{.Classes}} classes; {{index .Shape 0}} channels of {{index .Shape 1}} rows and {{index .Shape 2}} columns.
  # Right on {{.Right}} of {{.Of}} images when it takes them {{.Name}}.
{{- range .Others}}
  #   {{.Name}}, preprocess: {{.Preprocessing}}: {{.Right}}
{{- end}}
  {{printf "%q" .Network}}:
    {path: {{printf "%q" .Model}}, preprocess: {{.Preprocessing}}, {{.Output}}}
{{if .Fit}}
controls:
  # Draws states to the subspaces that clean training images lie near.
  pca:
    solver: {method: greedy}
    layers:
      - {at: input, embedding: {kind: linear, fit: train, variance: 0.99}}
      - {at: last, embedding: {kind: linear, fit: train, variance: 0.99}}
{{end}}
attacks:
  # The version quick comes close to standard for a twentieth of its passes; standard is what is published.
  quick-linf: {kind: autoattack, version: quick, norm: linf, epsilon: {{.Usual.Linf}}}
  quick-l2: {kind: autoattack, version: quick, norm: l2, epsilon: {{.Usual.L2}}}
  aa-linf: {kind: autoattack, version: standard, norm: linf, epsilon: {{.Usual.Linf}}}
  aa-l2: {kind: autoattack, version: standard, norm: l2, epsilon: {{.Usual.L2}}}

suites:
{{- range $name, $attacks := .Suites}}
  {{$name}}:
    dataset: {{printf "%q" $.Images}}
    models: [{{printf "%q" $.Network}}]
{{- if $.Fit}}
    controls: [pca]
{{- end}}
    attacks: [{{$attacks}}]
{{- end}}
`))

func (f *initFlags) run(c *cobra.Command, g *globals, model string) error {
	if err := needed(c, "data", f.data, ", for example --data test.npz"); err != nil {
		return err
	}
	if _, err := os.Stat(f.out); err == nil && !f.force {
		return usage("%s is there; choose another --out or add --force", f.out)
	}
	format, err := f.guess()
	if err != nil {
		return usage("%w", err)
	}
	shape, err := f.shaping()
	if err != nil {
		return usage("%w", err)
	}
	shaping := inConfig(shape)
	preprocess, output, err := f.taken(f.probabilities)
	if err != nil {
		return usage("%w", err)
	}
	if err := g.runtime(c, config.Runtime{}); err != nil {
		return err
	}
	ask := func(transform string) ([]open.Tried, error) {
		cfg, err := config.Parse("flags", fmt.Appendf(nil, `version: 1
datasets: {d: {format: %s, path: %q%s%s}}
models: {m: {path: %q, preprocess: %s, %s}}
attacks: {}
suites: {s: {dataset: d, models: [m], attacks: [none]}}
`, format, filepath.ToSlash(f.data), shaping+first(format, lookedAt), transform, filepath.ToSlash(model),
			preprocess, output), config.Folder("."))
		if err != nil {
			return nil, usage("%w", err)
		}
		return open.TryPreprocessing(c.Context(), cfg)
	}
	transform := ""
	tried, err := ask(transform)
	// Images of other sizes are brought to the model's.
	if errors.As(err, new(open.ConfigError)) && shape.Transform == nil {
		if size := f.side(model); size > 0 {
			transform = fmt.Sprintf(", transform: {resize: %d, crop: %d}", resized(size), size)
			if again, terr := ask(transform); terr == nil {
				tried, err = again, nil
			}
		}
	}
	if err != nil {
		return err
	}
	about := introduced{Out: filepath.Base(f.out), Network: named(model, "model"), Images: named(f.data, "data"),
		Format: format, Chosen: shaping + first(format, 1000), Transform: transform, Tried: tried[0],
		Others: tried[1:], Output: output, Usual: usual{"8/255", "0.5"},
		Suites: map[string]string{"quick": "quick-linf, quick-l2", "full": "aa-linf, aa-l2"}}
	if about.Shape[1] > 64 {
		about.Usual = usual{"4/255", "3"}
	}
	for to, path := range map[*string]string{&about.Model: model, &about.Data: f.data, &about.Fit: f.fit} {
		if *to = path; path != "" && !filepath.IsAbs(path) {
			*to, err = fromFolder(f.out, path)
		}
		if err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err = newConfig.Execute(&b, about); err != nil {
		return err
	}
	if err := atomicfile.Write(f.out, b.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", f.out, err)
	}
	doubt := ""
	if 2*about.Right < about.Of {
		doubt = "; that is little: the model may have another --mean and --std, or the data other labels"
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: right on %d of %d images%s; next: selfheal run --config %s\n", f.out,
		about.Right, about.Of, doubt, f.out)
	return err
}

// side is that of the square images that a model takes, 0 where it takes none.
func (f *initFlags) side(model string) int64 {
	o, err := f.options()
	if err != nil {
		return 0
	}
	g, _, err := simplify.Load(model, o)
	if err != nil || len(g.Inputs[0].Shape) != 4 || g.Inputs[0].Shape[2] != g.Inputs[0].Shape[3] {
		return 0
	}
	return g.Inputs[0].Shape[2]
}

// resized is to how many pixels the shorter side is brought before images are cropped: 256 for 224, as usual.
func resized(crop int64) int64 {
	if crop < 128 {
		return crop
	}
	return (crop*256 + 112) / 224
}

// fromFolder is a path from the folder of a file.
func fromFolder(file, path string) (string, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err == nil {
		path, err = filepath.Rel(filepath.Dir(file), path)
	}
	return filepath.ToSlash(path), err
}
