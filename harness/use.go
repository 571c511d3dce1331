package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/stats"
	"selfheal/internal/number"
	"selfheal/internal/suggest"
)

// Use is a model of a config outside a run: alone, and in the closed loop of one of
// the config's controls.
type Use struct {
	*opener
	classifier // controlled, where a control was asked for
}

// Open opens a model of cfg and, unless it is "" or "none", a control, fitting its
// linear embeddings or taking them from the cache. Of o only Progress and Cache are
// read. What is wrong with what the config names is a [ConfigError].
func Open(ctx context.Context, cfg *config.Config, model, controlName string, o Options) (*Use, error) {
	m, c := cfg.Model(model), cfg.Control(controlName)
	switch {
	case m == nil:
		return nil, ConfigError{unknown("model", model, cfg.Models, func(m config.Model) string { return m.Name })}
	case c == nil && controlName != "" && controlName != config.None:
		return nil, ConfigError{unknown("control", controlName, cfg.Controls,
			func(c config.Control) string { return c.Name })}
	}
	opener, err := newOpener(cfg, o.Cache, o.Progress)
	if err != nil {
		return nil, err
	}
	u := &Use{opener: opener}
	net, err := opener.network(m, false)
	if err == nil {
		u.classifier = alone(net)
	}
	if err == nil && c != nil {
		var loop *controller
		if loop, err = opener.controller(ctx, net, c, true); err == nil {
			u.classifier = under(loop, net)
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

// unknown is the error about a name that a config does not define.
func unknown[T any](kind, name string, defined []T, nameOf func(T) string) error {
	names := make([]string, len(defined))
	for i, d := range defined {
		names[i] = nameOf(d)
	}
	return fmt.Errorf("the config has no %s %q%s", kind, name, suggest.Or(name, "it has", names))
}

// Close frees the model and its controller.
func (u *Use) Close() {
	if u.loop != nil {
		u.loop.Close()
	}
	if u.net != nil {
		u.net.Close()
	}
	u.close()
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

// Answers classifies n images, which pixels gives as C·H·W values in [0,1] and may be
// asked for from several goroutines: with the model alone and, where there is a
// controller, healed.
func (u *Use) Answers(ctx context.Context, n int, pixels func(i int) ([]float32, error)) (plain, healed []Answer,
	err error) {
	if plain, err = u.answers(ctx, alone(u.net), n, pixels); err != nil || u.loop == nil {
		return plain, nil, err
	}
	healed, err = u.answers(ctx, u.classifier, n, pixels)
	return plain, healed, err
}

func (u *Use) answers(ctx context.Context, who classifier, n int, pixels func(i int) ([]float32, error)) ([]Answer,
	error) {
	out := make([]Answer, n)
	err := u.forEach(ctx, n, who.state(), func(ctx context.Context, i int) error {
		x, err := pixels(i)
		if err != nil {
			return err
		}
		if _, err = (ball{}).measure(x, x); err != nil { // pixels outside [0,1]
			return err
		}
		z, err := who.logits(ctx, x)
		if err != nil {
			return err
		}
		v, finite := decide(z, unlabelled)
		if out[i] = (Answer{v.Class, float64(v.Margin), z}); !finite {
			return notFinite{who.subject, i}
		}
		return nil
	})
	return out, err
}

// Fits checks that the model takes the images of a data set.
func (u *Use) Fits(d *dataset.Dataset) error { return fits(d, u.net) }

// FitsImage checks that the model takes images of a shape: channels, height, width.
func (u *Use) FitsImage(shape [3]int) error {
	s := u.net.Shape()
	if fitsShape(shape, u.net) != nil {
		return fmt.Errorf("it has %d channels of %d×%d pixels, the model takes %d of %d×%d", shape[0], shape[2],
			shape[1], s.C, s.W, s.H)
	}
	return nil
}

// Export returns the controlled network as one ONNX file, see
// [control.Controller.Graph], with the SHA-256 of the model among its metadata.
func (u *Use) Export() (*Exported, error) {
	g, err := u.loop.Graph()
	if err != nil {
		return nil, ConfigError{err}
	}
	g.Meta["model_sha256"], g.Meta["selfheal"] = u.record.Models[u.net.Name].SHA256, Version
	e := &Exported{Input: g.Inputs[0].Shape.String(), Output: g.Outputs[0].Shape.String(), Solver: u.loop.Solver}
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

// dataset opens a data set of the config, cut to limit where that is above 0.
func (u *Use) dataset(name string, limit int) (*dataset.Dataset, error) {
	cfg := u.cfg
	if cfg.Dataset(name) == nil {
		return nil, unknown("data set", name, cfg.Datasets, func(d config.Dataset) string { return d.Name })
	}
	d, err := u.open(name, limit)
	if err != nil {
		return nil, err
	}
	if err := fits(d, u.net); err != nil {
		return nil, fmt.Errorf("dataset %s and model %s: %w", name, u.net.Name, err)
	}
	return d, nil
}

// attack finds an attack of the config and which of its epsilons is meant; epsilon 0
// stands for its only one.
func (u *Use) attack(name string, epsilon float64) (PlannedAttack, error) {
	cfg := u.cfg
	base, _, _ := strings.Cut(name, ":")
	a := cfg.Attack(base)
	if a != nil && a.Corruptions != nil {
		all, err := planAttack(a)
		if err != nil || base == name { // all of them allow the same
			return all[0], err
		}
		if i := slices.IndexFunc(all, func(p PlannedAttack) bool { return p.Name == name }); i >= 0 {
			return all[i], nil
		}
		return all[0], fmt.Errorf("attack %s has no cell %s; its cells are called as %s", base, name, all[0].Name)
	}
	if a == nil || base != name {
		return PlannedAttack{}, unknown("attack", name, cfg.Attacks, func(a config.Attack) string { return a.Name })
	}
	var list []string
	for _, e := range a.Epsilons {
		list = append(list, number.Format(e))
	}
	known := strings.Join(list, ", ")
	i := slices.IndexFunc(a.Epsilons, func(e float64) bool { return epsilon > e*(1-1e-9) && epsilon < e*(1+1e-9) })
	switch {
	case epsilon == 0 && len(a.Epsilons) == 1:
		i = 0
	case epsilon == 0:
		return PlannedAttack{}, fmt.Errorf("attack %s has several epsilons; say which: %s", name, known)
	case i < 0:
		return PlannedAttack{}, fmt.Errorf("attack %s has no epsilon %s; it has: %s", name, number.Format(epsilon),
			known)
	}
	return PlannedAttack{Attack: a, Epsilon: a.Epsilons[i]}, nil
}

// Claim is somebody's adversarial images and what they are said to be.
type Claim struct {
	Shape   []int // [N, C, H, W]
	Images  []float32
	Dataset string  // of the config: the clean images, in order
	Limit   int     // only the first so many of those; 0 for all
	Attack  string  // of the config: the norm and epsilon
	Epsilon float64 // which of the attack's; 0 for its only one
}

// Verification is what became of a [Claim].
type Verification struct {
	Dataset     string     `json:"dataset"`
	Model       string     `json:"model"`
	Defense     string     `json:"defense"` // "none" or the control's name
	Attack      string     `json:"attack"`
	Norm        *string    `json:"norm"`    // null of a corruption
	Epsilon     *float64   `json:"epsilon"` // null of a corruption
	N           int        `json:"n"`
	Unperturbed int        `json:"unperturbed"` // images that are the clean ones
	MaxNorm     float64    `json:"max_norm"`    // of the images whose values are numbers
	Outside     []Outside  `json:"outside"`     // images that leave the ball or the box
	Judged      int        `json:"judged"`      // the others
	Correct     int        `json:"correct"`     // of those
	Accuracy    float64    `json:"accuracy"`    // of those; 0 when there are none
	CI95        [2]float64 `json:"ci95"`        // Wilson
	Verdicts    string     `json:"verdicts"`    // one character an image: '1' right, '0' wrong, '-' outside
}

// channelsFirst brings images with channels last to a shape.
func channelsFirst(images []float32, shape [3]int) []float32 {
	out, plane := make([]float32, len(images)), shape[1]*shape[2]
	for i, v := range images {
		image, at := i/(plane*shape[0]), i%(plane*shape[0])
		out[image*plane*shape[0]+at%shape[0]*plane+at/shape[0]] = v
	}
	return out
}

// Verify measures the images of a claim as a run's judge does, and asks the model about
// those that are in ball and box: the controlled network where there is one.
// What does not fit together is a [ConfigError].
func (u *Use) Verify(ctx context.Context, c Claim) (*Verification, error) {
	a, err := u.attack(c.Attack, c.Epsilon)
	if err != nil {
		return nil, ConfigError{err}
	}
	d, err := u.dataset(c.Dataset, c.Limit)
	if err != nil {
		return nil, ConfigError{err}
	}
	shape := d.Shape()
	if last := []int{shape[1], shape[2], shape[0]}; len(c.Shape) == 4 && slices.Equal(c.Shape[1:], last) &&
		!slices.Equal(last, shape[:]) { // channels last, as data may have them too
		c.Images, c.Shape = channelsFirst(c.Images, shape), []int{c.Shape[0], shape[0], shape[1], shape[2]}
	}
	if len(c.Shape) != 4 || !slices.Equal(c.Shape[1:], shape[:]) {
		return nil, ConfigError{fmt.Errorf("the adversarial images have shape %v, "+
			"those of dataset %s have [N %d %d %d], or channels last", c.Shape, c.Dataset, shape[0],
			shape[1], shape[2])}
	}
	if c.Shape[0] != d.Len() {
		return nil, ConfigError{fmt.Errorf("there are %d adversarial images, but %d of dataset %s; "+
			"--limit N takes its first N", c.Shape[0], d.Len(), c.Dataset)}
	}
	n := d.Len()
	judged, problems, unperturbed := make([]verdict, n), make([]Outside, n), make([]bool, n)
	err = u.forEach(ctx, n, u.state(), func(ctx context.Context, i int) error {
		var im attacks.Image
		var err error
		if im.ID, im.Pixels, im.Label, err = d.Image(i); err != nil {
			return err
		}
		x := c.Images[i*len(im.Pixels) : (i+1)*len(im.Pixels)]
		unperturbed[i] = slices.Equal(im.Pixels, x)
		judged[i], err = u.classifier.judge(ctx, im, x, a.limit(), withCosts)
		if errors.As(err, &problems[i]) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	v := &Verification{Dataset: c.Dataset, Model: u.net.Name, Defense: u.defense(), Attack: c.Attack,
		N: n, Outside: []Outside{}}
	v.Norm, v.Epsilon = a.strength()
	verdicts := make([]byte, n)
	for i, of := range judged {
		v.MaxNorm = max(v.MaxNorm, of.Norm)
		if unperturbed[i] {
			v.Unperturbed++
		}
		switch p := problems[i]; {
		case p.Problem != "":
			verdicts[i] = '-'
			p.Image = d.ID(i)
			v.Outside = append(v.Outside, p)
		case of.Right:
			verdicts[i] = '1'
			v.Correct++
		default:
			verdicts[i] = '0'
		}
	}
	v.Judged, v.Verdicts = n-len(v.Outside), string(verdicts)
	if v.Judged > 0 {
		v.Accuracy = float64(v.Correct) / float64(v.Judged)
	}
	v.CI95 = stats.Wilson(v.Correct, v.Judged)
	return v, nil
}
