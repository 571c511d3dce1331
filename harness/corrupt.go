package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selfheal/attacks"
	"selfheal/attacks/corruption"
	"selfheal/harness/result"
)

// corrupted are the images of a set as a corruption leaves them, under a seed. Nothing is crafted: every classifier
// is asked about the same pixels, which are made again each time.
func corrupted(a PlannedAttack, seed uint64) *crafted {
	c := *a.corruption()
	return &crafted{steps: []result.Step{}, within: a.limit(), corrupt: func(im attacks.Image) ([]float32, error) {
		x, err := c.Apply(im, seed)
		if err != nil {
			err = fmt.Errorf("image %d: %w", im.ID, err)
		}
		return x, err
	}}
}

// described is what results say of corruptions.
func described(list []attacks.Corruption) result.Attack {
	var names []string
	var severities []int
	for _, c := range list {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
		if !slices.Contains(severities, c.Severity) {
			severities = append(severities, c.Severity)
		}
	}
	words := make([]string, len(severities))
	for i, s := range severities {
		words[i] = strconv.Itoa(s)
	}
	what := fmt.Sprintf("%d of %d", len(names), len(corruption.Names()))
	if len(names) == len(corruption.Names()) {
		what = fmt.Sprintf("all %d", len(names))
	}
	return result.Attack{Kind: attacks.CorruptionKind, Recipe: attacks.CorruptionRecipe, Epsilons: []float64{},
		Title:      fmt.Sprintf("%s corruptions, severities %s", what, strings.Join(words, ", ")),
		Parameters: result.Parameters{"names": names, "severities": severities}}
}
