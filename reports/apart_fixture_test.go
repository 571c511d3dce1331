package reports

import (
	"math"

	"selfheal/harness/cell"
	"selfheal/harness/result"
)

// transferFile has an attack at two epsilons between two networks, with and without a control. A network gets none
// of the four images right on its own images and two on the other's; the control gets one more right.
func transferFile() *result.File {
	linf, models := "linf", []string{"mine", "theirs"}
	f := &result.File{Attacks: map[string]result.Attack{"pgd": {Kind: "pgd", Recipe: "pgd/1", Title: "PGD-20",
		Norm: &linf, Epsilons: []float64{4. / 255, 8. / 255}}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Transfer, Models: models,
			Controls: []string{"heal"}, Attacks: []string{"pgd"}}}}
	add := func(model, defense, source string, epsilon float64, right int) {
		id := cell.Of("s", model, defense, "none", 0).In("d", result.Transfer)
		c := result.Cell{ID: id}.Judged(verdicts(4, right, 0))
		if source != "" {
			c.Attack, c.Source, c.Norm, c.Epsilon, c.Recipe = "pgd", source, &linf, cell.Epsilon(epsilon), "pgd/1"
			if source == model && defense == "none" {
				c.Steps = []result.Step{{Attack: "pgd", Attacked: 4, Robust: c.Accuracy, Forward: 80, Backward: 80}}
			}
		}
		f.Cells = append(f.Cells, c)
	}
	for _, m := range models {
		for i, defense := range []string{"none", "heal"} {
			add(m, defense, "", 0, 4-i)
			for _, source := range models {
				for _, e := range f.Attacks["pgd"].Epsilons {
					right := i
					if source != m {
						right += 2
					}
					add(m, defense, source, e, right)
				}
			}
		}
	}
	return f
}

// bracketFile has a bracket on four images of a network, one of them wrong and one never broken, with two columns, and
// its records.
func bracketFile() (*result.File, []result.Record) {
	linf := "linf"
	f := &result.File{Attacks: map[string]result.Attack{"between": {Kind: "bracket", Recipe: "bracket/1",
		Title: "Bracket, 10s an image", Norm: &linf, Epsilons: []float64{2. / 255, 4. / 255},
		Parameters: result.Parameters{"budget": "10s"}}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Whitebox, Models: []string{"m"},
			Attacks: []string{"between"}}}}
	for _, attack := range []string{"none", "between"} {
		c := result.Cell{ID: cell.Of("s", "m", "none", attack, 0).In("d", result.Whitebox)}.Judged("1101")
		if attack != "none" {
			c.Norm, c.Area, c.Recipe = &linf, new(0.25), "bracket/1"
			c.Brackets = []result.Bracket{{Epsilon: 2. / 255, Proven: 2, Left: 3}, {Epsilon: 4. / 255, Left: 2}}
		}
		f.Cells = append(f.Cells, c)
	}
	var all []result.Record
	for i, proven := range []float64{2. / 255, 3. / 255, 0, 1. / 255} {
		broken := result.Distance([]float64{6. / 255, 3.5 / 255, 0, math.Inf(1)}[i])
		all = append(all, result.Record{ID: cell.Of("s", "m", "none", "between", 0), Image: i,
			Verdict: int(f.Cells[1].Verdicts[i] - '0'), Proven: new(proven), Broken: &broken})
	}
	return f, all
}
