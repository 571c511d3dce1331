package harness

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
	type solver = control.Solver
	for _, sweep := range []struct {
		why    string
		values []float64
		of     float64
		set    func(s *solver, v float64)
	}{
		{result.SetRegularization, study.Regularization, own.Regularization,
			func(s *solver, v float64) { s.Regularization = v }},
		{result.SetOuter, wide(study.Outer), float64(own.Outer), func(s *solver, v float64) { s.Outer = int(v) }},
		{result.SetInner, wide(study.Inner), float64(own.Inner), func(s *solver, v float64) { s.Inner = int(v) }},
		{result.SetLearningRate, study.LearningRate, own.LearningRate,
			func(s *solver, v float64) { s.LearningRate = v }},
		{result.SetMomentum, study.Momentum, own.Momentum, func(s *solver, v float64) { s.Momentum = v }},
	} {
		if len(sweep.values) == 0 || sweep.why == result.SetInner && own.Method != control.MSA {
			continue
		}
		values := append([]float64{sweep.of}, sweep.values...)
		slices.Sort(values)
		for _, v := range slices.Compact(values) {
			s := own
			sweep.set(&s, v)
			all = append(all, variant{sweep.why, v, s})
		}
	}
	return all
}

func wide(list []int) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = float64(v)
	}
	return out
}
