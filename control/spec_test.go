package control

import (
	"maps"
	"strings"
	"testing"
)

// A row a solver: what it is with all defaults, and what it refuses.
func TestSolvers(t *testing.T) {
	t.Parallel()
	rows := []struct {
		method, text string
		solver       Solver
		unused       []string
	}{
		{"greedy", "greedy", Solver{Greedy, 0, 0, 0.001, 0, 0},
			[]string{"outer", "inner", "learning_rate", "momentum"}},
		{"pmp", "pmp outer=3 regularization=0.001 learning_rate=0.003 momentum=0.5",
			Solver{PMP, 3, 0, 0.001, 0.003, 0.5}, []string{"inner"}},
		{"msa", "msa outer=3 inner=10 regularization=0.001 learning_rate=0.003 momentum=0.5",
			Solver{MSA, 3, 10, 0.001, 0.003, 0.5}, nil},
	}
	if len(rows) != len(Solvers) {
		t.Errorf("%d rows test %d solvers", len(rows), len(Solvers))
	}
	for _, r := range rows {
		s, err := NewSolver(r.method, nil)
		if err != nil || s != r.solver || s.String() != r.text {
			t.Errorf("%s: %+v %q %v", r.method, s, s, err)
		}
		want := map[string]any{"method": r.method, "outer": s.Outer, "inner": s.Inner,
			"regularization": s.Regularization, "learning_rate": s.LearningRate, "momentum": s.Momentum}
		for _, name := range r.unused {
			delete(want, name)
			if _, err := NewSolver(r.method, map[string]any{name: 1}); err == nil ||
				!strings.Contains(err.Error(), name) ||
				!strings.Contains(err.Error(), s.Method.Spec().Why) {
				t.Errorf("%s with %s: %v", r.method, name, err)
			}
		}
		if !maps.Equal(s.Settings(), want) {
			t.Errorf("%s has the settings %v, want %v", r.method, s.Settings(), want)
		}
		if row := s.Method.Spec(); row.Title == "" || row.Doc == "" || (len(row.Unused) > 0) != (row.Why != "") {
			t.Errorf("%s: the row lacks something: %+v", r.method, row)
		}
	}
}

func TestNewSolver(t *testing.T) {
	t.Parallel()
	s, err := NewSolver("msa", map[string]any{"outer": 5, "inner": "2", "regularization": 0, "learning_rate": "1/10",
		"momentum": 0})
	if err != nil || s != (Solver{MSA, 5, 2, 0, 0.1, 0}) {
		t.Errorf("%+v, %v", s, err)
	}
	for name, values := range map[string][]any{"outer": {0, 1.5}, "inner": {0}, "regularization": {-1},
		"learning_rate": {0, -1}, "momentum": {1, -0.1}, "wait": {1}} {
		for _, v := range values {
			if _, err := NewSolver("msa", map[string]any{name: v}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s %v: %v", name, v, err)
			}
		}
	}
	if _, err := NewSolver("sgd", nil); err == nil || !strings.Contains(err.Error(), "greedy, pmp, msa") {
		t.Error(err)
	}
}
