package progress

import (
	"math"
	"slices"
	"sync"
	"time"

	"selfheal/harness/cell"
)

// Work is what a component of an attack, or a certificate, has to do.
type Work struct {
	Images   int          // that it works on
	Standing int          // images of the cell that stand at first
	N        int          // images of the cell
	Passes   int64        // that its images take at most, together
	Later    int64        // passes that an image that stands takes at most of the cell's later components
	Width    int          // images under way at once; 0: all
	Made     func() int64 // passes that are made so far
}

// component is the progress of one component of an attack: the images that are finished, how many of all stand, and
// the time left, which follows from the passes made.
type component struct {
	display
	Work
	id       ComponentID
	mu       sync.Mutex
	standing int
	cost     cost
	before   int64 // passes made before it began, which the journal holds
}

// Component shows a component at work. Do tells of each image that is finished how many stand then, and how
// many passes it took (0: all).
func (p *Progress) Component(id ComponentID, w Work, do func(image func(standing, passes int)) error) error {
	c := &component{display: p.display(1000), Work: w, id: id, standing: w.Standing, cost: newCost(w),
		before: w.Made()}
	p.rest.begin(id)
	done := make(chan struct{})
	var ended sync.WaitGroup
	if !p.silent() {
		ended.Go(func() {
			t := time.NewTicker(c.tick)
			defer t.Stop()
			for {
				select {
				case <-done:
					return
				case <-t.C:
					c.tell()
				}
			}
		})
	}
	err := do(c.image)
	close(done)
	ended.Wait()
	c.Stop()
	if err == nil {
		c.Report(ComponentFinished{id, c.Images, c.standing, c.N, time.Since(c.start)})
	}
	return err
}

func (c *component) image(standing, passes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.standing = min(c.standing, standing)
	c.cost.image(passes, c.standing)
}

func (c *component) tell() {
	made := c.Made() - c.before
	c.mu.Lock()
	e := ComponentProgress{ComponentID: c.id, ImagesDone: c.cost.finished, Images: c.Images, Robust: c.standing, N: c.N,
		AtMost: !c.cost.known()}
	left, stand := c.cost.left(made)
	c.mu.Unlock()
	f := min(float64(made)/max(float64(made)+left, 1), 1)
	e.Share = f
	if f > 0.01 {
		took := float64(time.Since(c.start))
		e.Left = new(time.Duration(took * (1 - f) / f))
		cell := *e.Left + time.Duration(took/float64(made)*stand*float64(c.Later))
		if all, known := c.rest.left(*e.Left, cell, e.AtMost); known {
			e.All = &all
		}
	}
	if c.follow != nil {
		c.follow(e.All)
	}
	c.show(int64(f*1000), e.short(), e)
}

// cost is what a component's images have cost, and what those to come will: an image that stands costs all its passes,
// one that falls what it has cost until then.
type cost struct {
	total, before int     // images, and how many stood at first
	each          float64 // passes of an image that stands
	width         int     // images under way at once
	finished      int
	fallen        int
	early         int     // of the fallen, those that did not make all their passes
	passes        float64 // of the images that are finished
	exposure      float64 // the sum of [cost.exposed] over them
}

func newCost(w Work) cost {
	c := cost{total: w.Images, before: w.Standing, each: float64(w.Passes) / float64(max(w.Images, 1)), width: w.Width}
	if c.width == 0 {
		c.width = w.Images
	}
	return c
}

// known reports whether there is anything to estimate from: until then all images are taken to stand to the end.
func (c *cost) known() bool { return c.finished > 0 }

func (c *cost) under() int { return min(c.total-c.finished, c.width) }

// own is how many passes each image under way has made: they take turns, so that it is about the same for all.
func (c *cost) own(made int64) float64 {
	return min(max(float64(made)-c.passes, 0)/float64(max(c.under(), 1)), c.each)
}

// image notes that an image is finished, after so many passes (0: all), and so many images stand.
func (c *cost) image(passes, standing int) {
	own := c.each
	if passes > 0 {
		own = float64(passes)
	}
	if fallen := c.before - standing; fallen > c.fallen {
		if c.fallen = fallen; own < 0.95*c.each {
			c.early++
		}
	}
	c.passes += own
	c.exposure += c.exposed(own)
	c.finished++
}

// Images fall ever more seldom the more passes they have made. The rate is taken as a/(k + passes), where k is a
// hundredth of all: of the images that stand after m passes a share of ((k + n)/(k + m))^-a stands after n. The most
// likely a is the number of those that fell over the sum of log(1 + passes/k) of all that were begun.
func (c *cost) scale() float64                 { return 1 + c.each/100 }
func (c *cost) exposed(passes float64) float64 { return math.Log1p(passes / c.scale()) }

// left is how many passes are to come, and how many images of the cell will stand behind them. Images that wait cost on
// average what those begun cost.
func (c *cost) left(made int64) (passes, standing float64) {
	own, under := c.own(made), float64(c.under())
	a, from := float64(c.early)/max(c.exposure+under*c.exposed(own), 1e-9), c.scale()+own
	ratio := (c.scale() + c.each) / from
	more, stand := from*math.Log(ratio), math.Pow(ratio, -a)
	if math.Abs(1-a) > 1e-9 {
		more = from / (1 - a) * (math.Pow(ratio, 1-a) - 1)
	}
	begun, waiting := float64(c.finished)+under, float64(c.total-c.finished)-under
	falls := under * (1 - stand)
	passes, standing = under*more, float64(c.before-c.fallen)-falls
	if waiting > 0 {
		passes += waiting * (c.passes + under*(own+more)) / begun
		standing -= waiting * (float64(c.fallen) + falls) / begun
	}
	return passes, max(standing, 0)
}

// Expected is what a run makes under one key: an attack on one classifier under one seed, or a certificate of it.
type Expected struct {
	cell.Made
	Passes float64 // at most
}

func (e Expected) is(id ComponentID) bool {
	return e.Model == id.Model && e.Defense == id.Defense && e.Attack == id.Attack && e.Epsilon == id.Epsilon &&
		e.Seed == id.Seed && (e.Mode == "" || e.Mode == id.Mode)
}

// rest is how much of a run is still to come. A nil one knows nothing.
type rest struct {
	all   []Expected // in order
	at    int        // what is being made, -1 before the first
	done  float64    // passes at most of what this run has made before it; what it continues from does not count
	began time.Time  // of the run
	since time.Time  // when what is being made began
	clock func() time.Time
}

// Expect has components tell the whole run's time left too, and follow, unless nil, be called with it.
func (p *Progress) Expect(all []Expected, follow func(left *time.Duration)) {
	p.rest, p.follow = &rest{all: all, at: -1, began: time.Now(), clock: time.Now}, follow
}

func (r *rest) begin(id ComponentID) {
	if r == nil {
		return
	}
	from := max(r.at, 0)
	i := slices.IndexFunc(r.all[from:], func(e Expected) bool { return e.is(id) })
	if i < 0 || from+i == r.at {
		return
	}
	if r.at >= 0 {
		r.done += r.all[r.at].Passes
	}
	r.at, r.since = from+i, r.clock()
}

// left is the whole run's time left, with so much left of the present component and, at most or about, of what is being
// made; and whether it is known. Items to come take as long, by their passes at most, as those that are done; before
// the first is done, as the present one.
func (r *rest) left(component, cell time.Duration, atMost bool) (time.Duration, bool) {
	if r == nil || r.at < 0 {
		return 0, false
	}
	spent, own := r.clock().Sub(r.since).Seconds(), r.all[r.at].Passes
	took, done, left := r.since.Sub(r.began).Seconds(), r.done, cell.Seconds()
	switch {
	case done == 0 && (atMost || own == 0):
		return 0, false
	case done == 0:
		took, done = spent+left, own
	case atMost:
		left = min(left, max(component.Seconds(), took/done*own-spent))
	}
	later := 0.0
	for _, e := range r.all[r.at+1:] {
		later += e.Passes
	}
	return time.Duration((left + took/done*later) * float64(time.Second)), true
}
