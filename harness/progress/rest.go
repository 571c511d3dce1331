package progress

import (
	"slices"
	"time"
)

// Expected is what a run makes under one key: an attack on one classifier under one seed, or a certificate of it.
type Expected struct {
	Model, Defense, Attack string
	Mode                   string // "" on the undefended network, and of certificates
	Epsilon                float64
	Seed                   uint64
	Passes                 float64 // at most
}

// is reports whether a component belongs to it.
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

// Expect has a component tell the whole run's time left too. Follow, unless nil, is called with it at every report of
// a component.
func (p *Progress) Expect(all []Expected, follow func(left *time.Duration)) {
	p.rest, p.follow = &rest{all: all, at: -1, began: time.Now(), clock: time.Now}, follow
}

// begin notes that a component begins.
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

// left is the whole run's time left, where so much is left of the component that is under way, and whether it is known.
// The items to come take as long, by their passes at most, as those that are done; before the first is done, as the
// present one, about which no more is known.
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
