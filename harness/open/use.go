package open

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/plan"
	"selfheal/internal/number"
	"selfheal/internal/suggest"
)

// Model is a model of a config outside a run: alone, and in the closed loop of one of the config's controls.
type Model struct {
	*Opener
	Classifier // controlled, where a control was asked for
}

// Use opens a model of cfg and, unless it is "" or "none", a control, fitting its linear embeddings or taking them from
// the cache. An error about something that the config names is a [ConfigError].
func Use(ctx context.Context, cfg *config.Config, model, controlName string, o Options) (*Model, error) {
	m, c := cfg.Model(model), cfg.Control(controlName)
	switch {
	case m == nil:
		return nil, ConfigError{Unknown("model", model, cfg.Models, func(m config.Model) string { return m.Name })}
	case c == nil && controlName != "" && controlName != config.None:
		return nil, ConfigError{Unknown("control", controlName, cfg.Controls,
			func(c config.Control) string { return c.Name })}
	}
	opener, err := New(cfg, o)
	if err != nil {
		return nil, err
	}
	u := &Model{Opener: opener}
	net, err := opener.Network(m, false)
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

// Unknown is the error about a name that a config does not define.
func Unknown[T any](kind, name string, defined []T, nameOf func(T) string) error {
	names := make([]string, len(defined))
	for i, d := range defined {
		names[i] = nameOf(d)
	}
	return fmt.Errorf("the config has no %s %q%s", kind, name, suggest.Or(name, "it has", names))
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

// Answer is a classifier's word on one image.
type Answer struct {
	Class  int     // of the largest logit
	Margin float64 // by which that exceeds the second
	Logits []float32
}

// Probabilities is the softmax of the logits.
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

// Answers classifies n images, which pixels gives as C·H·W values in [0,1] and may be asked for from several
// goroutines: with the model alone and, where there is a controller, healed.
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
			_, err = (plan.Ball{}).Measure(x, x) // pixels outside [0,1]
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

// Fits checks that the model takes the images of a data set.
func (u *Model) Fits(d *dataset.Dataset) error { return fits(d, u.Net) }

// FitsImage checks that the model takes images of a shape: channels, height, width.
func (u *Model) FitsImage(shape [3]int) error { return fitsShape(shape, u.Net) }

// Set opens a data set of the config, cut to limit where that is above 0, for the model.
func (u *Model) Set(name string, limit int) (*dataset.Dataset, error) {
	if u.Config.Dataset(name) == nil {
		return nil, Unknown("data set", name, u.Config.Datasets, func(d config.Dataset) string { return d.Name })
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

// Export returns the controlled network as one ONNX file, with the SHA-256 of the model among its metadata.
func (u *Model) Export() (*Exported, error) {
	g, err := u.Loop.Graph()
	if err != nil {
		return nil, ConfigError{err}
	}
	g.Meta["model_sha256"], g.Meta["selfheal"] = u.Record.Models[u.Net.Name].SHA256, harness.Version
	e := &Exported{Input: g.Inputs[0].Shape.String(), Output: g.Outputs[0].Shape.String(), Solver: u.Loop.Solver}
	if e.Data, err = g.Encode(); err != nil {
		return nil, ConfigError{fmt.Errorf("%s: %w", u, err)}
	}
	return e, nil
}

// Exported is a controlled network as a file.
type Exported struct {
	Data          []byte // the file
	Input, Output string // shapes, such as [N 3 32 32]
	Solver        control.Solver
}

// Preprocessing is a way in which networks are trained to take images in [0,1]: (x·Scale − Mean)/Std.
type Preprocessing struct {
	Name      string
	Scale     float64 // 0: 1
	Mean, Std []float64
	channels  int    // that the images have; 0: any
	of        string // begins the names of its data set's formats
}

// preprocessings are the usual ones.
var preprocessings = []Preprocessing{
	{Name: "as they are, in [0,1]"},
	{Name: "in [0,255]", Scale: 255},
	{Name: "in [-1,1]", Mean: []float64{0.5}, Std: []float64{0.5}},
	{Name: "by ImageNet's mean and deviation", Mean: []float64{0.485, 0.456, 0.406},
		Std: []float64{0.229, 0.224, 0.225}, channels: 3},
	{Name: "by CIFAR-10's mean and deviation", Mean: []float64{0.4914, 0.4822, 0.4465},
		Std: []float64{0.2471, 0.2435, 0.2616}, channels: 3, of: "cifar10-"},
	{Name: "by CIFAR-100's mean and deviation", Mean: []float64{0.5071, 0.4865, 0.4409},
		Std: []float64{0.2673, 0.2564, 0.2762}, channels: 3, of: "cifar100-"},
	{Name: "by MNIST's mean and deviation", Mean: []float64{0.1307}, Std: []float64{0.3081}, channels: 1},
}

// String is the preprocessing as a config has it.
func (p Preprocessing) String() string {
	var parts []string
	if p.Scale != 0 {
		parts = append(parts, fmt.Sprintf("scale: %v", p.Scale))
	}
	list := func(name string, v []float64) {
		if len(v) > 0 {
			parts = append(parts, name+": ["+strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ", "), "[]")+"]")
		}
	}
	list("mean", p.Mean)
	list("std", p.Std)
	return "{" + strings.Join(parts, ", ") + "}"
}

// Tried is how many of the images that were looked at a network is right on, taken in one way.
type Tried struct {
	Preprocessing
	Right, Of int
	Shape     [3]int // of the images: channels, height, width
	Classes   int    // of the network
	levels    bool   // it takes uint8, in one way
}

// TryPreprocessing asks the one model of cfg about the images of its one data set, taken as the config says or as
// networks are usually trained. The best comes first: but for chance it is that of the data set, or the simpler one.
func TryPreprocessing(ctx context.Context, cfg *config.Config) ([]Tried, error) {
	m := &cfg.Models[0]
	if m.Scale != 0 || m.Mean != nil {
		one, err := tryOne(ctx, cfg, Preprocessing{Name: "as the flags say", Scale: m.Scale, Mean: m.Mean, Std: m.Std})
		return []Tried{one}, err
	}
	var all []Tried
	for _, p := range preprocessings {
		if len(all) > 0 && all[0].levels {
			break
		}
		if p.channels != 0 && p.channels != all[0].Shape[0] {
			continue
		}
		one, err := tryOne(ctx, cfg, p)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b Tried) int { return b.Right - a.Right })
	format, best := cfg.Datasets[0].Format, 0
	for i, t := range all {
		as := float64(all[0].Right-t.Right) <= math.Sqrt(float64(t.Of))/2
		if as && t.rank(format) < all[best].rank(format) {
			best = i
		}
	}
	first := all[best]
	return append([]Tried{first}, slices.Delete(all, best, best+1)...), nil
}

// rank orders what is as good on images of a format.
func (p Preprocessing) rank(format string) int {
	if p.of != "" && strings.HasPrefix(format, p.of) {
		return -1
	}
	return slices.IndexFunc(preprocessings, func(q Preprocessing) bool { return q.Name == p.Name })
}

func tryOne(ctx context.Context, cfg *config.Config, p Preprocessing) (t Tried, err error) {
	c := *cfg
	c.Models = slices.Clone(cfg.Models)
	m := &c.Models[0]
	m.Scale, m.Mean, m.Std = p.Scale, p.Mean, p.Std
	u, err := Use(ctx, &c, m.Name, "", Options{})
	if err != nil {
		return t, err
	}
	defer u.Close()
	set, err := u.Scored(c.Datasets[0].Name)
	if err == nil {
		err = u.Fits(set.Dataset)
	}
	if err != nil {
		return t, ConfigError{err}
	}
	answers, _, err := u.Answers(ctx, set.Len(), func(i int) ([]float32, error) {
		im, err := set.Read(i)
		return im.Pixels, err
	})
	t = Tried{Preprocessing: p, Of: len(answers), Shape: set.Shape(), Classes: u.Net.Classes(),
		levels: u.Net.Graph.Levels}
	for i, a := range answers {
		if a.Class == set.Label(i) {
			t.Right++
		}
	}
	return t, err
}
