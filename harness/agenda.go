package harness

import (
	"maps"
	"slices"
	"time"

	"selfheal/harness/config"
)

// agenda is what a run has to craft, in order, and how far it is: the whole run's time left follows from what
// it has taken so far. A nil one knows nothing.
type agenda struct {
	items []item
	at    int       // the item that is being crafted, -1 before the first
	done  float64   // weight of the items before it that this run has crafted, none that it continues from
	began time.Time // of the run
	since time.Time // when the item began
	clock func() time.Time
}

// item is what is crafted under one key.
type item struct {
	key    craftKey // without the data set, of which progress knows nothing
	weight float64  // seconds by forecast, or where there is none the passes at most
}

// agenda lists a run's. A forecast has the seconds of every crafting by [craftKey.String]; nil where there is none.
func (r *run) agenda(forecast map[string]float64) *agenda {
	a := &agenda{at: -1, began: time.Now(), clock: time.Now}
	for j, k := range r.plan.crafts() {
		if k.attack.corruption() != nil {
			continue
		}
		weight, known := forecast[k.String()]
		if !known {
			if forecast != nil {
				return nil // it is of another plan
			}
			weight = float64(r.mostPasses(j, k.attack))
		}
		k.dataset = ""
		a.items = append(a.items, item{k.craftKey, weight})
	}
	return a
}

// expect has progress tell the whole run's time left.
func (r *run) expect(c *CostCache) {
	if forecast, ok := cached[map[string]float64](c, r.agendaKey()); ok {
		r.progress.agenda = r.agenda(forecast)
	}
	if r.progress.agenda == nil {
		r.progress.agenda = r.agenda(nil)
	}
}

// mostPasses bounds the passes of an attack on a job's images, which are open.
func (r *run) mostPasses(j Job, a PlannedAttack) int64 {
	recipe, err := a.Make(a.Epsilon, assumedClasses)
	if err != nil {
		return 0
	}
	f, b := recipe.Passes(assumedClasses)
	return (f + b) * int64(r.record.Datasets[j.Suite.Dataset].N)
}

// begin notes that a component of an item begins.
func (a *agenda) begin(id componentID) {
	if a == nil || id.Epsilon == nil {
		return
	}
	k := craftKey{model: id.Model, attack: id.Attack, epsilon: *id.Epsilon, defense: id.Defense, seed: id.Seed}
	if k.defense != config.None {
		k.mode = id.Mode
	}
	proven := k // certificates are of no mode
	proven.mode = ""
	from := max(a.at, 0)
	i := slices.IndexFunc(a.items[from:], func(i item) bool { return i.key == k || i.key == proven })
	if i < 0 || from+i == a.at {
		return
	}
	if a.at >= 0 {
		a.done += a.items[a.at].weight
	}
	a.at, a.since = from+i, a.clock()
}

// left is the whole run's time left, where so much is left of the component that is under way, and whether it is
// known. Every item to come takes as long by its weight as those that are done; before the first is done,
// as the present one, of which no more is known.
func (a *agenda) left(component time.Duration) (time.Duration, bool) {
	if a == nil || a.at < 0 {
		return 0, false
	}
	weight := func(items []item) (sum float64) {
		for _, i := range items {
			sum += i.weight
		}
		return sum
	}
	now := a.clock()
	spent, own := now.Sub(a.since), a.items[a.at].weight
	took, done := a.since.Sub(a.began).Seconds(), a.done
	if done == 0 {
		took, done = (spent + component).Seconds(), own
	}
	if done == 0 {
		return 0, false
	}
	rate := took / done
	rest := max(component.Seconds(), rate*own-spent.Seconds())
	return time.Duration((rest + rate*weight(a.items[a.at+1:])) * float64(time.Second)), true
}

// agendaKey is what a plan's forecast is kept under.
func (o *opener) agendaKey() string { return "agenda/1 " + o.cfg.Hash() + o.machineKey() }

// medians are the seconds of every crafting in the median draw.
func (s *surveyor) medians() map[string]float64 {
	out := map[string]float64{}
	for key, all := range maps.All(s.made) {
		seconds := make([]float64, len(all))
		for i, o := range all {
			seconds[i] = o.seconds
		}
		slices.Sort(seconds)
		out[key.String()] = seconds[len(seconds)/2]
	}
	return out
}
