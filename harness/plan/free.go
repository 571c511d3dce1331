package plan

import (
	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// free is an attack without norm and epsilon. If it has several sides, cells are called NAME:4.
type free struct {
	attack
	all    *config.Attack // the setting with all its sides
	within Ball           // moved images may lie anywhere: craft checks their poses
}

func (free) Epsilon() cell.Epsilon { return 0 }
func (free) Norm() *string         { return nil }

func (f free) Within() Ball { return f.within }

func (f free) Key(r cell.Row, mode string, seed uint64) cell.Made {
	k := f.attack.Key(r, mode, seed)
	k.Epsilon = 0
	return k
}

func (f free) Describe() (result.Attack, error) {
	known, err := attack{f.all, f.epsilon}.Describe()
	known.Norm, known.Epsilons = nil, []float64{}
	if f.all.Sides != nil {
		known.Parameters[attacks.SideName] = f.all.Sides
	}
	return known, err
}
