package judge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// trial finds the trial of a config's attack at one of its epsilons. Epsilon 0 stands for its only one.
func trial(cfg *config.Config, name string, epsilon cell.Epsilon) (plan.Trial, error) {
	base, _, _ := strings.Cut(name, ":")
	a := cfg.Attack(base)
	if a == nil || !a.Several() && base != name {
		return nil, cfg.Unknown("attack", name)
	}
	all, err := plan.Trials(a)
	i, known := 0, strings.Join(lists.Map(a.Epsilons, number.Format), ", ")
	switch {
	case err != nil:
	case a.Several() && base != name:
		if i = slices.IndexFunc(all, func(t plan.Trial) bool { return t.Name() == name }); i < 0 {
			err = fmt.Errorf("attack %s has no cell %s; its cells are called as %s", base, name, all[0].Name())
		}
	case len(a.Sides) > 1:
		err = fmt.Errorf("attack %s has several sides; its cells are called as %s", base, all[0].Name())
	case a.Corruptions != nil || epsilon == 0 && len(all) == 1: // all corruptions have the same ball
	case epsilon == 0:
		err = fmt.Errorf("attack %s has several epsilons; say which: %s", name, known)
	default:
		i = slices.IndexFunc(all, func(t plan.Trial) bool {
			return epsilon > t.Epsilon()*(1-1e-9) && epsilon < t.Epsilon()*(1+1e-9)
		})
		if i < 0 {
			err = fmt.Errorf("attack %s has no epsilon %s; it has: %s", name, epsilon, known)
		}
	}
	if err != nil {
		return nil, err
	}
	return all[i], nil
}

// Claim is a set of adversarial images to verify, and the attack that is said to have made them.
type Claim struct {
	Shape       []int // [N, C, H, W]
	Images      []float32
	Dataset     string // of the config; its images, in order, are the clean ones
	Limit       int    // only the first so many of them; 0 for all
	cell.Column        // the config's attack and one of its epsilons; 0 for its only one
}

// Verification is the judge's answer to a [Claim].
type Verification struct {
	cell.Row
	cell.Column
	Norm        *string        `json:"norm"` // null for a corruption
	N           int            `json:"n"`
	Unperturbed int            `json:"unperturbed"` // images equal to the clean ones
	MaxNorm     float64        `json:"max_norm"`    // over the images whose values are numbers
	Outside     []plan.Outside `json:"outside"`     // images that leave the ball or the box
	Judged      int            `json:"judged"`      // the number of other images
	Correct     int            `json:"correct"`     // of the judged images
	Accuracy    float64        `json:"accuracy"`    // of the judged images; 0 if there are none
	CI95        [2]float64     `json:"ci95"`        // Wilson interval of the accuracy
	Verdicts    string         `json:"verdicts"`    // one character an image: '1' right, '0' wrong, '-' outside
	// Files are the images' paths in the data set, if each has a file of its own.
	Files []string `json:"files,omitempty"`
}

func channelsFirst(images []float32, shape [3]int) []float32 {
	out, plane := make([]float32, len(images)), shape[1]*shape[2]
	for i, v := range images {
		image, at := i/(plane*shape[0]), i%(plane*shape[0])
		out[image*plane*shape[0]+at%shape[0]*plane+at/shape[0]] = v
	}
	return out
}

// Verify measures the images of a claim as a run's judge does, and asks the model about those within ball and box. If
// the model has a control, it asks the controlled network. A claim that does not fit the config is an
// [open.ConfigError].
func Verify(ctx context.Context, u *open.Model, c Claim) (*Verification, error) {
	t, err := trial(u.Config, c.Attack, c.Epsilon)
	if err != nil {
		return nil, open.Wrong(err)
	}
	r, err := t.Recipe(math.MaxInt16, attacks.AnyShape)
	if err != nil {
		return nil, open.Wrong(err)
	}
	if r.Limit != nil && r.Limit.Hidden() != "" {
		return nil, open.Wrong(fmt.Errorf("attack %s %s; verify takes attacks that change values", c.Attack,
			r.Limit.Hidden()))
	}
	if t.Norm() != nil && t.Epsilon() == 0 {
		return nil, open.Wrong(fmt.Errorf("attack %s is a bracket, which has no epsilon to hold images to", c.Attack))
	}
	d, err := u.Set(c.Dataset, c.Limit)
	if err != nil {
		return nil, open.Wrong(err)
	}
	shape := d.Shape()
	if of := u.Config.Dataset(c.Dataset); len(c.Shape) == 2 && of.Box != nil && c.Shape[1] == shape[2] {
		d.Place(c.Images)
		c.Shape = []int{c.Shape[0], 1, 1, shape[2]}
	}
	if last := []int{shape[1], shape[2], shape[0]}; len(c.Shape) == 4 && slices.Equal(c.Shape[1:], last) &&
		!slices.Equal(last, shape[:]) { // channels last, as in the data's own files
		c.Images, c.Shape = channelsFirst(c.Images, shape), []int{c.Shape[0], shape[0], shape[1], shape[2]}
	}
	if len(c.Shape) != 4 || !slices.Equal(c.Shape[1:], shape[:]) {
		return nil, open.Wrong(fmt.Errorf("the adversarial images have shape %v, "+
			"those of dataset %s have [N %d %d %d], or channels last", c.Shape, c.Dataset, shape[0],
			shape[1], shape[2]))
	}
	if c.Shape[0] != d.Len() {
		return nil, open.Wrong(fmt.Errorf("there are %d adversarial images, but %d of dataset %s; "+
			"--limit N takes so many of it", c.Shape[0], d.Len(), c.Dataset))
	}
	v, err := Measure(ctx, u.Workers, u.Classifier, d, t, c.Images)
	if err == nil {
		v.Dataset = c.Dataset
	}
	return v, err
}

type Clean interface {
	Len() int
	ID(i int) int
	File(i int) string
	Image(i int) (id int, pixels []float32, label int, err error)
	Target(i int) int
	Truth(i int) []float32
}

// Measure judges a trial's images x, in the order of the data set d.
func Measure(ctx context.Context, by open.Workers, who open.Classifier, d Clean, t plan.Trial,
	x []float32) (*Verification, error) {
	n := d.Len()
	judged, problems, unperturbed := make([]Verdict, n), make([]plan.Outside, n), make([]bool, n)
	err := by.ForEach(ctx, n, who.State(), func(ctx context.Context, i int) error {
		var im attacks.Image
		var err error
		if im.ID, im.Pixels, im.Label, err = d.Image(i); err != nil {
			return err
		}
		im.Target, im.Truth = d.Target(i), d.Truth(i)
		x := x[i*len(im.Pixels) : (i+1)*len(im.Pixels)]
		unperturbed[i] = slices.Equal(im.Pixels, x)
		judged[i], err = Judge(ctx, who, im, x, t.Within(), WithCosts)
		switch {
		case errors.As(err, &problems[i]):
			return nil
		case err == nil && judged[i].Broken:
			return open.NotFinite{Who: who.Info, Image: im.ID}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	v := &Verification{Row: cell.Row{Model: who.Model, Defense: who.Defense()}, Norm: t.Norm(), N: n,
		Column: plan.ColumnOf(t, ""), Outside: []plan.Outside{}}
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
	if n > 0 && d.File(0) != "" {
		for i := range n {
			v.Files = append(v.Files, d.File(i))
		}
	}
	v.Judged, v.Verdicts = n-len(v.Outside), string(verdicts)
	if v.Judged > 0 {
		v.Accuracy = float64(v.Correct) / float64(v.Judged)
	}
	v.CI95 = stats.Wilson(v.Correct, v.Judged)
	return v, nil
}
