// Package cell declares what identifies a cell of a run: one accuracy, of a network under a defense, on images that an
// attack of some strength made. Every other package embeds or holds these types, so that what "none" is, when two cells
// are the same, their order and their JSON stand here alone. It imports nothing of the harness.
package cell

import (
	"cmp"
	"encoding/json"
	"strings"

	"selfheal/internal/number"
)

// None names the attack of clean images, and the defense of a network without control.
const None = "none"

// Epsilon is the radius of the ball that a cell's images lie in, in pixel units of [0,1]. 0 is none, null in JSON:
// clean images, corruptions, patches, moved images and brackets have none.
type Epsilon float64

// MarshalJSON writes a number, or null for none.
func (e Epsilon) MarshalJSON() ([]byte, error) {
	if e == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(float64(e))
}

// UnmarshalJSON reads a number or null.
func (e *Epsilon) UnmarshalJSON(text []byte) error {
	*e = 0
	return json.Unmarshal(text, (*float64)(e))
}

// String is the number as configs have it, such as 8/255.
func (e Epsilon) String() string { return number.Format(float64(e)) }

// Row is a network under a defense, on a data set: what a row of a table is about.
type Row struct {
	Dataset string `json:"dataset,omitzero"` // records leave it out: their suite has one
	Model   string `json:"model"`
	Defense string `json:"defense"` // [None], or the control's name
}

// Job is one model of one suite, on its data set.
type Job struct {
	Suite   string `json:"suite"`
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
}

// Made is what is made of a row whatever attacks it, or of it alone.
func (r Row) Made() Made { return Made{ID: ID{Row: r}} }

// Column is an attack at one strength: what a column of a table is about.
type Column struct {
	Source  string  `json:"source,omitzero"` // in mode transfer the model that the images were made on
	Attack  string  `json:"attack"`          // [None], or the attack's name
	Epsilon Epsilon `json:"epsilon"`         // null where there is none
}

// ID identifies a cell. Suite, model, defense, source, attack and epsilon do so within a run, as [ID.Key] has them: the
// suite has one data set, and one mode for each of its networks.
type ID struct {
	Suite string `json:"suite"`
	Row
	Mode string `json:"mode"` // what the attacker knows, as result.Modes has it
	Column
}

// Of is a cell's identity, but for the data set and the mode that its suite has.
func Of(suite, model, defense, attack string, epsilon Epsilon) ID {
	return ID{Suite: suite, Row: Row{Model: model, Defense: defense}, Column: Column{Attack: attack, Epsilon: epsilon}}
}

// In is the same cell of a suite with a data set and a mode.
func (id ID) In(dataset, mode string) ID {
	id.Dataset, id.Mode = dataset, mode
	return id
}

// Key is the identity within a run, without what follows from it.
func (id ID) Key() ID {
	id.Dataset, id.Mode = "", ""
	return id
}

// Compare orders cells by their keys.
func Compare(a, b ID) int {
	return cmp.Or(strings.Compare(a.Suite, b.Suite), strings.Compare(a.Model, b.Model),
		strings.Compare(a.Defense, b.Defense), strings.Compare(a.Source, b.Source), strings.Compare(a.Attack, b.Attack),
		cmp.Compare(a.Epsilon, b.Epsilon))
}

// CompareRows orders rows by network, defense and data set.
func CompareRows(a, b Row) int {
	return cmp.Or(strings.Compare(a.Model, b.Model), strings.Compare(a.Defense, b.Defense),
		strings.Compare(a.Dataset, b.Dataset))
}

// Name is model/defense/attack@epsilon within the suite, as a gate's patterns have it, then the source.
func (id ID) Name() string {
	name := id.Model + "/" + id.Defense + "/" + id.Attack
	if id.Epsilon != 0 {
		name += "@" + id.Epsilon.String()
	}
	if id.Source != "" {
		name += " from " + id.Source
	}
	return name
}

// Made identifies what is made once in a run, whatever suites ask for it: the images of an attack on a classifier under
// a seed, or a certificate of one. Its suite is empty; its mode is too where the attacked network has no control.
type Made struct {
	ID
	Seed uint64 `json:"seed,omitzero"`
}
