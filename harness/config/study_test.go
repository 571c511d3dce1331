package config

import (
	"reflect"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// study puts a solver study into the suite of small, which has two more controls.
func study(text string) string {
	s := strings.Replace(small, "attacks:\n",
		`  fast: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: identity}}]}
  slow: {solver: {method: pmp, outer: 30}, layers: [{at: input, embedding: {kind: identity}}]}
attacks:
  weak: {kind: pgd, norm: linf, epsilon: 1/255}
  many: {kind: pgd, norm: linf, epsilon: [1/255, 2/255]}
`, 1)
	s = strings.Replace(s, "controls: [pca]", "controls: [pca, fast]", 1)
	return strings.Replace(s, "attacks: [aa-linf]}", "attacks: [aa-linf]"+text+"}", 1)
}

func TestSolverStudy(t *testing.T) {
	for text, want := range map[string]*SolverStudy{
		"":             nil,
		", solver: {}": {Images: 20, Models: []string{"net"}, Controls: []string{"pca"}},
		", solver: {images: 7, models: [net], controls: [slow, pca], attack: weak, regularization: [0, 1/1000], " +
			"outer: [1, 5], inner: 3, learning_rate: [0.1], momentum: [0, 0.9]}": {
			Images: 7, Models: []string{"net"}, Controls: []string{"slow", "pca"}, Attack: "weak",
			Regularization: []float64{0, 0.001},
			Outer:          []int{1, 5}, Inner: []int{3}, LearningRate: []float64{0.1}, Momentum: []float64{0, 0.9}},
	} {
		c := mustParse(t, study(text))
		if got := c.Suites[0].Solver; !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	}
}

// The models and controls of a study are part of the selection; defaults that are written out leave the hash.
func TestSolverStudyIsSelectedAndHashed(t *testing.T) {
	part := must.Get(mustParse(t, study(", solver: {controls: [slow], attack: weak}")).Selected(nil))(t)
	if part.Control("slow") == nil || part.Attack("weak") == nil || part.Attack("many") != nil {
		t.Errorf("selected: %+v %+v", part.Controls, part.Attacks)
	}
	if hash(t, study(", solver: {}"), 0) != hash(t, study(", solver: {images: 20, models: [net], controls: [pca]}"),
		0) {
		t.Error("defaults that are written out change the hash")
	}
}

func TestSolverStudyErrors(t *testing.T) {
	for text, want := range map[string]string{
		"solver: {method: msa}":                  `92 unknown key "method" in suites.main.solver known keys`,
		"solver: {outer: [0]}":                   `100 suites.main.solver.outer[0] whole number from 1 up "0"`,
		"solver: {inner: [1, 2, 1]}":             `106 suites.main.solver.inner[2] "1" twice`,
		"solver: {momentum: [0.5, 1]}":           `108 suites.main.solver.momentum[1] below 1 "1"`,
		"solver: {momentum: [1/2, 0.5]}":         `108 suites.main.solver.momentum[1] "0.5" twice`,
		"solver: {controls: [pac]}":              `103 suites.main.solver.controls[0] names "pac" mean "pca"`,
		"solver: {controls: [fast]}":             `103 suites.main.solver.controls[0] fast makes no sweeps`,
		"solver: {controls: [none]}":             `103 suites.main.solver.controls[0] none makes no sweeps`,
		"solver: {controls: []}":                 `102 suites.main.solver.controls empty`,
		"solver: {controls: [slow], inner: [1]}": `117 suites.main.solver.inner no control's method has inner steps`,
		"solver: {models: [other]}":              `101 suites.main.solver.models[0] names "other" defined: net`,
		"solver: {attack: none}":                 `100 suites.main.solver.attack clean images are always studied`,
		"solver: {attack: many}":                 `100 suites.main.solver.attack many has 2 epsilons`,
		"solver: {attack: week}":                 `100 suites.main.solver.attack names "week" mean "weak"`,
	} {
		_, err := parse(study(", " + text))
		checkError(t, text, err, "27:"+want)
	}
	// A model that the suite does not score, and a suite in which nothing is solved.
	two := strings.Replace(study(", solver: {models: [net, second]}"), "models:\n",
		"models:\n  second: {path: second.onnx}\n", 1)
	_, err := parse(two)
	must.Refuse(t, err, `suites.main.solver.models[1]: "second" is none of the suite's models (net)`)
	_, err = parse(study(", solver: {}"), "suites.main.controls=[fast]")
	must.Refuse(t, err, "no control of the suite has a method that makes sweeps")
}
