package open

import (
	"context"
	"fmt"
	"math"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/train"
	"selfheal/harness"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/number"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// Model is an opened model of a config, outside a run: undefended, and in the closed loop of one of the config's
// controls.
type Model struct {
	*Opener
	Classifier // controlled, if a control was asked for
}

// Use opens a model of cfg and, unless it is "" or "none", a control. It fits the control's linear embeddings or
// takes them from the cache. An error about something that the config names is a [ConfigError].
func Use(ctx context.Context, cfg *config.Config, model, controlName string, o Options) (*Model, error) {
	m, c := cfg.Model(model), cfg.Control(controlName)
	switch {
	case m == nil:
		return nil, ConfigError{cfg.Unknown("model", model)}
	case c == nil && controlName != "" && controlName != cell.None:
		return nil, ConfigError{cfg.Unknown("control", controlName)}
	}
	o.model = model
	opener, err := New(cfg, o)
	if err != nil {
		return nil, err
	}
	u := &Model{Opener: opener}
	net, err := opener.Network(ctx, m, "")
	if err == nil {
		u.Classifier = Alone(net)
	}
	if err == nil && c != nil {
		var loop *Controller
		if loop, err = opener.Controller(ctx, net, c, true); err == nil {
			u.Classifier = Under(loop, net)
		}
	}
	if err == nil {
		return u, nil
	}
	u.Close()
	if ctx.Err() == nil {
		err = ConfigError{err}
	}
	return nil, err
}

// Close frees the model and its controller.
func (u *Model) Close() {
	if u.Loop != nil {
		u.Loop.Close()
	}
	if u.Net != nil {
		u.Net.Close()
	}
	u.Opener.Close()
}

// Answer is a classifier's answer to one image.
type Answer struct {
	Class  int     // of the largest logit
	Margin float64 // difference between the two largest logits
	Logits []float32
}

// Probabilities returns the softmax of the logits.
func (a Answer) Probabilities() []float64 {
	sum, p := 0.0, make([]float64, len(a.Logits))
	for i, z := range a.Logits {
		p[i] = math.Exp(float64(z) - float64(a.Logits[a.Class]))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// Answers classifies n images with the undefended model and, if there is a controller, with the controlled one.
// pixels returns an image as C·H·W values in [0,1] and is called from several goroutines.
func (u *Model) Answers(ctx context.Context, n int, pixels func(i int) ([]float32, error)) (plain, healed []Answer,
	err error) {
	if plain, err = u.answers(ctx, Alone(u.Net), n, pixels); err == nil && u.Loop != nil {
		healed, err = u.answers(ctx, u.Classifier, n, pixels)
	}
	return plain, healed, err
}

func (u *Model) answers(ctx context.Context, who Classifier, n int, pixels func(i int) ([]float32, error)) ([]Answer,
	error) {
	out := make([]Answer, n)
	err := u.ForEach(ctx, n, who.State(), func(ctx context.Context, i int) error {
		x, err := pixels(i)
		if err == nil {
			_, err = (plan.Ball{}).Measure(x, x, attacks.Shape{}) // pixels outside [0,1]
		}
		if err != nil {
			return err
		}
		z, err := who.Logits(ctx, x)
		class := attacks.Argmax(z)
		if out[i] = (Answer{class, attacks.LogitMargin(z, class), z}); err == nil && !number.Finite(out[i].Margin) {
			err = NotFinite{who.Info, i}
		}
		return err
	})
	return out, err
}

// Box returns the box of the model's images, or nil if they are no rows of features.
func (u *Model) Box() *result.Box {
	if name := u.imagesOf(u.Config.Model(u.Net.Name), ""); name != "" {
		return u.Config.Dataset(name).Box
	}
	return nil
}

// Fits checks that the model takes the images of a data set.
func (u *Model) Fits(d *dataset.Dataset) error { return fits(d, u.Net) }

// FitsImage checks that the model takes images of a shape: channels, height, width.
func (u *Model) FitsImage(shape [3]int) error { return fitsShape(shape, u.Net) }

// Set opens a data set of the config for the model, cut to limit if that is above 0.
func (u *Model) Set(name string, limit int) (*dataset.Dataset, error) {
	if u.Config.Dataset(name) == nil {
		return nil, u.Config.Unknown("data set", name)
	}
	d, err := u.Dataset(name, limit)
	if err != nil {
		return nil, err
	}
	if err := fits(d, u.Net); err != nil {
		return nil, fmt.Errorf("dataset %s and model %s: %w", name, u.Net.Name, err)
	}
	return d, nil
}

// Export returns the controlled network as one ONNX file whose metadata have the SHA-256 of the model. If only the
// image of a quantised network is controlled, the file's own operators follow the control.
func (u *Model) Export() (*Exported, error) {
	g, err := u.exported()
	if err != nil {
		return nil, ConfigError{err}
	}
	g.Meta["model_sha256"], g.Meta["selfheal"] = u.Record.Models[u.Net.Name].SHA256, harness.Version
	out := g.Outputs[0]
	e := &Exported{Input: g.Inputs[0].Shape.String(), Output: fmt.Sprintf("%s %v", out.Name, out.Shape),
		Solver: u.Loop.Solver}
	for _, l := range u.Loop.embeddings {
		at, meta := u.Loop.Places[l.T], l.Embedding.Meta
		judged := "its file names no accuracy on images held back from training"
		if j, ok := train.ReadJudged(meta); ok {
			judged = j.String()
		}
		if name, of, _ := strings.Cut(meta["models"], " "); name != "" && of != u.Record.Models[u.Net.Name].SHA256 {
			judged, meta = "its file tells of "+name+" or of several networks, and not of this one alone", nil
		}
		for _, key := range train.JudgedKeys {
			if v := meta[key]; v != "" {
				g.Meta[at+" "+key] = v
			}
		}
		e.Judged = append(e.Judged, at+": "+judged)
	}
	if e.Data, err = g.Encode(); err != nil {
		return nil, ConfigError{fmt.Errorf("%s: %w", u, err)}
	}
	return e, nil
}

func (u *Model) exported() (*onnx.Graph, error) {
	m := u.Config.Model(u.Net.Name)
	if len(m.Members) > 0 || !u.Net.Graph.IsCopy() && !u.Net.Graph.Levels || !u.Loop.ByFile() {
		return u.Loop.Graph()
	}
	file, err := ReadModel(u.Config.Files, m.Path)
	if err != nil {
		return nil, err
	}
	body, err := simplify.AsItLies(file.Data, u.taken(m, ""))
	if err != nil {
		return nil, fmt.Errorf("model %s (%s): %w", m.Name, m.Path, err)
	}
	logits := onnx.Value{Name: "logits", DType: onnx.Float, Shape: onnx.Shape{onnx.Batch, int64(u.Net.Classes())}}
	if y := body.Outputs[0].Shape; len(y) != 2 || y[1] != logits.Shape[1] { // a single logit, extended to two classes
		return u.Loop.Graph()
	}
	if y := &body.Outputs[0]; m.Output == "probabilities" {
		log := body.Fresh(y.Name + "/log")
		body.Nodes = append(body.Nodes, &onnx.Node{Op: "Log", Inputs: []string{y.Name}, Outputs: []string{log}})
		y.Name = log
	}
	g, err := u.Loop.Front()
	if err == nil {
		err = g.Chain(body, "file/", logits)
	}
	return g, err
}

// Exported is a controlled network as a file.
type Exported struct {
	Data          []byte // the file
	Input, Output string // shapes, such as [N 3 32 32], the output's behind its name
	Solver        control.Solver
	Judged        []string // how each embedding does on images held back from its training, as far as its file says
}
