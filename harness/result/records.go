package result

import "fmt"

// recordKey identifies a cell of records.jsonl.
type recordKey struct {
	suite, model, defense, attack string
	epsilon                       float64 // 0 for clean images
}

// CheckRecords is an error for records that disagree with their cells: every cell has one an
// image, in the order of its verdicts, with the same verdicts. Records without a cell are those
// of a run that was killed before it wrote its results.
func (f *File) CheckRecords(records []Record) error {
	value := func(epsilon *float64) float64 {
		if epsilon == nil {
			return 0
		}
		return *epsilon
	}
	verdicts := map[recordKey][]byte{}
	for _, r := range records {
		k := recordKey{r.Suite, r.Model, r.Defense, r.Attack, value(r.Epsilon)}
		verdicts[k] = append(verdicts[k], '0'+byte(r.Verdict))
	}
	for _, c := range f.Cells {
		k := recordKey{c.Suite, c.Model, c.Defense, c.Attack, value(c.Epsilon)}
		if got := string(verdicts[k]); got != c.Verdicts {
			return fmt.Errorf("suite %q, model %q, defense %q, attack %q: the records have %d images "+
				"with other verdicts than the cell's %d",
				c.Suite, c.Model, c.Defense, c.Attack, len(got), c.N)
		}
	}
	return nil
}
