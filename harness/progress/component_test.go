package progress

import (
	"math"
	"testing"
	"time"

	"selfheal/harness/plan"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s: %g, not %g", what, got, want)
	}
}

// Images that stand cost all their passes and those that fell what they had cost. Images under way are taken to stand;
// of those that wait, the same share falls as so far.
func TestCost(t *testing.T) {
	c := newCost(Work{Images: 10, Standing: 12, Passes: 1000, Width: 4})
	near(t, "nothing done", c.left(0), 1000)
	near(t, "under way", c.left(40), 960)
	c.image(40, 11) // 10 passes each, and one of four has fallen
	near(t, "one fell", c.fell, 10)
	// Four under way, 30 passes of theirs made; of the five that wait 1 of 5 falls for 10 passes.
	near(t, "after one fell", c.left(40), 400-30+5*(10./5+100*4./5))
	for range 3 {
		c.image(400, 11)
	}
	if c.finished != 4 || c.fallen != 1 || c.stood != 300 {
		t.Errorf("%+v", c)
	}
	for range 6 {
		c.image(910, 11)
	}
	near(t, "all done", c.left(910), 0)
}

// The run's time left goes by what is done: what is to come takes as long by its passes at most.
func TestRest(t *testing.T) {
	var p Progress
	p.Expect([]Expected{
		{plan.Key{Model: "rn-18", Defense: "none", Attack: "pgd", Epsilon: 8. / 255}, 10},
		{plan.Key{Model: "rn-34", Defense: "none", Attack: "pgd", Epsilon: 8. / 255}, 20},
		{plan.Key{Model: "rn-18", Defense: "loop", Attack: "pgd", Mode: "whitebox-through", Epsilon: 8. / 255}, 30},
	}, nil)
	r, now := p.rest, time.Unix(0, 0)
	r.began, r.clock = now, func() time.Time { return now }
	left := func(component, want time.Duration) {
		t.Helper()
		if got, known := r.left(component); !known || (got-want).Abs() > time.Millisecond {
			t.Errorf("%v left (%v), not %v", got, known, want)
		}
	}
	id := func(model, defense, mode string) ComponentID {
		return ComponentID{CellID: CellID{Model: model, Defense: defense, Mode: mode, Attack: "pgd",
			Epsilon: new(8. / 255)}}
	}
	if _, known := r.left(time.Second); known {
		t.Error("something is known before the first attack")
	}
	r.begin(id("rn-18", "none", "oblivious"))
	now = now.Add(5 * time.Second)
	left(15*time.Second, (15+40+60)*time.Second) // 20 s for 10 passes
	now = now.Add(20 * time.Second)
	r.begin(id("rn-34", "none", "oblivious")) // after 25 s
	left(time.Second, (50+75)*time.Second)
	now = now.Add(10 * time.Second)
	r.begin(id("rn-34", "none", "oblivious")) // its next component
	left(time.Second, (40+75)*time.Second)
	left(90*time.Second, (90+75)*time.Second)
	r.begin(id("rn-18", "loop", "whitebox-through"))
	now = now.Add(time.Minute)
	left(7*time.Second, 7*time.Second) // longer than expected: the component's own
	r.begin(ComponentID{})             // of a study
	left(7*time.Second, 7*time.Second)
	var none *rest
	none.begin(ComponentID{})
	if _, known := none.left(time.Second); known {
		t.Error("nothing knows something")
	}
}
