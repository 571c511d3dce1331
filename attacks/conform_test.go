package attacks

import (
	"slices"
	"testing"
)

// row is an attack with the results it must reach beyond the rules of conform.
type row struct {
	Kind       string
	Parameters map[string]any
	// Component makes the attack as one of AutoAttack's instead of on its own.
	Component bool
	Norms     []Norm // the norms to try; nil: all
	Classes   int    // of the test models; 0: 5
	// Breaks is the fraction of the breakable images that the attack must break on a linear model. An image is
	// breakable if its distance to a boundary is at most 90 % of epsilon; 75 % in ℓ1, where gradient steps spread over
	// several values.
	Breaks float64
	// Reach says by which factor epsilon must exceed an image's distance to the
	// boundary of a linear model for the attack to break it, in ℓ∞, ℓ2, ℓ1 and ℓ0; 0 is 1.01.
	Reach [4]float64
	// Exact is set if the attack finds the nearest point over all classes: on a linear model Distance must be at most 1
	// % too large.
	Exact bool
	// Seedless is set if the seed does not change the result.
	Seedless bool
}

// conforming is the table of attacks that conform. A new attack adds a row.
var conforming = []row{
	{Kind: "apgd-ce", Parameters: given{"restarts": 5}, Classes: 2, Breaks: 1},
	{Kind: "apgd-ce", Parameters: given{"large_radii": true}, Norms: []Norm{L1}, Classes: 2, Breaks: 1},
	{Kind: "apgd-ce", Parameters: given{"from_clean": true}, Norms: []Norm{L1}, Classes: 2, Breaks: 1, Seedless: true,
		Reach: [4]float64{L1: 1.4}},
	{Kind: "apgd-ce", Parameters: given{"eot_iter": 3, "steps": 30, "restarts": 3}, Classes: 2, Breaks: 1},
	{Kind: "apgd-dlr", Parameters: given{"restarts": 5}, Classes: 3, Breaks: 1},
	{Kind: "apgd-dlr", Parameters: given{"loss": "margin", "restarts": 5}, Classes: 2, Breaks: 1},
	{Kind: "apgd-t", Parameters: given{"restarts": 3}, Breaks: 1},
	{Kind: "apgd-t", Parameters: given{"loss": "ce-targeted", "steps": 30}, Breaks: 1,
		Reach: [4]float64{1.3, 1.4, 1.6}}, // its maximum is not the point furthest beyond the target's boundary
	{Kind: "apgd-t", Parameters: given{"loss": "logit-difference", "restarts": 3}, Classes: 3, Breaks: 1},
	{Kind: "fab", Parameters: given{"steps": 30}, Breaks: 1, Exact: true, Seedless: true},
	{Kind: "fab-t", Parameters: given{"steps": 40}, Breaks: 1, Exact: true, Seedless: true},
	{Kind: "fab-t", Parameters: given{"steps": 40}, Component: true, Breaks: 1, Seedless: true},
	{Kind: "square", Parameters: given{"queries": 300}, Breaks: 0.2, Reach: [4]float64{4, 6, 4}},
	{Kind: "pgd", Classes: 2, Breaks: 1,
		Reach: [4]float64{0, 1.1, 1.6}}, // the default steps don't lead all the way round the ball in ℓ2 and ℓ1
	{Kind: "pgd", Parameters: given{"steps": 40, "schedule": "linear", "loss": "margin", "step_size": 0.25}, Classes: 2,
		Breaks: 1},
	{Kind: "pgd", Parameters: given{"steps": 40, "schedule": "cosine", "restarts": 2, "step_size": 0.25}, Classes: 2,
		Breaks: 1},
	{Kind: "fgsm", Classes: 2, Breaks: 1, Seedless: true},
	{Kind: "deepfool", Breaks: 1, Seedless: true, Reach: [4]float64{1.05, 1.05}}, // it overshoots
	{Kind: "mi-fgsm", Classes: 2, Breaks: 1, Seedless: true},
	{Kind: "bisection", Breaks: 1, Exact: true},
	{Kind: "bisection", Parameters: given{"loss": "margin", "restarts": 2}, Classes: 2, Breaks: 1, Exact: true},
	{Kind: "ddn", Parameters: given{"steps": 200}, Classes: 2, Breaks: 1, Seedless: true},
	{Kind: "ddn", Parameters: given{"steps": 60, "refine": 12}, Classes: 2, Breaks: 1, Exact: true, Seedless: true},
	{Kind: "fmn", Parameters: given{"steps": 200}, Classes: 2, Breaks: 1, Seedless: true, Reach: [4]float64{L0: 2}},
	{Kind: "pdpgd", Parameters: given{"steps": 200}, Classes: 2, Breaks: 1, Seedless: true,
		Reach: [4]float64{1.35, 1.35, 1.35}},
	{Kind: "sigma-zero", Parameters: given{"steps": 200}, Classes: 2, Breaks: 1, Seedless: true,
		Reach: [4]float64{L0: 1.5}},
	{Kind: "hop-skip-jump", Parameters: given{"queries": 2000}, Classes: 2, Breaks: 0.9, Reach: [4]float64{2, 1.3}},
	{Kind: "rays", Parameters: given{"queries": 1500}, Classes: 2, Breaks: 0.9, Seedless: true, Reach: [4]float64{1.3}},
}

// TestConformance runs every attack through the suite.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, row := range conforming {
		t.Run(row.Kind, func(t *testing.T) { conform(t, row) })
	}
	for _, s := range Specs {
		if s.Versions == nil && !s.proves && !s.free &&
			!slices.ContainsFunc(conforming, func(r row) bool { return r.Kind == s.Kind }) {
			t.Errorf("%s has no row in the table of conforming attacks", s.Kind)
		}
	}
}
