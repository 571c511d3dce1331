package plan

import (
	"selfheal/harness/cell"
	"selfheal/harness/config"
)

// Clean is the trial of clean images. Its cells have no norm and no epsilon, and nothing is made for them.
var Clean Trial = clean{attack{setting: &config.Attack{Name: cell.None}}}

type clean struct{ attack }

func (clean) Norm() *string     { return nil }
func (clean) Within() Ball      { return Ball{} }
func (clean) Random() bool      { return false }
func (clean) Of(Group) []string { return nil }
func (clean) Kept(bool) bool    { return false }
func (clean) Crafted() bool     { return false }
