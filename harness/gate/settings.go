package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"selfheal/harness/result"
)

// made holds the settings that made a run's numbers: everything except images and networks themselves.
type made struct {
	Datasets map[string]result.Dataset `json:"datasets"`
	Models   map[string]result.Network `json:"models"`
	Attacks  map[string]result.Attack  `json:"attacks"`
	Controls map[string]result.Control `json:"controls"`
}

func selected(cells []Cell, f *result.File) made {
	m := made{map[string]result.Dataset{}, map[string]result.Network{}, map[string]result.Attack{},
		map[string]result.Control{}}
	for _, c := range cells {
		if d, ok := f.Datasets[c.Dataset]; ok {
			d.ClassNames, d.LeftOut = nil, nil
			m.Datasets[c.Dataset] = d
		}
		if model, ok := f.Models[c.Model]; ok {
			m.Models[c.Model] = model.Network()
		}
		if name, a, ok := result.AttackOf(f.Attacks, c.Attack); ok {
			m.Attacks[name] = a
		}
		if control, ok := f.Controls[c.Defense]; ok {
			m.Controls[c.Defense] = control
		}
	}
	return m
}

// apart matches settings that may differ between comparable numbers. Hashes and numbers of images are compared cell
// by cell, a cell is known by its epsilon, and embedding files may be what is under test.
var apart = regexp.MustCompile(
	`^(n|sha256|title|epsilons)([.[]|$)|^layers\[\d+\]\.embedding\.(path|sha256|files)([.[]|$)`)

// settings returns the settings by section and name.
func (m made) settings() (all map[string]map[string]any) {
	data, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		panic(fmt.Sprintf("gate: settings are no JSON: %v", err)) // they came from JSON
	}
	return all
}

// changed lists the settings that both have and that differ.
func changed(before, now made) (list []result.Difference) {
	x, y := before.settings(), now.settings()
	for _, section := range []string{"attacks", "controls", "models", "datasets"} {
		for _, name := range slices.Sorted(maps.Keys(x[section])) {
			now, both := y[section][name]
			if !both {
				continue
			}
			for _, d := range result.Differences(x[section][name], now) {
				if !apart.MatchString(d.Path) {
					d.Path = section + "." + name + "." + d.Path
					list = append(list, d)
				}
			}
		}
	}
	return list
}

// accepts reports whether gate.accept names a setting, or something that contains it.
func accepts(accept []string, path string) bool {
	return slices.ContainsFunc(accept, func(a string) bool {
		rest, ok := strings.CutPrefix(path, a)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// otherEmbeddings names the places of controls whose embedding files differ from the baseline's.
func otherEmbeddings(before, now made) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(now.Controls)) {
		old := before.Controls[name].Layers
		for i, l := range now.Controls[name].Layers {
			if i >= len(old) {
				continue // another list of layers, or a new control
			}
			if was := old[i].Embedding; was.SHA256 != l.Embedding.SHA256 || !maps.Equal(was.Files, l.Embedding.Files) {
				names = append(names, plain(name)+" at "+plain(l.At))
			}
		}
	}
	return names
}
