package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"selfheal/attacks"
	"selfheal/attacks/corruption"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/fault"
	"selfheal/internal/lists"
)

// corrupted is one corruption of a setting; its cells are called NAME:fog:3.
type corrupted struct {
	attack
	all  *config.Attack // the setting with all its corruptions
	made attacks.Corruption
}

func newCorruption(a *config.Attack, c attacks.Corruption) corrupted {
	one := *a
	one.Name, one.Corruptions = a.Name+":"+c.String(), []attacks.Corruption{c}
	return corrupted{attack{&one, 0}, a, c}
}

func (corrupted) Norm() *string { return nil }

// Within allows any image.
func (corrupted) Within() Ball               { return Ball{Norm: attacks.Linf, Epsilon: math.Inf(1)} }
func (corrupted) Kept(saving bool) bool      { return saving }
func (corrupted) Crafted() bool              { return false }
func (c corrupted) Do(m Maker, s Step) error { return m.Corrupt(s, c.made) }

func (c corrupted) Recipe(_ int, shape attacks.Shape) (attacks.Recipe, error) {
	r := attacks.Recipe{Name: attacks.CorruptionRecipe, Corruption: &c.made}
	return r, fault.At("attack "+c.Name(), c.made.Check(shape))
}

func (c corrupted) Describe() (result.Attack, error) {
	var names, words []string
	var severities []int
	for _, c := range c.all.Corruptions {
		names = lists.Once(names, c.Name)
		if !slices.Contains(severities, c.Severity) {
			severities, words = append(severities, c.Severity), append(words, strconv.Itoa(c.Severity))
		}
	}
	which := fmt.Sprintf("%d of %d", len(names), len(corruption.Names()))
	if len(names) == len(corruption.Names()) {
		which = fmt.Sprintf("all %d", len(names))
	}
	return result.Attack{Kind: attacks.CorruptionKind, Recipe: attacks.CorruptionRecipe, Epsilons: []float64{},
		Title:      fmt.Sprintf("%s corruptions, severities %s", which, strings.Join(words, ", ")),
		Parameters: result.Parameters{"names": names, "severities": severities}}, nil
}
