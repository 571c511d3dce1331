package harness

import (
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
)

// What the config accepts of an attack is what the attack takes.
func TestParametersOfConfigAndAttacksAgree(t *testing.T) {
	for _, kind := range config.AttackKinds {
		if kind == "autoattack" {
			continue
		}
		got, want := config.AttackParams(kind), attacks.Parameters(kind)
		slices.Sort(got)
		if !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s: the config accepts %q, the attack %q", kind, got, want)
		}
	}
}
