package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"selfheal/attacks"
	"selfheal/harness/stats"
)

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
	Norm        string     `json:"norm"`
	Epsilon     float64    `json:"epsilon"`
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
	if len(c.Shape) != 4 || !slices.Equal(c.Shape[1:], shape[:]) {
		return nil, ConfigError{fmt.Errorf("the adversarial images have shape %v, "+
			"those of dataset %s have [N %d %d %d]", c.Shape, c.Dataset, shape[0], shape[1], shape[2])}
	}
	if c.Shape[0] != d.Len() {
		return nil, ConfigError{fmt.Errorf("there are %d adversarial images, but %d of dataset %s; "+
			"--limit N takes its first N", c.Shape[0], d.Len(), c.Dataset)}
	}
	n := d.Len()
	judged, problems, unperturbed := make([]verdict, n), make([]Outside, n), make([]bool, n)
	err = u.forEach(ctx, n, u.state(), func(ctx context.Context, i int) error {
		var im attacks.Image
		im.ID, im.Pixels, im.Label = d.Image(i)
		x := c.Images[i*len(im.Pixels) : (i+1)*len(im.Pixels)]
		unperturbed[i] = slices.Equal(im.Pixels, x)
		var err error
		judged[i], err = u.classifier.judge(ctx, im, x, ball{a.Norm, a.Epsilon}, withCosts)
		if errors.As(err, &problems[i]) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	v := &Verification{Dataset: c.Dataset, Model: u.net.Name, Defense: u.defense(), Attack: a.Name,
		Norm: a.Norm.String(), Epsilon: a.Epsilon, N: n, Outside: []Outside{}}
	verdicts := make([]byte, n)
	for i, of := range judged {
		v.MaxNorm = max(v.MaxNorm, of.norm)
		if unperturbed[i] {
			v.Unperturbed++
		}
		switch p := problems[i]; {
		case p.Problem != "":
			verdicts[i] = '-'
			p.Image, _, _ = d.Image(i)
			v.Outside = append(v.Outside, p)
		case of.right:
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
