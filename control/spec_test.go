package control

import (
	"maps"
	"testing"
)

// A row for each solver: its defaults, and the settings that it does not use.
func TestSolvers(t *testing.T) {
	t.Parallel()
	rows := []struct {
		text   string
		solver Solver
		unused []string
	}{
		{"greedy", Solver{Greedy, 0, 0, 0.001, 0, 0}, []string{"outer", "inner", "learning_rate", "momentum"}},
		{"pmp outer=3 regularization=0.001 learning_rate=0.003 momentum=0.5", Solver{PMP, 3, 0, 0.001, 0.003, 0.5},
			[]string{"inner"}},
		{"msa outer=3 inner=10 regularization=0.001 learning_rate=0.003 momentum=0.5",
			Solver{MSA, 3, 10, 0.001, 0.003, 0.5}, nil},
	}
	if len(rows) != len(Solvers) {
		t.Errorf("%d rows test %d solvers", len(rows), len(Solvers))
	}
	for i, r := range rows {
		spec, s := Solvers[i], Solver{Method: Solvers[i].Method}
		for _, row := range Settings {
			if spec.Takes(row.Name) {
				row.Set(&s, row.Default)
			}
		}
		if s != r.solver || s.String() != r.text {
			t.Errorf("%s is %+v, %q", s.Method, r.solver, s)
		}
		want := map[string]any{"method": string(s.Method), "outer": s.Outer, "inner": s.Inner,
			"regularization": s.Regularization, "learning_rate": s.LearningRate, "momentum": s.Momentum}
		for _, name := range r.unused {
			delete(want, name)
		}
		if !maps.Equal(s.Settings(), want) {
			t.Errorf("%s has the settings %v, want %v", s.Method, s.Settings(), want)
		}
		if spec.Title == "" || spec.Doc == "" || (len(spec.unused) > 0) != (spec.Why != "") {
			t.Errorf("the row lacks something: %+v", spec)
		}
	}
}
