package plan

import (
	"fmt"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
)

// kinds make the trials of a setting at one epsilon. Every kind that is not listed is an attack.
var kinds = map[string]func(attack) Trial{
	attacks.SmoothingKind: func(a attack) Trial { return smoothing{certificate{a}} },
	attacks.BoundsKind:    func(a attack) Trial { return bounds{certificate{a}} },
	attacks.BracketKind:   func(a attack) Trial { return bracket{bounds{certificate{a}}} },
}

// certificate is proven of every classifier. Its key has no mode: a proof holds against every attacker.
type certificate struct{ attack }

func (certificate) Of(g Group) []string      { return g.Scored }
func (certificate) Exact() bool              { return false }
func (certificate) Kept(bool) bool           { return false }
func (certificate) Crafted() bool            { return false }
func (certificate) Do(m Maker, s Step) error { return m.Certify(s) }

func (c certificate) Key(j *Job, defense string, seed uint64) cell.Made {
	return j.made(defense, c.Name(), c.epsilon, seed)
}

// bounds prove, in one computation in which nothing is random, that no image of a ball is answered otherwise.
type bounds struct{ certificate }

func (bounds) Random() bool { return false }
func (bounds) Exact() bool  { return true } // the bounds are of the network that is judged

func (bounds) Cost(int64, int64, func(int64) string) string {
	return "no passes, bounds for each defense"
}

// bracket tells of each image what it withstands. Its cells have a norm and no epsilon.
type bracket struct{ bounds }

func (bracket) Epsilon() cell.Epsilon { return 0 }

func (b bracket) Key(j *Job, defense string, seed uint64) cell.Made {
	k := b.bounds.Key(j, defense, seed)
	k.Epsilon = 0
	return k
}

func (b bracket) Describe() (result.Attack, error) {
	known, err := b.bounds.Describe()
	if known.Epsilons == nil {
		known.Epsilons = []float64{}
	}
	return known, err
}

func (b bracket) Cost(int64, int64, func(int64) string) string {
	return fmt.Sprintf("%v for each image and defense", b.setting.Parameters["budget"])
}

// smoothing proves something of the classifier's majority under noise, for all its epsilons from the same answers.
type smoothing struct{ certificate }

func (s smoothing) Key(j *Job, defense string, seed uint64) cell.Made {
	k := s.certificate.Key(j, defense, seed)
	k.Epsilon = cell.Epsilon(s.setting.Epsilons[0])
	return k
}

// Samples is how many answers the majority is asked for, once for all epsilons.
func (s smoothing) Samples() int64 {
	if how, err := s.method(); err == nil && s.epsilon == s.setting.Epsilons[0] {
		return int64(how.N0)
	}
	return 0
}

func (s smoothing) method() (attacks.Smoothing, error) {
	r, err := s.setting.Make(s.epsilon, AssumedClasses)
	how, _ := r.Certificate.(attacks.Smoothing)
	return how, err
}

func (s smoothing) Cost(forward, _ int64, count func(int64) string) string {
	text := count(forward) + " forward for each defense"
	if how, _ := s.method(); how.Stopping {
		text = "at most " + text
	}
	return text
}
