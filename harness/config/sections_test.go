package config

import (
	"reflect"
	"strings"
	"testing"

	"selfheal/attacks"
)

// TestComponents: a component is a name or a mapping; what is given for one alone
// and what for all are kept apart, also by the hash.
func TestComponents(t *testing.T) {
	text := func(components, shared string) string {
		return strings.Replace(small, "kind: autoattack",
			"kind: autoattack\n    version: custom\n    components: "+components+"\n    "+shared, 1)
	}
	a := mustParse(t, text("[square, {targets: 3, kind: apgd-t, loss: ce-targeted, rho: 1/2}, {kind: fab}]",
		"steps: 50"), "attacks.aa-linf.components.1.steps=20").Attack("aa-linf")
	want := setup("autoattack", "custom", attacks.Linf, map[string]any{"steps": 50}, "square", "apgd-t", "fab")
	want.Components[1].Parameters = map[string]any{"targets": 3, "loss": "ce-targeted", "rho": 0.5, "steps": 20}
	if !reflect.DeepEqual(a.Setup, want) {
		t.Errorf("%+v, want %+v", a.Setup, want)
	}

	same := hash(t, text("[{kind: apgd-t, steps: 5, targets: 2}, fab]", ""), 0)
	if h := hash(t, text("[{targets: 2, kind: apgd-t, steps: 5}, {kind: fab}]", ""), 0); h != same {
		t.Error("the order of a component's keys, or a mapping for a name, changes the hash")
	}
	for _, other := range []string{text("[{kind: apgd-t, targets: 2}, fab]", "steps: 5"),
		text("[{kind: apgd-t, steps: 5, targets: 3}, fab]", ""),
		text("[{kind: apgd-t, targets: 2}, {kind: fab, steps: 5}]", ""),
		text("[fab, {kind: apgd-t, steps: 5, targets: 2}]", "")} {
		if hash(t, other, 0) == same {
			t.Errorf("the same hash for\n%s", other)
		}
	}
}
