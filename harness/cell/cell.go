// Package cell owns the identity of a cell of a run. A cell is one accuracy: of a network under a defense, on images
// that an attack of some strength made. Every other package embeds or holds these types; "none", equality, order and
// JSON are defined here alone. Nothing needs to be called first, all types are plain values, and the package imports
// nothing of the harness.
package cell

import (
	"cmp"
	"encoding/json"
	"strings"

	"selfheal/internal/number"
)

// None names the attack of clean images, and the defense of an undefended network.
const None = "none"

// Epsilon is the radius of the ball in which a cell's images lie, in pixel units of [0,1]. 0 is none, null in JSON:
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

// String returns the number as configs write it, such as 8/255.
func (e Epsilon) String() string { return number.Format(float64(e)) }

// Row is a network under a defense, on a data set: the subject of a table's row.
type Row struct {
	Dataset string `json:"dataset,omitzero"` // absent from records: their suite has one data set
	Model   string `json:"model"`
	Defense string `json:"defense"` // [None], or the control's name
}

// Job is one model of one suite, on its data set.
type Job struct {
	Suite   string `json:"suite"`
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
}

// Made returns the key of what is made of the row alone, or by any attack on it.
func (r Row) Made() Made { return Made{ID: ID{Row: r}} }

// Column is an attack at one strength: the subject of a table's column.
type Column struct {
	Source  string  `json:"source,omitzero"` // in mode transfer, the model on which the images were made
	Attack  string  `json:"attack"`          // [None], or the attack's name
	Epsilon Epsilon `json:"epsilon"`         // null if the attack has none
}

// ID identifies a cell. Within a run its [ID.Key] suffices: suite, model, defense, mode, source, attack and epsilon.
// The data set follows from the suite.
type ID struct {
	Suite string `json:"suite"`
	Row
	Mode string `json:"mode"` // the attacker's knowledge, one of result.Modes
	Column
}

// Of returns a cell's identity without data set and mode.
func Of(suite, model, defense, attack string, epsilon Epsilon) ID {
	return ID{Suite: suite, Row: Row{Model: model, Defense: defense}, Column: Column{Attack: attack, Epsilon: epsilon}}
}

// In returns the same cell in a suite with a data set and a mode.
func (id ID) In(dataset, mode string) ID {
	id.Dataset, id.Mode = dataset, mode
	return id
}

// Key returns the part of the identity that distinguishes cells within a run.
func (id ID) Key() ID {
	id.Dataset = ""
	return id
}

// Compare orders cells by their keys.
func Compare(a, b ID) int {
	return cmp.Or(strings.Compare(a.Suite, b.Suite), strings.Compare(a.Model, b.Model),
		strings.Compare(a.Defense, b.Defense), strings.Compare(a.Mode, b.Mode), strings.Compare(a.Source, b.Source),
		strings.Compare(a.Attack, b.Attack), cmp.Compare(a.Epsilon, b.Epsilon))
}

// CompareRows orders rows by network, defense and data set.
func CompareRows(a, b Row) int {
	return cmp.Or(strings.Compare(a.Model, b.Model), strings.Compare(a.Defense, b.Defense),
		strings.Compare(a.Dataset, b.Dataset))
}

// Name returns model/defense/attack@epsilon, as a gate's patterns have it, followed by the source. The mode follows a
// control whose attacker knows it. The suite is not named.
func (id ID) Name() string {
	name := id.Model + "/" + id.Defense
	if id.Defense != None && strings.HasPrefix(id.Mode, "whitebox-") {
		name += ":" + id.Mode
	}
	name += "/" + id.Attack
	if id.Epsilon != 0 {
		name += "@" + id.Epsilon.String()
	}
	if id.Source != "" {
		name += " from " + id.Source
	}
	return name
}

// Made identifies what a run makes once, whatever suites ask for it: the images of an attack on a classifier under a
// seed, or a certificate of one. Its suite is empty, and so is its mode if the attacked network is undefended.
type Made struct {
	ID
	Seed uint64 `json:"seed,omitzero"`
}
