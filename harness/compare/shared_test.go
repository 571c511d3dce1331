package compare

import (
	"testing"

	"selfheal/harness/result"
)

// In a suite of several modes the clean images have one cell. Lines of every attacker have it.
func TestCleanOfEveryMode(t *testing.T) {
	through := under("a", "k", result.WhiteboxThrough, "1111", "1000")[1:]
	run := runOf("one", from(0, 4), under("a", "k", result.Oblivious, "1110", "1100"), through)
	run.File.Suites = []result.Suite{{Name: "s", Modes: []string{result.Oblivious, result.WhiteboxThrough}}}
	c, err := Of([]Run{run})
	if err != nil {
		t.Fatal(err)
	}
	g := c.Groups[0]
	if len(g.Entries) != 2 || g.Columns[0].Entries != 2 || g.Columns[1].Entries != 2 {
		t.Fatalf("%d lines, columns %+v", len(g.Entries), g.Columns)
	}
	for _, e := range g.Entries {
		if s := e.Cells[0].Score; s == nil || s.Correct != 3 {
			t.Errorf("%s: clean %+v", e.Attacker, e.Cells[0])
		}
	}
}
