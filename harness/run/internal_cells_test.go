package run

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/certify"
	"selfheal/harness/config"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/checksum"
	"selfheal/internal/journal"
	"selfheal/internal/must"
)

// Answers to clean images that are no numbers are an error that names the first.
func TestNotFinite(t *testing.T) {
	o, b := bench(t)
	must.Do(t, b.Net.AnsweredBy(&probedFile{on: b.Net, adds: math.NaN()}))
	j, _, err := journal.Open(t.TempDir())
	must.Do(t, err)
	r := &run{Opener: o, ctx: t.Context()}
	r.journal = &folder.Journal{Journal: j}
	_, err = r.judge(folder.Key{Of: "verdicts"}, open.Alone(b.Net), b.Set, untouched(), nil, false)
	if out := (open.NotFinite{}); !errors.As(err, &out) || out.Image != b.Set.ID(0) {
		t.Error(err)
	}
}

// certain is a certificate without content.
type certain struct{ certify.Proof }

func (certain) Tell(int, *result.Record) {}

// Records of a network that draws random numbers have votes, unless an image is certified.
func TestVotesOfRecords(t *testing.T) {
	_, b := bench(t)
	for _, c := range []struct {
		votes int
		proof certify.Proof
		want  bool
	}{{0, nil, false}, {20, nil, true}, {20, certain{}, false}} {
		model, one := *b.Model, *b.Job
		model.Votes, one.Model = c.votes, &model
		s := scoring{Job: &open.Job{Job: &one, Set: b.Set}, made: &crafted{proof: c.proof}}
		for r := range records(result.Cell{Verdicts: "1"}, s, []judge.Verdict{{Right: true, Votes: 15}}) {
			if (r.Votes != nil) != c.want || c.want && *r.Votes != 15 {
				t.Errorf("%+v: votes %v", c, r.Votes)
			}
		}
	}
}

// A file has a checksum if it has the same bytes, and as many.
func TestChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	c := Checksum{3, checksum.Of([]byte("abc"))}
	for text, want := range map[string]bool{"abc": true, "abd": false, "ab": false, "abcd": false} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if c.Is(path) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
	if c.Is(path + "s") {
		t.Error("no file is as it was written")
	}
}

// A component's work is the most passes that its images take.
func TestWork(t *testing.T) {
	o, _ := bench(t)
	s := attacks.Setup{Kind: "autoattack", Version: "standard"}
	all, want := must.Get(s.Make(0.1, 10))(t).Components, int64(0)
	w := &crafting{run: &run{Opener: o}, on: &open.Oracle{Oracle: &classes{}}, own: 9, crafted: &crafted{}, standing: 7}
	for _, c := range all {
		f, b := c.Passes(10)
		want += 5 * int64(f+b)
	}
	of := w.work(make([]int, 5), &open.Counted{Oracle: w.on}, all)
	if of.Passes != want || of.Images != 5 || of.N != 9 || of.Standing != 7 {
		t.Errorf("%+v, want %v passes", of, want)
	}
}

// A further seed adds to the cell with its identity.
func TestCellOf(t *testing.T) {
	s := scoring{Job: &open.Job{Job: &plan.Job{Suite: &config.Suite{Name: "s"}, Model: &config.Model{Name: "m"}}},
		Trial: trialsOf(t, "a", 0.1)[0]}
	c := &cells{record: &result.File{Cells: []result.Cell{{}, {ID: s.id()}, {}}}}
	if c.of(s) != &c.record.Cells[1] || (*cells)(nil).of(s) != nil {
		t.Errorf("the cell is %+v", c.of(s))
	}
}
