package harness

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/memory"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// Where the memory is too small for the batch that was asked for, a run says so, takes a smaller one and
// comes to the same verdicts; results.json has the batch that was used.
func TestRunFitsIntoMemory(t *testing.T) {
	testinput.Runtime(t)
	defer func() { freeMemory, residentMemory = memory.Free, memory.Resident }()
	residentMemory = func() int64 { return 0 }
	var verdicts [2][]string
	for i, free := range []int64{1 << 40, 1} {
		freeMemory = func() (int64, bool) { return free, true }
		p := plan(t, small, 2, 16, "suites.small.attacks=[pgd-l2]", "suites.small.controls=[auto-encoder]")
		var said bytes.Buffer
		f := must.Get(Run(context.Background(), p, Options{Out: t.TempDir(),
			Progress: NewProgress(&said, TextLog, false)}))(t)
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
