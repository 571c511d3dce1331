package run

import (
	"context"
	"fmt"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/picture"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// suiteCases bounds the cases of a suite, for all its models. Suites share a gallery's cases evenly.
const suiteCases = 12

// gallery chooses a run's images to show, by verdicts alone. For each attack, control and kind of outcome it takes
// the first image in data set order, from a start that moves on from case to case. A model has its share of the
// suite's cases, in the order of attacks, controls and kinds, starting where the model before it ended.
type gallery struct {
	cfg   *config.Config
	file  *result.Gallery
	bytes int                 // of PNG files so far
	full  bool                // the next case was too large: take no more
	found map[slot]*candidate // by slot of the job
	from  map[slot]float64    // by slot of the job: where the search begins, as a fraction of the images
}

// slot is one case of a job's model in the gallery.
type slot struct {
	cell.Column
	defense, kind string
}

// candidate is the first image of a slot: a case without answers and pictures yet.
type candidate struct {
	result.GalleryCase
	who         open.Classifier
	set         open.Images
	at          int // index of the image in the set
	made        *crafted
	away        int           // number of images between the start of the search and this one
	clean       judge.Verdict // the classifier's, on the clean image
	image       attacks.Image
	adversarial []float32
	work        *folder.Units[*result.GalleryCase]
	shown       *result.GalleryCase // nil if the answers don't fit the kind
}

func newGallery(cfg *config.Config, record *result.File) *gallery {
	g := &gallery{cfg: cfg, file: &result.Gallery{Schema: result.GallerySchema, ConfigSHA256: record.ConfigSHA256,
		Cases: []result.GalleryCase{}}}
	record.Gallery = g.file
	return g
}

// portion returns the i-th of n parts of a total. Parts differ by 1 at most.
func portion(total, n, i int) int {
	s := total / n
	if i < total%n {
		s++
	}
	return s
}

// share returns how many cases the i-th suite may have: none of rows of features, which are no pictures.
func (g *gallery) share(i int) int {
	if d := g.cfg.Dataset(g.cfg.Suites[i].Dataset); d != nil && d.Layout == result.Flat {
		return 0
	}
	return min(suiteCases, portion(result.GalleryCases, len(g.cfg.Suites), i))
}

// begin starts a job: it forgets what was found and spreads the starts of the searches evenly over the images, one
// for each case that the run may have. Neighbouring cases start far apart, as a kind may have few images.
func (g *gallery) begin(j *plan.Job) {
	g.found, g.from = map[slot]*candidate{}, map[slot]float64{}
	_, before := g.quota(j)
	slots, all, stride := slotsOf(j, before), 0, 7
	for i, s := range g.cfg.Suites {
		if s.Name == j.Suite.Name {
			before += all
		}
		all += g.share(i)
	}
	if all == 0 {
		return
	}
	if all%7 == 0 { // at most 48, so 11 has no common factor with it then
		stride = 11
	}
	for i, k := range slots {
		g.from[k] = float64((before+i)*stride%all) / float64(all)
	}
}

// quota returns how many cases a job's model may have, and how many the suite's models before it have.
func (g *gallery) quota(j *plan.Job) (own, before int) {
	of := g.share(slices.IndexFunc(g.cfg.Suites, func(s config.Suite) bool { return s.Name == j.Suite.Name }))
	for i, name := range j.Suite.Models {
		if own = portion(of, len(j.Suite.Models), i); name == j.Model.Name {
			break
		}
		before += own
	}
	return own, before
}

// kindsOf lists the kinds of a job's cases. An image that withstood the attack on it has no adversarial version.
func kindsOf(j *plan.Job) (kinds []string) {
	of := func(oblivious bool) bool {
		return slices.ContainsFunc(j.Groups(), func(g plan.Group) bool { return g.Oblivious() == oblivious })
	}
	if of(true) && len(j.Suite.Controls) > 0 {
		kinds = append(kinds, result.Healed, result.NotHealed)
	}
	if of(false) || kinds == nil {
		kinds = append(kinds, result.Broken)
	}
	return kinds
}

func slotsOf(j *plan.Job, before int) []slot {
	defenses := j.Suite.Controls
	if len(defenses) == 0 {
		defenses = []string{cell.None}
	}
	var all []slot
	for _, t := range j.Trials {
		if !t.Crafted() {
			continue
		}
		for _, d := range defenses {
			for _, kind := range kindsOf(j) {
				all = append(all, slot{plan.ColumnOf(t, ""), d, kind})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	first := before % len(all)
	return slices.Concat(all[first:], all[:first])
}

// consider takes candidates from a cell; v are its verdicts.
func (g *gallery) consider(s scoring, v []judge.Verdict) {
	if from := s.Source(); s.clean == nil || from != "" && from != s.Model.Name {
		return
	}
	own, set := s.own(), s.job.Set
	for i, made := range s.made.each {
		if made.First < 0 { // never broken, or wrong without attack
			continue
		}
		kind := result.Broken
		switch {
		case !own && v[i].Right:
			kind = result.Healed
		case !own:
			kind = result.NotHealed
		case v[i].Right: // the judge does not confirm the success
			continue
		}
		k, n := slot{plan.ColumnOf(s.Trial, ""), s.who.Defense(), kind}, len(s.made.each)
		away := (i - int(g.from[k]*float64(n)) + n) % n
		if c := g.found[k]; c == nil || away < c.away {
			id := s.id()
			id.Column = k.Column // the network's own images, in mode transfer too
			known := result.GalleryCase{ID: id, Norm: s.Setting().Norm.String(), Kind: kind,
				VerdictOnly: s.made.verdictOnly, Image: set.ID(i), File: set.File(i),
				Label: set.Label(i), Perturbation: v[i].Norm}
			g.found[k] = &candidate{GalleryCase: known, who: s.who, set: set, at: i, away: away,
				made: s.made, clean: s.clean.verdicts[i]}
		}
	}
}

// exhibit makes the cases of the present job and writes the gallery with them, unless a merge writes it.
func (w *walk) exhibit() error {
	g, j := w.gallery, w.at.Job.Job
	if c := w.at.Classifiers[0].Shape.C; c == 1 || c == 3 {
		if err := g.make(w.run, w.at.Job); err != nil {
			return err
		}
	} else {
		g.note(j.Suite.Name, fmt.Sprintf("no pictures: the images have %d channels, pictures are made of 1 and of 3",
			c))
	}
	if w.cells == nil {
		return nil
	}
	return result.WriteGallery(w.out.Work("gallery.json"), g.file)
}

func (g *gallery) make(r *run, b *open.Job) error {
	j := b.Job
	own, before := g.quota(j)
	var chosen []*candidate
	var todo []int
	var state int64
	for _, k := range slotsOf(j, before) {
		c := g.found[k]
		if c == nil || len(chosen) == own || slices.Contains(chosen, c) {
			continue
		}
		// Only all shards together know which image a slot has, so each keeps its own.
		key := inMode(j, folder.Key{Of: "gallery", Part: k.kind, Made: cell.Made{ID: c.Key()}})
		work, left, err := folder.Recall(r.journal, key, c.set, []int{c.at},
			func(at int, known *result.GalleryCase) bool {
				if at == c.at {
					c.shown = known
				}
				return at == c.at
			})
		if err != nil {
			return err
		}
		if c.work = work; len(left) > 0 {
			todo = append(todo, len(chosen))
		}
		chosen, state = append(chosen, c), max(state, 2*c.who.State()) // a trace keeps as much as the loop
	}
	err := b.Over(state)(r.ctx, todo, func(ctx context.Context, i int) (err error) {
		c := chosen[i]
		if c.shown, err = c.show(ctx, r.record.Datasets[c.Dataset].ClassNames); err == nil {
			err = c.work.Done(c.at, c.shown)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("suite %s, gallery of model %s: %w", j.Suite.Name, j.Model.Name, err)
	}
	for _, c := range chosen {
		if c.shown != nil {
			g.add(*c.shown)
		}
	}
	return nil
}

// add appends a case, or ends the gallery if its pictures become too large.
func (g *gallery) add(c result.GalleryCase) {
	size := c.Pictures.Bytes()
	if g.full = g.full || g.bytes+size > result.GalleryBytes; g.full {
		g.note(c.Suite, fmt.Sprintf("incomplete: the pictures of a run have %s at most",
			number.Bytes(result.GalleryBytes)))
		return
	}
	g.bytes += size
	g.file.Cases = append(g.file.Cases, c)
}

func (g *gallery) note(suite, message string) {
	g.file.Notes = lists.Once(g.file.Notes, result.GalleryNote{Suite: suite, Message: message})
}

// show asks for the answers that the verdicts lack, and draws a candidate's images. It runs the loop again on the
// adversarial image, because verdicts keep no controls. It returns nil if an answer is not finite or differs from the
// verdicts, as random answers do.
func (c *candidate) show(ctx context.Context, names []string) (*result.GalleryCase, error) {
	var err error
	if c.image, c.adversarial, err = c.made.read(c.set, c.at); err != nil {
		return nil, err
	}
	out := &c.GalleryCase
	out.LabelName = named(names, c.Label)
	answer := func(v judge.Verdict) result.GalleryAnswer {
		return result.GalleryAnswer{Class: v.Class, Name: named(names, v.Class), Margin: float64(v.Margin)}
	}
	says := func(logits []float32) result.GalleryAnswer {
		v, _ := judge.Decide(logits, c.Label)
		return answer(v)
	}
	ctx = attacks.About(ctx, c.image)
	alone := open.Alone(c.who.Net)
	var answered [3]control.Answered
	clean, err := alone.Logits(control.Answering(ctx, &answered[0]), c.image.Pixels)
	if err != nil {
		return nil, err
	}
	attacked, err := alone.Logits(control.Answering(ctx, &answered[1]), c.adversarial)
	if err != nil {
		return nil, err
	}
	out.Undefended = result.GalleryAnswers{Clean: says(clean), Adversarial: says(attacked)}
	var healed []float32
	if loop := c.who.Loop; loop != nil {
		o, err := loop.RunTraced(control.Answering(ctx, &answered[2]), c.adversarial)
		if err != nil {
			return nil, err
		}
		out.Controlled = &result.GalleryAnswers{Clean: answer(c.clean), Adversarial: says(o.Logits)}
		for _, s := range o.Sweeps {
			layers := c.who.Control.Layers(s.Layers)
			out.Trace = append(out.Trace, result.GallerySweep{Objective: s.Objective, Layers: layers})
		}
		if u := o.Controls[0]; u != nil {
			healed = make([]float32, len(u))
			for i, x := range c.adversarial {
				healed[i] = x + u[i]
			}
		}
	}
	if !out.Believable() {
		return nil, nil
	}
	if out.Pictures.Masks, err = picture.Masks(c.who.Shape, answered[:]); err != nil {
		return nil, err
	}
	return out, c.draw(healed)
}

func named(names []string, class int) string {
	if class < len(names) {
		return names[class]
	}
	return ""
}

func (c *candidate) draw(healed []float32) error {
	p, s := &c.Pictures, c.who.Shape
	p.Width, p.Height = s.W, s.H
	largest := 0.0
	for i, x := range c.adversarial {
		largest = max(largest, math.Abs(float64(x)-float64(c.image.Pixels[i])))
	}
	p.Magnification = readable(0.5 / largest)
	magnified := make([]float32, len(c.adversarial))
	for i, x := range c.adversarial {
		magnified[i] = float32(0.5 + p.Magnification*(float64(x)-float64(c.image.Pixels[i])))
	}
	for _, one := range []struct {
		to     *[]byte
		pixels []float32
	}{{&p.Clean, c.image.Pixels}, {&p.Adversarial, c.adversarial}, {&p.Perturbation, magnified}, {&p.Healed, healed}} {
		if one.pixels == nil {
			continue
		}
		var err error
		if *one.to, err = picture.Encode(s, one.pixels); err != nil {
			return err
		}
	}
	return nil
}

// readable rounds a factor down to one of a single digit, or to 15 or its like.
func readable(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	// float32 pixels differ a little from the fractions that they stand for
	digit := math.Floor(x/power*(1+1e-6)) * power
	if half := 1.5 * power; digit < half && x*(1+1e-6) >= half {
		return half
	}
	return digit
}
