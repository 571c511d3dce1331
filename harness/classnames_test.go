package harness

import (
	"slices"
	"strings"
	"testing"
)

// The names that a config gives the classes stand in the results, by label; without names
// there are none.
func TestClassNames(t *testing.T) {
	names := strings.Fields("disc square triangle cross ring bar star dot wave grid")
	for _, sets := range [][]string{nil, {"datasets.test.classes=[" + strings.Join(names, ", ") + "]"}} {
		o := openerOf(t, plan(t, small, 1, 1, sets...).Config)
		if _, _, err := o.scored("test"); err != nil {
			t.Fatal(err)
		}
		want := names
		if sets == nil {
			want = nil
		}
		if got := o.record.Datasets["test"].ClassNames; !slices.Equal(got, want) {
			t.Errorf("with %q the classes are called %q", sets, got)
		}
	}
}
