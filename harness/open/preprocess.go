package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
	"selfheal/internal/normalised"
)

// Preprocessing turns images in [0,1] into a network's input: (x·Scale − Mean)/Std.
type Preprocessing struct {
	Name      string
	Scale     float64 // 0 stands for 1
	Mean, Std []float64
}

// usual returns the preprocessings to try for a network, the likelier of two first: those of a data set like its own
// come before others with a mean for each channel.
func usual(n *control.Network) []Preprocessing {
	in := n.Shape()
	if in.Row() { // rows in a box have no usual scale
		return []Preprocessing{{Name: "as they are"}}
	}
	list := []Preprocessing{{Name: "as they are, in [0,1]"}}
	// uint8, functions, members of ensembles and pairs, whose second images lie in the truth, are asked in only one way
	if n.Graph.Levels || n.Opaque() || n.Ensemble || n.Task.Twin() {
		return list
	}
	list = append(list, Preprocessing{Name: "in [0,255]", Scale: 255},
		Preprocessing{Name: "in [-1,1]", Mean: []float64{0.5}, Std: []float64{0.5}})
	first := len(list)
	for i, by := range normalised.Usual {
		switch p := (Preprocessing{Name: "by " + by.Of + " mean and deviation", Mean: by.Mean, Std: by.Std}); {
		case len(by.Mean) != in.C || i > 0 && by.Of == normalised.Usual[i-1].Of:
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

// String returns the preprocessing as a config writes it.
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

// Flags returns the preprocessing as command-line flags.
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

// pixel returns a network's input for a pixel of a channel. It computes in float32, like nodes in front of the
// network.
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

// mostTried bounds the images on which preprocessings are tried.
const mostTried = 1000

// Sample returns the indices of images, evenly spread over n, on which preprocessings are tried.
func Sample(n int) []int {
	places := make([]int, min(n, mostTried))
	for k := range places {
		places[k] = k * n / len(places)
	}
	return places
}

// TrialPasses bounds the passes of a network that trying preprocessings on n images takes.
func TrialPasses(net *control.Network, n int) float64 {
	return float64(min(n, mostTried) * len(usual(net)) * max(1, min(net.Votes(), fewVotes)))
}

// atOnce is how many images are asked about before the trial may end early.
const atOnce = 128

// ask reports on which of the images at places a network without preprocessing is right, if p precedes it.
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
		z, err := who.Logits(attacks.About(ctx, im), im.Pixels)
		right[places[k]] = err == nil && attacks.Right(z, im.Label)
		return err
	})
}

// fewVotes is the number of votes while preprocessings are tried, as a network that draws random numbers may have
// hundreds. With fewer votes a preprocessing looks no better than it is.
const fewVotes = 5

// raw opens a model's network without its preprocessing. Close it.
func (o *Opener) raw(ctx context.Context, m *config.Model, images string) (*control.Network, error) {
	bare, known := *m, o.Record.Models[m.Name]
	bare.Scale, bare.Mean, bare.Std = 0, nil, nil
	bare.Votes = min(m.Votes, fewVotes)
	n, err := o.Network(ctx, &bare, images)
	o.Record.Models[m.Name] = known
	return n, err
}

// significant is the largest p-value, Holm-corrected, at which one preprocessing counts as better than another.
const significant = 0.05

// Better is a usual preprocessing with which a network is right on more images than with the given one.
type Better struct {
	Tried         // its P tests it against the given one
	Given int     // number of images right with the given one
	Also  []Tried // preprocessings not told apart from it, and also better than the given one
}

// Message names the preprocessing and the flags that choose it.
func (b *Better) Message(model string) string {
	than := fmt.Sprintf("model %s is right on %d of %d images as it is given them, and on %d when it takes them %s",
		model, b.Given, b.Of, b.Right, b.Name)
	test := fmt.Sprintf("(McNemar's exact test, p %.1g)", b.P)
	if b.Ties() {
		return fmt.Sprintf("%s, which these images do not tell apart %s: %s%s; take more images, or say which it is",
			than, test, b.Flags(), also(b.Also))
	}
	return fmt.Sprintf("%s %s: %s; in a config preprocess: %s%s", than, test, b.Flags(), b.Preprocessing, also(b.Also))
}

// also lists preprocessings that are not told apart from another.
func also(ties []Tried) string {
	if len(ties) == 0 {
		return ""
	}
	return "; not told apart from it: " + strings.Join(lists.Map(ties, Tried.told), ", ")
}

// told describes a preprocessing, its accuracy and the flags that choose it.
func (t Tried) told() string {
	flags := t.Flags()
	if t.String() == (Preprocessing{}).String() {
		flags = "--scale 1"
	}
	return fmt.Sprintf("%s (right on %d of %d: %s)", t.Name, t.Right, t.Of, flags)
}

// Undecided returns an error that names the preprocessings not told apart from the best, the first of all; nil if
// there are none.
func Undecided(model string, all []Tried) error {
	ties := lists.Only(all, Tried.Ties)
	if len(ties) == 0 {
		return nil
	}
	return fmt.Errorf("model %s: %d images do not tell how it takes them, by McNemar's exact test at %v %%: %s%s; "+
		"give the flags of one, or more images", model, all[0].Of, 100*significant, all[0].told(), also(ties))
}

// settle moves the preprocessing with the most images right at places to the front; of equals the first. It sets each
// other's P to McNemar's exact test against it on the images that both were asked about, Holm-corrected. The best's P
// is 0.
func settle(all []Tried, places []int) []Tried {
	all = slices.Clone(all)
	best := 0
	for i, t := range all {
		if t.Of == len(places) && (all[best].Of < t.Of || t.Right > all[best].Right) {
			best = i
		}
	}
	first := all[best]
	all = slices.Insert(slices.Delete(all, best, best+1), 0, first)
	var tests stats.Family
	for i := range all[1:] {
		t := &all[i+1]
		tests.Add(pair(places[:t.Of], first.right, t.right).McNemar(), func(p float64) { t.P = p })
	}
	tests.Holm()
	slices.SortStableFunc(all[1:], func(a, b Tried) int { return cmp.Compare(b.share(), a.share()) })
	return all
}

// pair counts the images at places that are lost and won from one preprocessing to another.
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

// Better tries the usual preprocessings on the images at places. right says where the model's network is right with
// the given one. Better returns the best of those that are better by McNemar's exact test, corrected for all that are
// tried. If none is and the model has no preprocessing, it returns the best of those that are right on more images,
// if any: the images do not tell. A trial ends as soon as the remaining images can't make it one of these.
func (o *Opener) Better(ctx context.Context, m *config.Model, net *control.Network, set Images, places []int,
	right []bool) (_ *Better, err error) {
	now := given(m).String()
	bare := now == (Preprocessing{}).String()
	list := slices.DeleteFunc(usual(net), func(p Preprocessing) bool { return p.String() == now })
	if len(list) == 0 {
		return nil, nil
	}
	hopeless := func(p stats.Paired) bool {
		return p.Won <= p.Lost || !bare && float64(len(list))*p.McNemar() > significant
	}
	is := count(places, right)
	wrong := len(places) - is
	if hopeless(stats.Paired{N: len(places), Won: wrong}) {
		return nil, nil
	}
	order := slices.Clone(places) // images that may be lost tell most
	slices.SortStableFunc(order, func(a, b int) int { return count([]int{b}, right) - count([]int{a}, right) })
	raw := net
	if !bare {
		if raw, err = o.raw(ctx, m, set.name); err != nil {
			return nil, err
		}
		defer raw.Close()
	}
	var tests stats.Family
	more := make([]Tried, 0, len(list)) // right on more images; never reallocated, as tests points into it
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
		more = append(more, Tried{Preprocessing: p, Right: is + so.Won - so.Lost, Of: asked, right: got})
		t := &more[len(more)-1]
		tests.Add(so.McNemar(), func(p float64) { t.than = p })
	}
	tests.Holm()
	better := lists.Only(more, func(t Tried) bool { return t.than <= significant })
	if len(better) == 0 {
		better = more
	}
	if len(better) == 0 {
		return nil, nil
	}
	all := settle(better, order)
	best := all[0]
	best.P = best.than
	return &Better{Tried: best, Given: is, Also: lists.Only(all[1:], Tried.Ties)}, nil
}

// Tried is a preprocessing and the number of images on which a network is right with it.
type Tried struct {
	Preprocessing
	Right, Of int
	P         float64 // of no difference from the best, Holm-corrected
	Shape     [3]int  // of the images: channels, height, width
	Classes   int     // of the network
	Steps     bool    // the network is an ensemble of trees, without gradients
	Labels    string  // the labels of a folder, as cat → 0, dog → 1; "" for other formats

	right []bool  // by image
	than  float64 // the p-value of no difference from the given one
}

// Ties reports whether the images do not tell this preprocessing from the best.
func (t Tried) Ties() bool { return t.P > significant }

// Unnamed returns a message if the data set has fewer classes than the model and its own names alone number them;
// else "".
func Unnamed(d *config.Dataset, set Images, classes int) string {
	names := set.ClassNames()
	if names == nil || d.ClassNames != nil || len(names) >= classes {
		return ""
	}
	return fmt.Sprintf("data set %s has %d classes, the model %d outputs, and nothing says which of them are meant: "+
		"%s; classes (--classes) names the model's in its order", d.Name, len(names), classes, dataset.Numbered(names))
}

// examine opens the only model and the only data set of a config.
func examine(ctx context.Context, cfg *config.Config, do func(u *Model, set Images, places []int) error) error {
	u, err := Use(ctx, cfg, cfg.Models[0].Name, "", Options{})
	if err != nil {
		return err
	}
	defer u.Close()
	name := cfg.Datasets[0].Name
	set, err := u.Scored(name)
	if err == nil {
		err = u.Fits(set.Dataset)
	}
	if err != nil {
		return ConfigError{err}
	}
	if unnamed := Unnamed(cfg.Dataset(name), set, u.Net.Classes()); unnamed != "" {
		return ConfigError{errors.New(unnamed)}
	}
	return do(u, set, Sample(set.Len()))
}

// Examine asks the only model of cfg about the images of its only data set, as the config preprocesses them. It gives
// advice if a usual preprocessing is better, or if neither the config nor the images tell which is right; else advice
// is "".
func Examine(ctx context.Context, cfg *config.Config, model string) (t Tried, advice string, err error) {
	m := &cfg.Models[0]
	if now := given(m).String(); now == (Preprocessing{}).String() {
		all, err := TryPreprocessing(ctx, cfg)
		if err != nil {
			return t, "", err
		}
		t = all[slices.IndexFunc(all, func(t Tried) bool { return t.String() == now })]
		if err := Undecided(model, all); err != nil {
			return t, err.Error(), nil
		}
		if best := all[0]; best.String() != now {
			best.P = t.P
			advice = (&Better{Tried: best, Given: t.Right}).Message(model)
		}
		return t, advice, nil
	}
	err = examine(ctx, cfg, func(u *Model, set Images, places []int) (err error) {
		if t = u.trying(given(m), set); t.Name == "" {
			t.Name = "as the flags say"
		}
		if err = u.ask(ctx, u.Net, set, Preprocessing{}, places, t.right); err == nil {
			t.Right, t.Of = count(places, t.right), len(places)
			var better *Better
			if better, err = u.Better(ctx, m, u.Net, set, places, t.right); better != nil {
				advice = better.Message(model)
			}
		}
		return err
	})
	return t, advice, err
}

func (u *Model) trying(p Preprocessing, set Images) Tried {
	for _, known := range usual(u.Net) {
		if known.String() == p.String() {
			p.Name = known.Name
		}
	}
	t := Tried{Preprocessing: p, Shape: set.Shape(), Classes: u.Net.Classes(), Steps: u.Net.Graph.Steps,
		right: make([]bool, set.Len())}
	if dataset.Find(u.Config.Datasets[0].Format).ByClass && u.Net.Task == nil {
		t.Labels = dataset.Numbered(set.ClassNames())
	}
	return t
}

// far is McNemar's p-value below which a preprocessing is so much worse that no further images are tried.
const far = 1e-4

// TryPreprocessing tries the usual preprocessings for the only model of cfg, whose config gives images unchanged, on
// the images of its only data set. The best comes first; [Undecided] says which others the images do not tell from
// it. It asks about unchanged images to the end.
func TryPreprocessing(ctx context.Context, cfg *config.Config) (all []Tried, err error) {
	err = examine(ctx, cfg, func(u *Model, set Images, places []int) error {
		for _, p := range usual(u.Net) {
			all = append(all, u.trying(p, set))
		}
		var top Tried
		for asked := 0; asked < len(places); {
			next := min(asked+atOnce, len(places))
			for i := range all {
				t := &all[i]
				if i > 0 && (t.Of < asked || asked > 0 && pair(places[:asked], top.right, t.right).McNemar() <= far) {
					continue
				}
				if err := u.ask(ctx, u.Net, set, t.Preprocessing, places[asked:next], t.right); err != nil {
					return err
				}
				t.Right, t.Of = count(places, t.right), next
			}
			asked = next
			top = slices.MaxFunc(all, func(a, b Tried) int { return cmp.Compare(a.Right, b.Right) })
		}
		all = settle(all, places)
		return nil
	})
	return all, err
}

func (t Tried) share() float64 { return float64(t.Right) / float64(max(t.Of, 1)) }
