package open

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/harness/config"
)

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
}

// TryPreprocessing asks the one model of cfg about the images of its one data set, taken as the config says or, where
// it says nothing, as networks are usually trained. The best comes first: of those that are as good but for what chance
// does it is that of the data set, or the simpler one.
func TryPreprocessing(ctx context.Context, cfg *config.Config) ([]Tried, error) {
	m := &cfg.Models[0]
	if m.Scale != 0 || m.Mean != nil {
		one, err := tryOne(ctx, cfg, Preprocessing{Name: "as the flags say", Scale: m.Scale, Mean: m.Mean, Std: m.Std})
		return []Tried{one}, err
	}
	var all []Tried
	for _, p := range preprocessings {
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

// tryOne asks the model about images that are taken in one way.
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
	t = Tried{Preprocessing: p, Of: len(answers), Shape: set.Shape(), Classes: u.Net.Classes()}
	for i, a := range answers {
		if a.Class == set.Label(i) {
			t.Right++
		}
	}
	return t, err
}
