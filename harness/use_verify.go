package harness

import (
	"context"
	"fmt"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/harness/config"
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

// Outside is an image that no attack may return.
type Outside struct {
	Image   int     `json:"image"`            // its id in the data set
	Problem string  `json:"problem"`          // what leaves the ball or the box, and by how much
	Norm    float64 `json:"norm,omitempty"`   // of its perturbation, 0 when it has none
	Excess  float64 `json:"excess,omitempty"` // over epsilon or beyond [0,1], 0 when its values are no numbers
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
		return nil, ConfigError{fmt.Errorf("the adversarial images have shape %v, those of dataset %s have [N %d %d %d]", c.Shape, c.Dataset, shape[0], shape[1], shape[2])}
	}
	if c.Shape[0] != d.Len() {
		return nil, ConfigError{fmt.Errorf("there are %d adversarial images, but %d of dataset %s; --limit N takes its first N", c.Shape[0], d.Len(), c.Dataset)}
	}
	v := &Verification{Dataset: c.Dataset, Model: u.Network.Name, Defense: config.None, Attack: a.Name, Norm: a.Norm.String(), Epsilon: a.Epsilon,
		N: d.Len(), Outside: []Outside{}}
	var within []int
	var set []attacks.Image
	var images [][]float32
	verdicts := make([]byte, v.N)
	for i := range v.N {
		id, clean, label := d.Image(i)
		image := c.Images[i*len(clean) : (i+1)*len(clean)]
		distance := a.Norm.Distance(clean, image)
		if !math.IsNaN(distance) && !math.IsInf(distance, 0) {
			v.MaxNorm = math.Max(v.MaxNorm, distance)
		}
		if slices.Equal(clean, image) {
			v.Unperturbed++
		}
		if _, err := measure(a.Norm, a.Epsilon, clean, image); err != nil {
			verdicts[i] = '-'
			v.Outside = append(v.Outside, outside(id, a, distance, image))
			continue
		}
		within, set, images = append(within, i), append(set, attacks.Image{ID: id, Pixels: clean, Label: label}), append(images, image)
	}
	who := u.alone
	if u.healed != nil {
		who = *u.healed
		v.Defense = who.defense
	}
	judged, err := u.runner.judge(ctx, who, set, images, nil)
	if err != nil {
		return nil, err
	}
	for k, i := range within {
		verdicts[i] = '0'
		if judged[k].right {
			verdicts[i] = '1'
			v.Correct++
		}
	}
	v.Judged, v.Verdicts = len(within), string(verdicts)
	if v.Judged > 0 {
		v.Accuracy = float64(v.Correct) / float64(v.Judged)
	}
	v.CI95 = stats.Wilson(v.Correct, v.Judged)
	return v, nil
}

// outside says why an image that the judge refuses is none that an attack may return.
func outside(id int, a PlannedAttack, distance float64, image []float32) Outside {
	none, beyond, most := 0, 0, 0.0
	for _, p := range image {
		switch x := float64(p); {
		case math.IsNaN(x) || math.IsInf(x, 0):
			none++
		case x < 0 || x > 1:
			beyond++
			most = math.Max(most, math.Max(-x, x-1))
		}
	}
	switch {
	case none > 0:
		return Outside{Image: id, Problem: fmt.Sprintf("%d of its %d values are NaN or infinite", none, len(image))}
	case beyond > 0:
		return Outside{Image: id, Norm: distance, Excess: most, Problem: fmt.Sprintf("%d of its %d values lie outside [0,1], by up to %.3g", beyond, len(image), most)}
	}
	excess := distance - a.Epsilon
	return Outside{Image: id, Norm: distance, Excess: excess,
		Problem: fmt.Sprintf("its perturbation has %s norm %.6g, %.3g above epsilon %s", a.Norm, distance, excess, fraction(a.Epsilon))}
}
