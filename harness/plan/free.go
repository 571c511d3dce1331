package plan

import (
	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// free is an attack without norm and epsilon. Cells of several sides are called NAME:4.
type free struct {
	attack
	all *config.Attack // the setting with all its sides
}

func (free) Epsilon() cell.Epsilon { return 0 }
func (free) Norm() *string         { return nil }

// Within is the square of a patch, and anywhere among images for moved ones, which craft holds to their poses.
func (f free) Within() Ball {
	side, _ := f.setting.Parameters[attacks.SideName].(int)
	return Ball{Norm: attacks.Linf, Epsilon: f.epsilon, Side: side}
}

func (f free) Key(j *Job, defense string, seed uint64) cell.Made {
	k := f.attack.Key(j, defense, seed)
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
