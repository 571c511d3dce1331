package plan

import (
	"fmt"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
)

// certificate is a trial that proves something of every classifier. Its key has no mode: a proof holds against every
// attacker.
type certificate struct {
	attack
	proof attacks.Proof
}

func (certificate) Of(g Group) []string      { return g.Scored }
func (c certificate) Random() bool           { return c.proof.Random }
func (c certificate) Exact() bool            { return c.proof.Exact }
func (certificate) Kept(bool) bool           { return false }
func (certificate) Crafted() bool            { return false }
func (certificate) Do(m Maker, s Step) error { return m.Certify(s) }

func (c certificate) Epsilon() cell.Epsilon {
	if attacks.Brackets(c.setting.Kind) {
		return 0
	}
	return c.attack.Epsilon()
}

func (c certificate) Key(r cell.Row, _ string, seed uint64) cell.Made {
	epsilon := float64(c.Epsilon())
	if c.proof.Spans {
		epsilon = c.setting.Epsilons[0]
	}
	return madeOf(r, c.Name(), epsilon, seed)
}

func (c certificate) Describe() (result.Attack, error) {
	known, err := c.attack.Describe()
	if known.Epsilons == nil {
		known.Epsilons = []float64{}
	}
	return known, err
}

// Samples returns how many answers the certificate takes of its classifier, once for all epsilons.
func (c certificate) Samples() int64 {
	if c.proof.Spans && c.epsilon != c.setting.Epsilons[0] {
		return 0
	}
	return int64(c.proof.Samples)
}

func (c certificate) Cost(forward, _ int64, count func(int64) string) string {
	if !strings.Contains(c.proof.Cost, "%s") {
		return c.proof.Cost
	}
	return fmt.Sprintf(c.proof.Cost, count(forward))
}
