package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

// The exact test of McNemar by hand: one of two entries alone is right on d images, and k of them are one entry's; p
// is twice the sum of the binomial coefficients up to min(k, d − k), over 2^d.
func TestTests(t *testing.T) {
	all := strings.Repeat("1", 20)
	a := runOf("a", from(0, 20), net("strong", all, all))
	b := runOf("b", from(0, 20), net("middle", all, strings.Repeat("0", 6)+all[:14]))
	c := runOf("c", from(0, 20), net("weak", all, all[:5]+strings.Repeat("0", 15)))
	g := must.Get(Of([]Run{c, a, b}))(t).Groups[0]
	for i, want := range []struct {
		model string
		right int
		open  [2]int
	}{{"strong", 20, [2]int{1, 2}}, {"middle", 14, [2]int{1, 3}}, {"weak", 5, [2]int{2, 3}}} {
		e := g.Entries[i]
		if e.Model != want.model || e.Rank != i+1 || e.Worst.Correct != want.right || e.Open != want.open {
			t.Errorf("rank %d is %s with %d right and ranks %v", e.Rank, e.Model, e.Worst.Correct, e.Open)
		}
	}
	for _, want := range []struct {
		a, b, onlyA, onlyB int
		p, holm            float64
	}{
		{0, 1, 6, 0, 2. / 64, 2. / 32},
		{0, 2, 15, 0, 2. / 32768, 6. / 32768},
		// 14 of middle alone, 5 of weak alone: 2·Σ C(19, 0…5)/2^19
		{1, 2, 14, 5, 2 * 16664. / 524288, 2 * 16664. / 524288},
	} {
		got := pairOf(g, want.a, want.b).Robust
		if got == nil || got.Shared != 20 || got.OnlyA != want.onlyA || got.OnlyB != want.onlyB ||
			math.Abs(got.P-want.p) > 1e-12 || math.Abs(got.Holm-want.holm) > 1e-12 ||
			got.Significant != (want.holm <= 0.05) ||
			math.Abs(got.Difference-float64(want.onlyA-want.onlyB)/20) > 1e-12 {
			t.Errorf("%d and %d: %+v, want %+v", want.a, want.b, got, want)
		}
	}
	if p := pairOf(g, 0, 1).Clean; p == nil || p.P != 1 || p.Shared != 20 {
		t.Errorf("equal verdicts on clean images: %+v", p)
	}
}

// Images are shared by id and checksum, whatever part of a set a run has; other sets are other groups.
func TestImages(t *testing.T) {
	one := func(folder string, ids []int) Run {
		v := strings.Repeat("10", len(ids)/2)
		return runOf(folder, ids, net("m", v, v))
	}
	shuffled := []int{7, 3, 5, 1}
	elsewhere := one("elsewhere", from(40, 4))
	changed := one("changed", from(0, 4)) // other pixels under the same ids
	changed.File.Images = map[string]result.Images{"test": {Checksums: strings.Repeat("0badcafe", 4)}}
	old := one("old", from(0, 10)) // does not identify its images, but has the hash of a set that does
	old.File.Images = nil
	of := must.Get(Of([]Run{one("ten", from(0, 10)), one("four", shuffled), one("late", from(8, 8)), elsewhere, changed,
		old}))(t)
	var names []string
	for _, g := range of.Groups {
		names = append(names, fmt.Sprint(g.Name, g.Images, len(g.Entries)))
	}
	if got := strings.Join(names, " "); got != "test16 4 test4 1 test4 1" {
		t.Fatalf("groups %s", got)
	}
	g := of.Groups[0]
	at := map[string]int{}
	for _, run := range []string{"ten", "four", "late", "old"} {
		at[run], _ = entry(t, g, run, "m")
	}
	for _, want := range []struct {
		a, b   string
		shared int
	}{{"ten", "four", 4}, {"ten", "late", 2}, {"ten", "old", 10}, {"four", "old", 4}, {"four", "late", 0}} {
		p := pairOf(g, at[want.a], at[want.b])
		if none := p.Why == "no image in common"; none != (want.shared == 0) || none != (p.Robust == nil) ||
			!none && p.Robust.Shared != want.shared {
			t.Errorf("%s and %s: %+v, want %d shared", want.a, want.b, p, want.shared)
		}
	}
	// 7, 3, 5, 1 with 1, 0, 1, 0 against 0 for odd images.
	if p := pairOf(g, at["ten"], at["four"]).Robust; p.OnlyA+p.OnlyB != 2 {
		t.Errorf("verdicts are not matched by image: %+v", p)
	}
	if notes := strings.Join(of.Notes, "\n"); strings.Count(notes, "no image in common") != 3 {
		t.Errorf("notes: %s", notes)
	}
}

// Attacks share a column only if nothing but the seed differs. Columns say what differs.
func TestColumns(t *testing.T) {
	like := func(folder string, change func(f *result.File, a *result.Attack, c *result.Cell)) Run {
		r := runOf(folder, from(0, 4), net("m", "1111", "1100"))
		a := r.File.Attacks["pgd"]
		change(r.File, &a, &r.File.Cells[1])
		if a.Kind != "" {
			r.File.Attacks["pgd"] = a
		} else {
			delete(r.File.Attacks, "pgd")
		}
		return r
	}
	corrupted := func(name string, of result.Parameters) func(*result.File, *result.Attack, *result.Cell) {
		return func(f *result.File, _ *result.Attack, c *result.Cell) {
			c.Attack, c.Norm, c.Epsilon, c.Recipe = name+":fog:3", nil, 0, "corruption/1"
			f.Attacks[name] = result.Attack{Kind: "corruption", Recipe: "corruption/1", Parameters: of}
		}
	}
	unknown := func(_ *result.File, a *result.Attack, _ *result.Cell) { *a = result.Attack{} }
	l2, quarter := "l2", 0.25
	of := must.Get(Of([]Run{
		like("a", func(*result.File, *result.Attack, *result.Cell) {}),
		like("seed", func(f *result.File, _ *result.Attack, _ *result.Cell) { f.Seed = 7 }),
		like("name", func(f *result.File, a *result.Attack, c *result.Cell) {
			f.Attacks["mine"], c.Attack = *a, "mine"
		}),
		like("steps", func(_ *result.File, a *result.Attack, _ *result.Cell) {
			a.Parameters = result.Parameters{"steps": 40.0}
		}),
		like("recipe", func(_ *result.File, _ *result.Attack, c *result.Cell) { c.Recipe = "pgd/2" }),
		like("norm", func(_ *result.File, _ *result.Attack, c *result.Cell) { c.Norm = &l2 }),
		like("epsilon", func(_ *result.File, _ *result.Attack, c *result.Cell) { c.Epsilon = cell.Epsilon(quarter) }),
		like("unsaid", unknown), like("unsaid2", unknown),
		like("fog", corrupted("weather", result.Parameters{"names": []any{"fog"}})),
		like("weather", corrupted("all", result.Parameters{"names": []any{"fog", "snow"}, "severities": []any{3.0}})),
	}))(t)
	g := of.Groups[0]
	var got []string
	for _, c := range g.Columns {
		got = append(got, strings.TrimSpace(fmt.Sprint(c.Attack, " ", c.Entries, " ", c.Apart)))
	}
	want := []string{"none 11", "pgd 1 settings unknown, run unsaid",
		"pgd 1 settings unknown, run unsaid2", "mine 3 recipe pgd/1, steps 10",
		"pgd 1 recipe pgd/1, steps 40", "pgd 1 recipe pgd/2, steps 10", "pgd 1", "pgd 1", "all:fog:3 2"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("columns\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, c := range g.Columns {
		if c.Entries == 3 && !slices.Equal(c.Seeds, []uint64{0, 7}) {
			t.Errorf("seeds %v", c.Seeds)
		}
	}
	// The run with the seed 7 is ranked beside those with 0.
	if _, e := entry(t, g, "seed", "m"); e.Rank != 1 || e.Worst.Correct != 2 {
		t.Errorf("%+v", e)
	}
	if _, e := entry(t, g, "steps", "m"); e.Rank != 0 || e.Unranked == "" {
		t.Errorf("%+v", e)
	}
}

// The ranking is by every attack that all have, image by image. A control's attackers make entries of their own, and
// attackers that did not know it are ranked among themselves.
func TestRanking(t *testing.T) {
	r := runOf("a", from(0, 4), under("m", "none", result.Oblivious, "1111", "1100", "0110"),
		under("m", "heal", result.Oblivious, "1111", "1110", "0111"), net("m", "1111", "1100", "0110"),
		under("m", "heal", white, "1111", "1000", "0000"))
	last := &r.File.Cells[len(r.File.Cells)-1]
	last.Error, last.Verdicts = "not finite", ""
	g := must.Get(Of([]Run{r}))(t).Groups[0]
	var got []string
	for _, e := range g.Entries {
		right := -1
		if e.Worst != nil {
			right = e.Worst.Correct
		}
		got = append(got, fmt.Sprint(e.Rank, " ", e.Defense, " ", e.Attacker, " ", right))
	}
	if g.Columns[1].Entries != 3 || g.Columns[2].Entries != 2 {
		t.Fatalf("columns %+v", g.Columns)
	}
	if want := []string{"1 none whitebox 2", "2 heal whitebox-through 1", "1 heal oblivious 3"}; !slices.Equal(got,
		want) {
		t.Errorf("%q, want %q", got, want)
	}
	if c := g.Entries[1].Cells[2]; c.Missing != "failed" {
		t.Errorf("a failed cell is %+v", c)
	}
	r.File.Cells = slices.DeleteFunc(r.File.Cells, func(c result.Cell) bool { return c.Mode == white })
	g = must.Get(Of([]Run{r}))(t).Groups[0]
	if a, b := g.Entries[0], g.Entries[1]; len(g.RankedBy) != 2 || a.Worst.Correct != 1 || b.Worst.Correct != 2 ||
		a.Open != [2]int{1, 1} || b.Open != [2]int{1, 1} {
		t.Errorf("by %v: %+v, %+v", g.RankedBy, a.Worst, b.Worst)
	}
	r.File.Cells = nil
	_, err := Of([]Run{r})
	must.Refuse(t, err, "nothing to compare yet")
}

// random returns a run of several models on a random part of a set.
func random(rng *rand.Rand, folder string) Run {
	ids := rng.Perm(60)[:10+rng.IntN(40)]
	var cells []result.Cell
	for m := range 1 + rng.IntN(3) {
		verdicts := make([]string, 2+rng.IntN(2))
		for i := range verdicts {
			for range ids {
				verdicts[i] += fmt.Sprint(rng.IntN(2))
			}
		}
		cells = append(cells, net(fmt.Sprint("m", m), verdicts...)...)
	}
	r := runOf(folder, ids, cells)
	r.File.Created = day(1 + rng.IntN(3))
	return r
}

// The order of the folders changes only the order of the runs. A run and its copy are never told apart.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var runs []Run
		for i := range 2 + rng.IntN(4) {
			runs = append(runs, random(rng, fmt.Sprint("run", i)))
		}
		twin := runs[0]
		twin.Folder, twin.Path = "twin", "/runs/twin"
		runs = append(runs, twin)
		first := must.Get(Of(runs))(t)
		rng.Shuffle(len(runs), func(i, k int) { runs[i], runs[k] = runs[k], runs[i] })
		second := must.Get(Of(runs))(t)
		first.Runs, second.Runs = nil, nil
		if a, b := must.Get(json.Marshal(first))(t), must.Get(json.Marshal(second))(t); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: another order gives other content", seed)
		}
		for _, g := range second.Groups {
			for i, e := range g.Entries {
				if e.Run != "run0" {
					continue
				}
				k, copied := entry(t, g, "twin", e.Model)
				p := pairOf(g, i, k)
				if copied.Rank != e.Rank || p.Robust == nil || p.Robust.P != 1 || p.Robust.Shared != e.N ||
					p.Clean == nil || p.Clean.P != 1 {
					t.Errorf("seed %d, %s: %+v", seed, e.Model, p)
				}
			}
		}
	}
}

// For each image, the sign test counts who is right under more corruptions: here 4 of 8 images say A and none says B,
// so that p is 2/2^4.
func TestCorrupted(t *testing.T) {
	r := runOf("one", from(0, 8), net("good", "11111111", "11111111", "11110011"),
		net("poor", "11111111", "11000011", "11000011", "11111111"))
	for i := range r.File.Cells {
		if c := &r.File.Cells[i]; c.Epsilon != 0 {
			c.Attack, c.Recipe = fmt.Sprint("weather:fog:", 10*c.Epsilon), "corruption/1"
			c.Norm, c.Epsilon = nil, 0
		}
	}
	r.File.Attacks["weather"] = result.Attack{Kind: "corruption", Recipe: "corruption/1"}
	g := must.Get(Of([]Run{r}))(t).Groups[0]
	if got := g.Columns[g.RankedBy[0]].Attack; len(g.RankedBy) != 1 || got != "none" {
		t.Errorf("ranked by %s", got)
	}
	a, _ := entry(t, g, "one", "good")
	want := Sign{Corruptions: 2, Shared: 8, MoreA: 4, Difference: 6. / 16, Chance: Chance{2. / 16, 2. / 16, false}}
	got := *g.Pairs[0].Corrupted
	if a != 0 {
		t.Fatal("equals are not ordered by name")
	}
	if math.Abs(got.P-want.P) > 1e-12 || math.Abs(got.Holm-want.Holm) > 1e-12 {
		t.Errorf("p %v and %v", got.P, got.Holm)
	}
	if got.Chance = want.Chance; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Differences between the runs are noted, and more lines than can be tested in pairs are refused.
func TestNotes(t *testing.T) {
	one, other, empty := runOf("one", from(0, 2), net("m", "10")), runOf("other", from(0, 2), net("m", "11")),
		runOf("empty", from(0, 2))
	one.File.Environment = result.Environment{Selfheal: "0.1.0", Provider: "cpu", Precision: "f32"}
	other.File.Environment = result.Environment{Selfheal: "0.2.0", Provider: "cpu", Precision: "bf16"}
	other.File.Seeds, empty.Unfinished = []uint64{0, 1}, true
	of := must.Get(Of([]Run{one, other, empty}))(t)
	must.Have(t, strings.Join(of.Notes, "\n"), "several versions of selfheal: 0.1.0, 0.2.0", "precisions: bf16, f32",
		"other has several seeds", "empty is not finished", "empty has no cell with verdicts")
	if len(of.Notes) != 5 {
		t.Errorf("notes %q", of.Notes)
	}
	var cells []result.Cell
	for i := range mostEntries + 1 {
		cells = append(cells, net(fmt.Sprint("m", i), "10")...)
	}
	_, err := Of([]Run{runOf("many", from(0, 2), cells)})
	must.Refuse(t, err, "401 models and controls of data set test are more than the 400")
}

// Runs have the shortest names that tell them apart.
func TestNames(t *testing.T) {
	var runs []Run
	for _, path := range []string{"/a/results", "/b/results", "/c/other", "/"} {
		r := runOf(path, from(0, 2), net("m", "10"))
		r.Path = path
		runs = append(runs, r)
	}
	of := must.Get(Of(runs))(t)
	for i, want := range []string{"a/results", "b/results", "other", "/"} {
		if of.Runs[i].Name != want {
			t.Errorf("%s is called %q", of.Runs[i].Path, of.Runs[i].Name)
		}
	}
}

// A certificate's accuracy belongs to another classifier, so models are not ranked by it beside attacks.
func TestCertificatesAreNoAttacks(t *testing.T) {
	norm := "l2"
	for kind, want := range map[string]bool{"smoothing": false, "pgd": true} {
		if got := (Column{Attack: "a", Kind: kind, Norm: &norm}).adversarial(); got != want {
			t.Errorf("%s is adversarial: %v", kind, got)
		}
	}
}

// Accepted results can be compared with itself and with other results.
func FuzzOf(f *testing.F) {
	one := runOf("one", []int{4, 2, 0, 1}, net("m", "1101", "0101"), under("m", "heal", white, "1111"))
	one.File.Attacks["pgd"] = result.Attack{Kind: "corruption", Parameters: result.Parameters{"names": []any{nil, 1.5}}}
	one.File.Cells[1].Attack, one.File.Cells[1].Norm = "pgd:fog:1", nil
	f.Add(must.Get(json.Marshal(one.File))(f))
	f.Add([]byte(`{"schema": "selfheal.results/1", "cells": [{"n": 1, "correct": 0, "accuracy": 0, "verdicts": "0"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "results.json")
		must.Do(t, os.WriteFile(path, data, 0o600))
		file, err := result.Read(path)
		if err != nil {
			return
		}
		_ = must.Survive(t, func() error {
			c, err := Of([]Run{{Folder: "b", Path: "/b", File: file}, one,
				{Folder: "c", Path: "/c", File: file, Unfinished: true}})
			if err == nil {
				_, err = json.Marshal(c)
			}
			return err
		})
	})
}
