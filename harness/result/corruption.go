package result

import (
	"fmt"
	"reflect"
	"strings"

	"selfheal/attacks"
)

// Corruptions reports whether corruptions made the attack's cells, one each, which are then called NAME:fog:3.
func (a Attack) Corruptions() bool { return a.Kind == attacks.CorruptionKind }

// Proves reports whether the attack is a certificate: its cells say what is proven.
func (a Attack) Proves() bool { return attacks.Proves(a.Kind) }

// Smooths reports whether the attack is a certificate of the smoothed classifier, which has radii.
func (a Attack) Smooths() bool { return a.Kind == attacks.SmoothingKind }

// AttackOf is the attack that made a cell, by its name in the config; ok is false where nothing is known of it.
func AttackOf(known map[string]Attack, cell string) (name string, a Attack, ok bool) {
	name, _, colon := strings.Cut(cell, ":")
	a, ok = known[name]
	return name, a, ok && a.Corruptions() == colon
}

// Cells are the names of the attack's cells: the one that it has in the config, or one for each corruption and
// severity.
func (a Attack) Cells(name string) []string {
	if !a.Corruptions() {
		return []string{name}
	}
	var list []string
	for _, corruption := range values(a.Parameters["names"]) {
		for _, severity := range values(a.Parameters["severities"]) {
			list = append(list, name+":"+corruption+":"+severity)
		}
	}
	return list
}

// values writes the items of a list, which has another type once it has been in a file.
func values(list any) (out []string) {
	if v := reflect.ValueOf(list); v.Kind() == reflect.Slice {
		for _, item := range v.Seq2() {
			out = append(out, fmt.Sprint(item.Interface()))
		}
	}
	return out
}
