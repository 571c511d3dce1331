package open

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
)

// Preprocessing is a way in which networks are trained to take images in [0,1]: (x·Scale − Mean)/Std.
type Preprocessing struct {
	Name      string
	Scale     float64 // 0: 1
	Mean, Std []float64
}

// usual are the preprocessings for a network, of which the first of two that are as good is taken: that of a data set
// like its own comes before others with a mean for each channel.
func usual(n *control.Network) []Preprocessing {
	list := []Preprocessing{{Name: "as they are, in [0,1]"}}
	if n.Graph.Levels { // uint8 is taken in one way
		return list
	}
	list = append(list, Preprocessing{Name: "in [0,255]", Scale: 255},
		Preprocessing{Name: "in [-1,1]", Mean: []float64{0.5}, Std: []float64{0.5}})
	in, first := n.Shape(), len(list)
	for i, by := range dataset.Normalisations {
		switch p := (Preprocessing{Name: "by " + by.Of + " mean and deviation", Mean: by.Mean, Std: by.Std}); {
		case len(by.Mean) != in.C || i > 0 && by.Of == dataset.Normalisations[i-1].Of:
		case by.Side == in.H && by.Side == in.W && by.Classes == n.Classes():
			list = slices.Insert(list, first, p)
		default:
			list = append(list, p)
		}
	}
	return list
}

func given(m *config.Model) Preprocessing {
	return Preprocessing{Scale: m.Scale, Mean: m.Mean, Std: m.Std}
}

// String is the preprocessing as a config has it.
func (p Preprocessing) String() string {
	var parts []string
	if p.Scale != 0 {
		parts = append(parts, fmt.Sprintf("scale: %v", p.Scale))
	}
	for _, v := range []struct {
		name   string
		values []float64
	}{{"mean", p.Mean}, {"std", p.Std}} {
		if len(v.values) > 0 {
			parts = append(parts, v.name+": ["+listed(v.values, ", ")+"]")
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Flags are the preprocessing as the command line has it.
func (p Preprocessing) Flags() string {
	var flags []string
	if p.Scale != 0 {
		flags = append(flags, fmt.Sprintf("--scale %v", p.Scale))
	}
	if len(p.Mean) > 0 {
		flags = append(flags, "--mean "+listed(p.Mean, ","), "--std "+listed(p.Std, ","))
	}
	if flags == nil {
		return "no --scale, --mean and --std"
	}
	return strings.Join(flags, " ")
}

func listed(v []float64, separator string) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", separator), "[]")
}

// pixel is what a network gets for a pixel of a channel, computed in float32 as nodes in front of the network do.
func (p Preprocessing) pixel(v float32, channel int) float32 {
	value := func(v []float64) float32 { return float32(v[channel%len(v)]) }
	if p.Scale != 0 {
		v *= float32(p.Scale)
	}
	if len(p.Mean) > 0 {
		v -= value(p.Mean)
	}
	if len(p.Std) > 0 {
		v /= value(p.Std)
	}
	return v
}

// mostTried is on how many images preprocessings are tried at most.
const mostTried = 1000

// Sample are the places of n images on which preprocessings are tried, evenly far from each other.
func Sample(n int) []int {
	places := make([]int, min(n, mostTried))
	for k := range places {
		places[k] = k * n / len(places)
	}
	return places
}

// TrialPasses is how many answers of a network it takes at most to try preprocessings on a set of n images.
func TrialPasses(net *control.Network, n int) float64 {
	return float64(min(n, mostTried) * len(usual(net)) * max(1, min(net.Votes(), fewVotes)))
}

// atOnce is how many images are asked about before it is seen whether more need to be.
const atOnce = 128

// ask says on which of the images at places a network without preprocessing is right, if it takes them by p.
func (o *Opener) ask(ctx context.Context, raw *control.Network, set Images, p Preprocessing, places []int,
	right []bool) error {
	who := Alone(raw)
	return o.ForEach(ctx, len(places), who.State(), func(ctx context.Context, k int) error {
		im, err := set.Read(places[k])
		if err != nil {
			return err
		}
		plane := who.Shape.H * who.Shape.W
		for i, v := range im.Pixels {
			im.Pixels[i] = p.pixel(v, i/plane)
		}
		z, err := who.Logits(ctx, im.Pixels)
		right[places[k]] = err == nil && attacks.Right(z, im.Label)
		return err
	})
}

// fewVotes decide while preprocessings are tried, of a network that draws at random: its own may be hundreds. With
// fewer a preprocessing looks no better than it is.
const fewVotes = 5

// raw is the network of a model without its preprocessing. Close it.
func (o *Opener) raw(m *config.Model) (*control.Network, error) {
	bare, known := *m, o.Record.Models[m.Name]
	bare.Scale, bare.Mean, bare.Std = 0, nil, nil
	bare.Votes = min(m.Votes, fewVotes)
	n, err := o.Network(&bare)
	o.Record.Models[m.Name] = known
	return n, err
}

// significant is the largest p-value, corrected by Holm, at which one preprocessing is said to be better than another.
const significant = 0.05

// Better is a usual preprocessing by which a network is right on more images than as it is given them.
type Better struct {
	Preprocessing
	Right, Given, Of int
	P                float64 // of McNemar's exact test, corrected by Holm
}

// Message has the flags to paste.
func (b *Better) Message(model string) string {
	return fmt.Sprintf("model %s is right on %d of %d images as it is given them, and on %d when it takes them %s "+
		"(McNemar's exact test, p %.1g): %s; in a config preprocess: %s", model, b.Given, b.Of, b.Right, b.Name, b.P,
		b.Flags(), b.Preprocessing)
}

// asGood reports whether right of n images are but for chance as many as most: √n/2 is either's largest deviation.
func asGood(right, most, n int) bool { return float64(most-right) <= math.Sqrt(float64(n))/2 }

// pair counts the images at places that are lost and won between two ways to take them.
func pair(places []int, before, now []bool) (p stats.Paired) {
	for _, i := range places {
		switch {
		case before[i] == now[i]:
			p.Add(0)
		case now[i]:
			p.Add(1)
		default:
			p.Add(-1)
		}
	}
	return p
}

func count(places []int, right []bool) int {
	return lists.Count(places, func(i int) bool { return right[i] })
}

// Better tries the usual preprocessings on the images at places, of which right says where the network of a model is
// right now. It returns the one that is better by McNemar's exact test, corrected for all that are tried; of several as
// good the first, and nil for none. A trial ends as soon as the images that are left can't make it significant.
func (o *Opener) Better(ctx context.Context, m *config.Model, net *control.Network, set Images, places []int,
	right []bool) (_ *Better, err error) {
	now := given(m).String()
	list := slices.DeleteFunc(usual(net), func(p Preprocessing) bool { return p.String() == now })
	hopeless := func(p stats.Paired) bool {
		return p.Won <= p.Lost || float64(len(list))*p.McNemar() > significant
	}
	is := count(places, right)
	wrong := len(places) - is
	if hopeless(stats.Paired{N: len(places), Won: wrong}) {
		return nil, nil
	}
	order := slices.Clone(places) // those that may be lost tell most
	slices.SortStableFunc(order, func(a, b int) int { return count([]int{b}, right) - count([]int{a}, right) })
	raw := net
	if now != (Preprocessing{}).String() {
		if raw, err = o.raw(m); err != nil {
			return nil, err
		}
		defer raw.Close()
	}
	var tests stats.Family
	var all []*Better
	most := 0
	for _, p := range list {
		got, asked, so := make([]bool, set.Len()), 0, stats.Paired{}
		for asked < len(order) && !hopeless(stats.Paired{N: so.N, Lost: so.Lost,
			Won: so.Won + min(wrong, len(order)-asked)}) {
			next := min(asked+atOnce, len(order))
			if err = o.ask(ctx, raw, set, p, order[asked:next], got); err != nil {
				return nil, err
			}
			asked = next
			so = pair(order[:asked], right, got)
		}
		if asked < len(order) || hopeless(so) {
			tests.Add(1, func(float64) {})
			continue
		}
		b := &Better{Preprocessing: p, Right: is + so.Won - so.Lost, Given: is, Of: len(places)}
		tests.Add(so.McNemar(), func(p float64) { b.P = p })
		all, most = append(all, b), max(most, b.Right)
	}
	tests.Holm()
	if at := slices.IndexFunc(all, func(b *Better) bool { return asGood(b.Right, most, b.Of) }); at >= 0 {
		return all[at], nil
	}
	return nil, nil
}

// Tried is how many of the images that were looked at a network is right on, taken in one way.
type Tried struct {
	Preprocessing
	Right, Of int
	Ties      bool   // there is no evidence of a difference from the best
	Shape     [3]int // of the images: channels, height, width
	Classes   int    // of the network
	Labels    string // a folder's, as cat → 0, dog → 1; "" of other formats

	right []bool // of each image
}

// examine opens the one model and the one data set of a config.
func examine(ctx context.Context, cfg *config.Config, do func(u *Model, set Images, places []int) error) error {
	u, err := Use(ctx, cfg, cfg.Models[0].Name, "", Options{})
	if err != nil {
		return err
	}
	defer u.Close()
	set, err := u.Scored(cfg.Datasets[0].Name)
	if err == nil {
		err = u.Fits(set.Dataset)
	}
	if err != nil {
		return ConfigError{err}
	}
	return do(u, set, Sample(set.Len()))
}

// Examine asks the one model of cfg about the images of its one data set, taken as the config says, and tries whether a
// usual preprocessing is better.
func Examine(ctx context.Context, cfg *config.Config) (t Tried, better *Better, err error) {
	err = examine(ctx, cfg, func(u *Model, set Images, places []int) (err error) {
		m := &cfg.Models[0]
		if t = u.trying(given(m), set); t.Name == "" {
			t.Name = "as the flags say"
		}
		if err = u.ask(ctx, u.Net, set, Preprocessing{}, places, t.right); err == nil {
			t.Right, t.Of = count(places, t.right), len(places)
			better, err = u.Better(ctx, m, u.Net, set, places, t.right)
		}
		return err
	})
	return t, better, err
}

func (u *Model) trying(p Preprocessing, set Images) Tried {
	for _, known := range usual(u.Net) {
		if known.String() == p.String() {
			p.Name = known.Name
		}
	}
	t := Tried{Preprocessing: p, Shape: set.Shape(), Classes: u.Net.Classes(), right: make([]bool, set.Len())}
	if dataset.Find(u.Config.Datasets[0].Format).ByClass {
		t.Labels = dataset.Numbered(set.ClassNames())
	}
	return t
}

// far is McNemar's p-value at which a preprocessing is so much worse that it is asked about no further images.
const far = 1e-4

// TryPreprocessing asks the one model of cfg, which the config gives images as they are, about those of its one data
// set, taken as networks are usually trained. The best comes first: but for chance it is the usual one of such images,
// or the simpler one.
func TryPreprocessing(ctx context.Context, cfg *config.Config) (all []Tried, err error) {
	err = examine(ctx, cfg, func(u *Model, set Images, places []int) error {
		for _, p := range usual(u.Net) {
			all = append(all, u.trying(p, set))
		}
		var top Tried
		against := func(t, best Tried) stats.Paired {
			return pair(places[:min(t.Of, best.Of)], best.right, t.right)
		}
		for asked := 0; asked < len(places); {
			next := min(asked+atOnce, len(places))
			for i := range all {
				if t := &all[i]; t.Of == asked && (asked == 0 || against(*t, top).McNemar() > far) {
					if err := u.ask(ctx, u.Net, set, t.Preprocessing, places[asked:next], t.right); err != nil {
						return err
					}
					t.Right, t.Of = count(places, t.right), next
				}
			}
			asked = next
			top = slices.MaxFunc(all, func(a, b Tried) int { return cmp.Compare(a.Right, b.Right) })
		}
		best := slices.IndexFunc(all, func(t Tried) bool {
			return t.Of == top.Of && asGood(t.Right, top.Right, t.Of) && against(t, top).McNemar() > significant
		})
		var tests stats.Family
		for i := range all {
			if i != best {
				tests.Add(against(all[i], all[best]).McNemar(), func(p float64) { all[i].Ties = p > significant })
			}
		}
		tests.Holm()
		first := all[best]
		all = slices.Delete(all, best, best+1)
		slices.SortStableFunc(all, func(a, b Tried) int { return cmp.Compare(b.share(), a.share()) })
		all = slices.Insert(all, 0, first)
		return nil
	})
	return all, err
}

func (t Tried) share() float64 { return float64(t.Right) / float64(max(t.Of, 1)) }
