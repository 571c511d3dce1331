package result

import (
	"fmt"
	"reflect"
	"strings"

	"selfheal/attacks"
)

// Corruptions reports whether corruptions made the attack's cells. There is one for each, called NAME:fog:3.
func (a Attack) Corruptions() bool { return a.Kind == attacks.CorruptionKind }

// Free reports whether the attack's cells have neither norm nor epsilon.
func (a Attack) Free() bool { return attacks.Free(a.Kind) }

// Crafted reports whether the attack's images are made against a network's answers.
func (a Attack) Crafted() bool { return !a.Corruptions() && !a.Proves() }

// Brackets reports whether the attack's cells bound the radius that each image withstands, and have no epsilon.
func (a Attack) Brackets() bool { return attacks.Brackets(a.Kind) }

// Strengths returns the epsilons at which the attack makes cells.
func (a Attack) Strengths() []float64 {
	if a.Brackets() {
		return nil
	}
	return a.Epsilons
}

// Proves reports whether the attack is a certificate.
func (a Attack) Proves() bool { return attacks.Proves(a.Kind) }

// Smooths reports whether the attack is a certificate of the smoothed classifier, which has radii.
func (a Attack) Smooths() bool { return attacks.ProofOf(a.Kind).Smooths }

// AttackOf returns the attack that made a cell, and its name in the config. ok is false if the attack is unknown.
func AttackOf(known map[string]Attack, cell string) (name string, a Attack, ok bool) {
	name, _, colon := strings.Cut(cell, ":")
	a, ok = known[name]
	return name, a, ok && (attacks.Listed(a.Kind) != nil) == colon
}

// Made returns the attack of a cell, or an empty one if it is unknown.
func (f *File) Made(cell string) Attack {
	if _, a, ok := AttackOf(f.Attacks, cell); ok {
		return a
	}
	return f.Attacks[cell] // a mean over corruptions has their common name
}

// Cells returns the names of the attack's cells: its name in the config, or a name for each combination of the values
// of its lists: NAME:fog:3 for a corruption and severity, NAME:4 for a side of a patch.
func (a Attack) Cells(name string) []string {
	list := []string{name}
	for _, parameter := range attacks.Listed(a.Kind) {
		var longer []string
		for _, before := range list {
			for _, value := range values(a.Parameters[parameter]) {
				longer = append(longer, before+":"+value)
			}
		}
		list = longer
	}
	return list
}

// TitleOf returns the title of a cell's attack. A patch's includes its side.
func (a Attack) TitleOf(cell string) string {
	_, value, _ := strings.Cut(cell, ":")
	variant := attacks.Variant(a.Kind, value)
	if variant == "" {
		return a.Title
	}
	patch, rest, _ := strings.Cut(a.Title, ",")
	return strings.TrimSuffix(patch+" "+variant+","+rest, ",")
}

// values writes the items of a list, whose type changes once it has been in a file.
func values(list any) (out []string) {
	if v := reflect.ValueOf(list); v.Kind() == reflect.Slice {
		for _, item := range v.Seq2() {
			out = append(out, fmt.Sprint(item.Interface()))
		}
	}
	return out
}
