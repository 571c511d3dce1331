package progress

import (
	"slices"
	"sync"
	"time"

	"selfheal/harness/plan"
)

// Work is what a component of an attack, or a certificate, has to do.
type Work struct {
	Images   int          // that it works on
	Standing int          // images of the cell that stand at first
	N        int          // images of the cell
	Passes   int64        // that its images take at most, together
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
	finished int
	standing int
	cost     cost
}

// Component shows a component at work. Do tells of each image that is finished how many stand then.
func (p *Progress) Component(id ComponentID, w Work, do func(image func(standing int)) error) error {
	c := &component{display: p.display(1000), Work: w, id: id, standing: w.Standing, cost: newCost(w)}
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

func (c *component) image(standing int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished++
	c.standing = min(c.standing, standing)
	c.cost.image(c.Made(), c.standing)
}

func (c *component) tell() {
	made := c.Made()
	c.mu.Lock()
	finished, standing, left := c.finished, c.standing, c.cost.left(made)
	c.mu.Unlock()
	f := min(float64(made)/max(float64(made)+left, 1), 1)
	e := ComponentProgress{ComponentID: c.id, ImagesDone: finished, Images: c.Images, Robust: standing, N: c.N,
		Share: f}
	if f > 0.01 {
		e.Left = new(time.Duration(float64(time.Since(c.start)) * (1 - f) / f))
		if all, known := c.rest.left(*e.Left); known {
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
	stood         float64 // passes of the images that are finished and stand
	fell          float64 // passes of those that fell
}

func newCost(w Work) cost {
	c := cost{total: w.Images, before: w.Standing, each: float64(w.Passes) / float64(max(w.Images, 1)), width: w.Width}
	if c.width == 0 {
		c.width = w.Images
	}
	return c
}

func (c *cost) under() int { return min(c.total-c.finished, c.width) }

// image notes that an image is finished, when so many passes have been made and so many images stand. All images under
// way have made about as many passes: they take turns.
func (c *cost) image(made int64, standing int) {
	own := min((float64(made)-c.stood-c.fell)/float64(max(c.under(), 1)), c.each)
	if fallen := c.before - standing; fallen > c.fallen {
		c.fallen = fallen
		c.fell += own
	} else {
		c.stood += c.each
	}
	c.finished++
}

// left is how many passes are to come. Images under way are taken to stand, since those that fall are finished soon.
// The same share of the images that wait is taken to fall as so far.
func (c *cost) left(made int64) float64 {
	under := c.under()
	left := max(float64(under)*c.each-max(float64(made)-c.stood-c.fell, 0), 0)
	if waiting := c.total - c.finished - under; waiting > 0 {
		falls, passes := 0.0, 0.0
		if c.fallen > 0 {
			falls, passes = float64(c.fallen)/float64(c.finished+under), c.fell/float64(c.fallen)
		}
		left += float64(waiting) * (falls*passes + (1-falls)*c.each)
	}
	return left
}

// Expected is what a run makes under one key: an attack on one classifier under one seed, or a certificate of it.
type Expected struct {
	plan.Key
	Passes float64 // at most
}

func (e Expected) is(id ComponentID) bool {
	return e.Model == id.Model && e.Defense == id.Defense && e.Attack == id.Attack && e.Epsilon == *id.Epsilon &&
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
	if r == nil || id.Epsilon == nil {
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

// left is the whole run's time left, with so much left of the present component, and whether it is known. Items to come
// take as long, by their passes at most, as those that are done; before the first is done, as the present one.
func (r *rest) left(component time.Duration) (time.Duration, bool) {
	if r == nil || r.at < 0 {
		return 0, false
	}
	spent, own := r.clock().Sub(r.since), r.all[r.at].Passes
	took, done := r.since.Sub(r.began).Seconds(), r.done
	if done == 0 {
		took, done = (spent + component).Seconds(), own
	}
	if done == 0 {
		return 0, false
	}
	rate, later := took/done, 0.0
	for _, e := range r.all[r.at+1:] {
		later += e.Passes
	}
	left := max(component.Seconds(), rate*own-spent.Seconds()) + rate*later
	return time.Duration(left * float64(time.Second)), true
}
