package harness

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/internal/number"
)

// forecast prints how long a job is expected to take and reports whether that is known.
func (d *description) forecast(j Job) bool {
	if d.costs == nil {
		return false
	}
	i := slices.IndexFunc(d.plan.Jobs, func(o Job) bool { return o.Suite == j.Suite && o.Model == j.Model })
	f := d.costs.jobs[i]
	if f.seconds == nil {
		fmt.Fprintf(&d.text, "  hours: not known: %s\n", f.why)
		return false
	}
	if d.total == nil {
		d.total = slices.Clone(d.costs.rest)
	}
	for k, s := range f.seconds {
		d.total[k] += s
	}
	fmt.Fprintf(&d.text, "  hours: %s; right without attack: %d of the %d images looked at\n", spanOf(f.seconds),
		f.right, f.looked)
	return true
}

// hours prints how long the run is expected to take.
func (d *description) hours(total effort) {
	fmt.Fprintf(&d.text, "hours: %s on this machine, from timed passes", spanOf(d.total))
	if total.hours > 0 {
		fmt.Fprintf(&d.text, "; at the given rates at most %s more, controlled passes not included",
			duration(total.hours))
	}
	if len(total.unrated) > 0 {
		fmt.Fprintf(&d.text, "; not known: %s", strings.Join(total.unrated, ", "))
	}
	d.text.WriteString("\n")
}

// String writes hours, and where they are few seconds or minutes too.
func (s span) String() string {
	text := duration(s.low/3600) + " to " + duration(s.high/3600)
	switch {
	case s.high < 120:
		text += fmt.Sprintf(" (%.0f to %.0f s)", s.low, s.high)
	case s.high < 2*3600:
		text += fmt.Sprintf(" (%.2g to %.2g min)", s.low/60, s.high/60)
	}
	return text
}

// disk prints how much room crafted images take if they are kept.
func (d *description) disk() {
	bytes, known := int64(0), true
	for j, k := range d.plan.crafts() {
		if k.attack.proves() || k.attack.corruption() != nil && !j.Suite.SaveAdversarial {
			continue // there are none, or they are made anew whenever they are asked for
		}
		set := d.sets[j.Suite.Dataset]
		known = known && set.size > 0
		bytes += 4 * int64(set.n) * int64(set.size)
	}
	if known && bytes > 0 {
		fmt.Fprintf(&d.text, "disk: crafted images, where they are kept, take %s: 4 bytes a value\n",
			number.Bytes(bytes))
	}
}
