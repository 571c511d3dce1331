package result

import (
	"testing"

	"selfheal/internal/must"
)

func TestCheckRecords(t *testing.T) {
	t.Parallel()
	epsilon := 0.5
	f := &File{Cells: []Cell{{Suite: "s", Model: "m", Defense: "none", Attack: "none", N: 2, Verdicts: "11"},
		{Suite: "s", Model: "m", Defense: "none", Attack: "pgd", Epsilon: &epsilon, N: 2, Verdicts: "10"}}}
	record := func(attack string, epsilon *float64, verdict int) Record {
		return Record{Suite: "s", Model: "m", Defense: "none", Attack: attack, Epsilon: epsilon, Verdict: verdict}
	}
	good := []Record{record("none", nil, 1), record("none", nil, 1), record("pgd", &epsilon, 1), record("pgd", &epsilon,
		0)}
	for _, c := range []struct {
		records []Record
		want    string // "" for none
	}{
		{good, ""},
		{good[:3], "the records have 1 images"},
		{append(good[:3:3], good[2]), "other verdicts than the cell's 2"},
		{append(good[:4:4], record("fgsm", &epsilon, 1)), ""},
		{nil, `attack "none": the records have 0 images`},
	} {
		if err := f.CheckRecords(c.records); c.want == "" {
			must.Do(t, err)
		} else {
			must.Refuse(t, err, c.want)
		}
	}
}
