package open_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/open"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// A run with too little memory for the wanted batch says so, takes a smaller one and has the same verdicts.
// results.json has the batch that was used.
func TestRunFitsIntoMemory(t *testing.T) {
	testinput.Runtime(t)
	defer open.ResetMemory()
	var verdicts [2][]string
	for i, free := range []int64{1 << 40, 1} {
		open.SetMemory(func() (int64, bool) { return free, true }, func() int64 { return 0 })
		p := testplan.Plan(t, testplan.Small, 2, 16, "suites.small.attacks=[pgd-l2]",
			"suites.small.controls=[auto-encoder]")
		var said bytes.Buffer
		f := must.Get(run.Run(context.Background(), p, run.Options{Out: t.TempDir(),
			Progress: progress.New(&said, progress.TextLog, false)}))(t)
		if want := []int{16, 1}[i]; f.Environment.Batch != want {
			t.Errorf("batch %d with %d bytes free", f.Environment.Batch, free)
		}
		if strings.Contains(said.String(), "batch 1 instead of 16: 1 B are free, ") != (i == 1) {
			t.Errorf("with %d bytes free it said\n%s", free, &said)
		}
		verdicts[i] = verdictsOf(f.Cells)
	}
	if !slices.Equal(verdicts[0], verdicts[1]) {
		t.Errorf("verdicts %q, with less memory %q", verdicts[0], verdicts[1])
	}
}

func verdictsOf(cells []result.Cell) (all []string) {
	for _, c := range cells {
		all = append(all, c.Verdicts)
	}
	return all
}
