package run

import (
	"slices"

	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// settings is a solver as results have it.
func settings(s control.Solver) result.SolverSettings {
	if s.Method == control.PMP {
		s.Inner = 1
	}
	return result.SolverSettings{Method: s.Method.String(), Outer: s.Outer, Inner: s.Inner,
		Regularization: s.Regularization, LearningRate: s.LearningRate, Momentum: s.Momentum}
}

// sameStart returns greedy control, msa and pmp with the settings of a solver, one of which
// it is itself. All begin at the same greedy controls. As many ascent steps a layer are
// made by msa as by pmp: its outer × inner, where pmp makes a sweep for each; beside a pmp
// of its own, msa makes the default number of inner steps and at least as many in all.
func sameStart(own control.Solver) []control.Solver {
	msa, pmp := own, own
	switch own.Method {
	case control.MSA:
		pmp.Method, pmp.Outer, pmp.Inner = control.PMP, own.Outer*own.Inner, 0
	case control.PMP:
		inner := min(config.DefaultSolver().Inner, own.Outer)
		msa.Method, msa.Outer, msa.Inner = control.MSA, (own.Outer+inner-1)/inner, inner
	}
	return []control.Solver{{Method: control.Greedy, Regularization: own.Regularization}, msa, pmp}
}

// variant is a solver to try, and why.
type variant struct {
	why    string
	value  float64
	solver control.Solver
}

// variants are what a study tries beside a control's own solver: that one with the default
// rate and momentum, unless it has them, and with one setting after the other changed. The
// control's own value stands among those that the study names.
func variants(own control.Solver, study *config.SolverStudy) []variant {
	var all []variant
	usual := config.DefaultSolver()
	if own.LearningRate != usual.LearningRate || own.Momentum != usual.Momentum {
		v := variant{why: result.DefaultRate, solver: own}
		v.solver.LearningRate, v.solver.Momentum = usual.LearningRate, usual.Momentum
		all = append(all, v)
	}
	inner := study.Inner
	if own.Method != control.MSA {
		inner = nil
	}
	return slices.Concat(all,
		tried(result.SetRegularization, own, study.Regularization,
			func(s *control.Solver) *float64 { return &s.Regularization }),
		tried(result.SetOuter, own, study.Outer, func(s *control.Solver) *int { return &s.Outer }),
		tried(result.SetInner, own, inner, func(s *control.Solver) *int { return &s.Inner }),
		tried(result.SetLearningRate, own, study.LearningRate,
			func(s *control.Solver) *float64 { return &s.LearningRate }),
		tried(result.SetMomentum, own, study.Momentum, func(s *control.Solver) *float64 { return &s.Momentum }))
}

// tried are a solver's variants with values of one setting, its own among them.
func tried[T int | float64](why string, own control.Solver, values []T, of func(*control.Solver) *T) (all []variant) {
	if len(values) == 0 {
		return nil
	}
	values = append([]T{*of(&own)}, values...)
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		s := own
		*of(&s) = v
		all = append(all, variant{why, float64(v), s})
	}
	return all
}
