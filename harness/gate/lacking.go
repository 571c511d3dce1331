package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
)

// lacking returns the error about cells of the baseline that the results lack. It asks whether they were renamed.
func lacking(base *Baseline, of made, now map[cell.ID]Cell) error {
	var names []string
	for _, c := range base.Cells {
		if _, ok := now[c.Key()]; ok {
			continue
		}
		for _, other := range result.ModeNames() {
			if _, ok := now[c.In("", other)]; ok && names == nil {
				return fmt.Errorf("cell %s: the results have mode %s, the baseline %s; %s", c, other, c.Mode, toAccept)
			}
		}
		names = append(names, c.String())
	}
	remedy := "run those cells too"
	switch list := renamed(base.made, of); {
	case names == nil:
		return nil
	case list != nil:
		remedy = "renamed? " + strings.Join(list, ", ") + ": give back the old name"
	}
	return fmt.Errorf("the results lack %s, which the baseline has; %s, or accept these results with "+
		"selfheal check --update", andMore(names), remedy)
}

// renamed lists new models, attacks and controls that equal a missing one: in the model's file, or in their settings.
func renamed(before, now made) (list []string) {
	x, y := before.settings(), now.settings()
	for _, s := range []struct{ section, what, by string }{
		{"models", "model", "sha256"}, {"controls", "control", "settings"}, {"attacks", "attack", "settings"}} {
		for _, name := range slices.Sorted(maps.Keys(y[s.section])) {
			if _, known := x[s.section][name]; known {
				continue
			}
			for _, old := range slices.Sorted(maps.Keys(x[s.section])) {
				if _, still := y[s.section][old]; !still && equal(s.by, x[s.section][old], y[s.section][name]) {
					list = append(list, fmt.Sprintf("%s %s is new and has the %s of %s", s.what, plain(name), s.by,
						plain(old)))
				}
			}
		}
	}
	return list
}

// equal reports whether two JSON objects have the same sha256, or the same settings apart from the title.
func equal(by string, before, now any) bool {
	return !slices.ContainsFunc(result.Differences(before, now), func(d result.Difference) bool {
		return d.Path == by || by == "settings" && d.Path != "title"
	})
}
