package run

import (
	"maps"
	"slices"

	"selfheal/control"
	"selfheal/harness/open"
	"selfheal/harness/result"
	"selfheal/internal/number"
)

// traced: record the solver's sweeps for the first 8 images of each cell. Each sweep costs
// such an image a pass more.
const traced = 8

// judgement is a classifier's verdicts on images, and how long it took to get them.
type judgement struct {
	verdicts []verdict // without their Loop
	loops    loops     // empty for a network alone
	seconds  float64
}

// loops are the numbers of a closed loop on each image of a set. They stay in memory for as many images as there are,
// so they are numbers in a row and nothing else.
type loops struct {
	stages []int     // of the layers
	rows   []float64 // for each image objective, greedy, norm, and each layer's norm and loss
	sweeps [traced][]number.Any
}

// newJudgement makes room for the verdicts on n images.
func newJudgement(n int, who open.Info) *judgement {
	j := &judgement{verdicts: make([]verdict, n)}
	if c := who.Control; c != nil {
		j.loops.stages = slices.Sorted(maps.Keys(c.Places))
		j.loops.rows = make([]float64, n*j.loops.width())
	}
	return j
}

// width is how many numbers a row has.
func (l *loops) width() int { return 3 + 2*len(l.stages) }

// row is the i-th image's; empty for a network alone.
func (l *loops) row(i int) []float64 {
	if l.rows == nil {
		return nil
	}
	return l.rows[i*l.width():][:l.width()]
}

// fits reports whether a verdict has the numbers of the loop.
func (l *loops) fits(v verdict) bool {
	return v.Broken || l.rows == nil || v.Loop != nil && len(v.Loop.Layers) == len(l.stages)
}

// take takes in the i-th image's verdict, which fits.
func (j *judgement) take(i int, v verdict) {
	if s := v.Loop; s != nil && j.loops.rows != nil {
		row := append(j.loops.row(i)[:0], s.Objective, s.Greedy, s.Norm)
		for _, l := range s.Layers {
			row = append(row, l.Norm, l.Loss)
		}
		if i < traced {
			j.loops.sweeps[i] = s.Sweeps
		}
	}
	v.Loop = nil
	j.verdicts[i] = v
}

// same takes in the i-th image's verdict as another judgement has it.
func (j *judgement) same(i int, as *judgement) {
	j.verdicts[i] = as.verdicts[i]
	copy(j.loops.row(i), as.loops.row(i))
	if i < traced {
		j.loops.sweeps[i] = as.loops.sweeps[i]
	}
}

// summary reports how the closed loop did over a cell's images.
func (l *loops) summary(c *open.ControlInfo) *result.Solver {
	s := &result.Solver{Method: c.Solver.Method.String(), PassesPerRun: c.Passes}
	n := float64(len(l.rows) / l.width())
	costs := make([]control.LayerCost, len(l.stages))
	for row := range slices.Chunk(l.rows, l.width()) {
		objective, greedy := row[0], row[1]
		s.Objective += objective
		s.Greedy += greedy
		s.ControlNorm += row[2]
		if objective < greedy {
			s.BelowGreedy++
		}
		for i := range costs {
			costs[i].Norm += row[3+2*i] / n
			costs[i].Loss += row[4+2*i] / n
		}
	}
	s.Objective, s.Greedy, s.ControlNorm, s.BelowGreedy = s.Objective/n, s.Greedy/n, s.ControlNorm/n, s.BelowGreedy/n
	for i, t := range l.stages {
		costs[i].T = t
	}
	s.Layers = c.Layers(costs)
	s.Sweeps, s.Traced = l.meanSweeps()
	return s
}

// meanSweeps is the mean objective at the greedy start and after each sweep, over the
// images that were followed, and how many these are; nil where there are none, or where the
// solver did not stay finite on the way.
func (l *loops) meanSweeps() (means []float64, n int) {
	for _, sweeps := range l.sweeps {
		if sweeps == nil {
			break
		}
		n++
		if means == nil {
			means = make([]float64, len(sweeps))
		}
		for k, sweep := range sweeps {
			means[k] += float64(sweep)
		}
	}
	for k := range means {
		if means[k] /= float64(n); !number.Finite(means[k]) {
			return nil, 0
		}
	}
	return means, n
}
