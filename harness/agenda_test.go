package harness

import (
	"testing"
	"testing/fstest"
	"time"

	"selfheal/internal/must"
)

// Images that stand cost all their passes and those that fell what they had cost; those under way are taken to
// stand, of those that wait as many fall as so far.
func TestSpending(t *testing.T) {
	s := spending{total: 10, before: 12, each: 100, width: 4}
	near(t, "nothing done", s.left(0), 1000)
	near(t, "under way", s.left(40), 960)
	s.image(40, 11) // 10 passes each, and one of four has fallen
	near(t, "one fell", s.fell, 10)
	// Four under way, 30 passes of theirs made; of the five that wait 1 of 5 falls for 10 passes.
	near(t, "after one fell", s.left(40), 400-30+5*(10./5+100*4./5))
	for range 3 {
		s.image(400, 11)
	}
	if s.finished != 4 || s.fallen != 1 || s.stood != 300 {
		t.Errorf("%+v", s)
	}
	for range 6 {
		s.image(910, 11)
	}
	near(t, "all done", s.left(910), 0)
}

// The run's time left goes by what is done: a crafting to come takes as long by its weight.
func TestAgenda(t *testing.T) {
	cfg := configOf(t, fstest.MapFS{}, countedConfig, []string{"first", "again", "through"})
	r := &run{opener: &opener{cfg: cfg}, plan: must.Get(NewPlan(cfg))(t)}
	keys := []craftKey{
		{"images", "rn-18", "pgd", 8. / 255, "none", "", 0}, {"images", "rn-34", "pgd", 8. / 255, "none", "", 0},
		{"images", "rn-18", "pgd", 8. / 255, "loop", "whitebox-through", 0},
	}
	forecast := map[string]float64{keys[0].String(): 10, keys[1].String(): 20, keys[2].String(): 30}
	a := r.agenda(forecast)
	if a == nil || len(a.items) != 3 || a.items[1].weight != 20 || a.items[2].key.mode != "whitebox-through" {
		t.Fatalf("%+v", a)
	}
	delete(forecast, keys[1].String())
	if r.agenda(forecast) != nil {
		t.Error("a forecast of another plan is believed")
	}
	now := time.Unix(0, 0)
	a.began, a.clock = now, func() time.Time { return now }
	left := func(component, want time.Duration) {
		t.Helper()
		if got, known := a.left(component); !known || (got-want).Abs() > time.Millisecond {
			t.Errorf("%v left (%v), not %v", got, known, want)
		}
	}
	id := func(model, defense, mode string) componentID {
		cell := cellID{Model: model, Defense: defense, Mode: mode, Attack: "pgd", Epsilon: new(8. / 255)}
		return componentID{cellID: cell}
	}
	if _, known := a.left(time.Second); known {
		t.Error("something is known before the first attack")
	}
	a.begin(id("rn-18", "none", "oblivious"))
	now = now.Add(5 * time.Second)
	left(15*time.Second, (15+40+60)*time.Second) // 20 s for what was forecast as 10
	now = now.Add(20 * time.Second)
	a.begin(id("rn-34", "none", "oblivious")) // after 25 s, 2.5 times the forecast
	left(time.Second, (50+75)*time.Second)
	now = now.Add(10 * time.Second)
	a.begin(id("rn-34", "none", "oblivious")) // its next component
	left(time.Second, (40+75)*time.Second)
	left(90*time.Second, (90+75)*time.Second)
	a.begin(id("rn-18", "loop", "whitebox-through"))
	now = now.Add(time.Minute)
	left(7*time.Second, 7*time.Second) // longer than expected: the component's own
	a.begin(componentID{})             // of a study
	left(7*time.Second, 7*time.Second)
	var none *agenda
	none.begin(componentID{})
	if _, known := none.left(time.Second); known {
		t.Error("no agenda knows something")
	}
}
