package result

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/internal/must"
)

// written returns a file that a run might write.
func written() map[string]any {
	return map[string]any{"suite": "s", "dataset": "d", "model": "m", "defense": "none", "mode": "oblivious",
		"attack": "a", "norm": "linf", "epsilon": 0.03,
		"recipe": "pgd/1", "n": 4, "correct": 3, "accuracy": 0.75, "ci95": []float64{0.3006, 0.9544},
		"verdicts": "1101",
		"steps": []any{map[string]any{"attack": "pgd", "attacked": 4, "robust": 0.75, "forward": 10, "backward": 10,
			"seconds": 0.1}},
		"max_norm": 0.03, "seconds": 0.1, "warnings": []any{}, "solver": map[string]any{"method": "msa", "objective": 1,
			"greedy": 2, "below_greedy": 1, "control_norm": 1, "passes_per_forward": 3}}
}

// readText reads a text as a results.json.
func readText(t *testing.T, text string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.json")
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	_, err := Read(path)
	return err
}

// A cell that no run writes is refused in one line, which names the cell and hides control characters.
func TestHostileCells(t *testing.T) {
	read := func(c any) error {
		return readText(t, string(must.Get(json.Marshal(map[string]any{"schema": Schema, "cells": []any{c}}))(t)))
	}
	must.Do(t, read(written()))
	with := func(of any, key string, v any) map[string]any {
		s := of.(map[string]any)
		s[key] = v
		return s
	}
	step := func(key string, v any) []any { return []any{with(written()["steps"].([]any)[0], key, v)} }
	solver := func(key string, v any) map[string]any { return with(written()["solver"], key, v) }
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"verdicts", "hello", "5 verdicts of 4 images"}, {"verdicts", "11x1", `verdicts hold "x"`},
		{"verdicts", "1001", "2 verdicts are 1, but correct is 3"}, {"n", -7, "4 verdicts of -7 images"},
		{"correct", 24, "3 verdicts are 1, but correct is 24"}, {"accuracy", 1e6, "an accuracy of 1e+06"},
		{"accuracy", -0.75, "an accuracy of -0.75"}, {"ci95", []float64{0.9, 0.1}, "an interval of [0.9 0.1]"},
		{"ci95", []float64{-1, 2}, "an interval of [-1 2]"}, {"epsilon", -1, "an epsilon of -1"},
		{"max_norm", 1e300, "a perturbation of 1e+300"},
		{"seconds", -1, "-1 seconds"},
		{"brackets", []any{map[string]any{"epsilon": 0.1, "proven": 3, "left": 2}}, "3 images proven and 2 left of 4"},
		{"source", "other", "a source \"other\", which cells of mode transfer have, not oblivious"},
		{"steps", step("robust", 1e300), `step "pgd" leaves an accuracy of 1e+300`},
		{"steps", step("forward", -1), "-1 and 10 passes"},
		{"solver", solver("objective", -1), "its solver has a number of -1"},
		{"solver", solver("below_greedy", 2), "a share of 2"},
		{"solver", solver("layers", []any{map[string]any{"control_norm": 1e300}}), "its solver has a number of 1e+300"},
		{"solver", solver("sweeps", []float64{1, 1e200}), "its solver has a number of 1e+200"},
		{"suite", "\x1b[31mevil", `4 verdicts of -7 images`},
	} {
		bad := written()
		bad[c.key] = c.value
		if c.key == "suite" {
			bad["n"] = -7
		}
		must.Refuse(t, read(bad), c.want)
	}
	if err := read(nil); err == nil {
		t.Error("a cell that is null is read")
	}
}

// goodRecord is a line that a run might write.
const goodRecord = `{"suite":"s","image":3,"label":1,"verdict":1,"margin":-2.5,"norm":0.1,"epsilon":0.1,` +
	`"distance":0.05}`

func TestHostileRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	for _, c := range []struct{ old, new, want string }{
		{`"verdict":1`, `"verdict":5`, "a verdict of 5"}, {`"verdict":1`, `"verdict":-1`, "a verdict of -1"},
		{`"label":1`, `"label":-1`, "image 3 with label -1"},
		{`"norm":0.1`, `"norm":-0.1`, "a perturbation of -0.1"},
		{`"epsilon":0.1`, `"epsilon":-1`, "an epsilon of -1"},
		{`"distance":0.05`, `"distance":-1`, "a distance of -1"},
		{`"margin":-2.5`, `"margin":1e300`, "a margin of 1e+300"}, {"", "", ""},
		{`"distance":0.05`, `"proven":-1,"broken":2`, "a proven radius of -1"},
		{`"distance":0.05`, `"broken":-2`, "broken at a distance of -2"},
	} {
		text := goodRecord + "\n" + strings.Replace(goodRecord, c.old, c.new, 1) + "\n"
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		n, err := 0, error(nil)
		for _, err = range Records(path) {
			n++
		}
		switch {
		case c.want == "":
			if err != nil || n != 2 {
				t.Errorf("%d records, %v", n, err)
			}
		case err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("%s:2: %s", path, c.want)):
			t.Errorf("%s: error %v, want line 2 and %q", c.new, err, c.want)
		}
	}
}

func TestCheckRecords(t *testing.T) {
	t.Parallel()
	id := func(attack string, epsilon cell.Epsilon) cell.ID {
		return cell.ID{Suite: "s", Row: cell.Row{Model: "m", Defense: "none"}, Mode: Whitebox,
			Column: cell.Column{Attack: attack, Epsilon: epsilon}}
	}
	f := &File{Cells: []Cell{{ID: id("none", 0), N: 2, Verdicts: "11"}, {ID: id("pgd", 0.5), N: 2, Verdicts: "10"}}}
	record := func(attack string, epsilon cell.Epsilon, verdict int) Record {
		return Record{ID: id(attack, epsilon), Verdict: verdict}
	}
	good := []Record{record("none", 0, 1), record("none", 0, 1), record("pgd", 0.5, 1), record("pgd", 0.5, 0)}
	for _, c := range []struct {
		records []Record
		want    string // "" for none
	}{
		{good, ""}, {good[:3], "the records have 1 images"},
		{append(good[:3:3], good[2]), "other verdicts than the cell's 2"},
		{append(good[:4:4], record("fgsm", 0.5, 1)), ""},
		{nil, `attack "none": the records have 0 images`},
	} {
		if err := f.CheckRecords(slices.Values(c.records)); c.want == "" {
			must.Do(t, err)
		} else {
			must.Refuse(t, err, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	c := Cell{Verdicts: "11100", Seeds: []SeedScore{
		{Seed: 1, Correct: 3, Accuracy: 0.6, Verdicts: "11100"},
		{Seed: 2, Correct: 2, Accuracy: 0.4, Verdicts: "01100"},
		{Seed: 3, Correct: 4, Accuracy: 0.8, Verdicts: "11110"},
	}}
	must.Do(t, c.checkSeeds())
	s, ok := c.Spread()
	if !ok || s.Seeds != 3 || math.Abs(s.Mean-0.6) > 1e-12 || math.Abs(s.Deviation-0.2) > 1e-12 || s.Min != 0.4 ||
		s.Max != 0.8 || s.Every != 0.4 {
		t.Errorf("%+v, %v", s, ok)
	}
	if _, ok := (Cell{Seeds: c.Seeds[:1]}).Spread(); ok {
		t.Error("one seed has a spread")
	}
}

func TestHostileSeeds(t *testing.T) {
	for _, c := range []struct {
		seed SeedScore
		want string
	}{
		{SeedScore{Verdicts: "1"}, "other verdicts"}, {SeedScore{Verdicts: "1x"}, "other verdicts"},
		{SeedScore{Verdicts: "10", Correct: 2, Accuracy: 1}, "1 right verdicts"},
		{SeedScore{Verdicts: "10", Correct: 1, Accuracy: 0.7}, "an accuracy of 0.7"},
	} {
		must.Refuse(t, Cell{Verdicts: "10", Seeds: []SeedScore{c.seed}}.checkSeeds(), c.want)
	}
}

// A study that no run writes is refused in one line; reports rely on what is checked.
func TestReadStudies(t *testing.T) {
	const whole = `{"schema": "selfheal.results/1", "cells": [], "solver": [{"model": "net", "control": "loop",
		"solver": {"outer": 2}, "curves": [{"points": [{"passes": 1.5}]}],
		"runs": [{"why": "own", "settings": {"outer": 2}, "outcomes": [{"sweeps": [{}, {}, {}]}]}]}]}`
	for _, c := range []struct{ old, with, want string }{
		{"", "", ""}, {`"passes": 1.5`, `"passes": 0`, "costs 0 passes"},
		{`[{}, {}, {}]`, `[]`, "a run of 2 sweeps has 0 means"},
		{`[{}, {}, {}]`, `[{}, {}]`, "a run of 2 sweeps has 2 means"},
		{`"settings": {"outer": 2}, "outcomes": [{"sweeps": [{}, {}, {}]}]`,
			`"settings": {"outer": 1}, "outcomes": [{"sweeps": [{}, {}]}]`, `makes 2 sweeps`},
	} {
		err := readText(t, strings.Replace(whole, c.old, c.with, 1))
		if c.want == "" {
			must.Do(t, err)
			continue
		}
		must.Refuse(t, err, c.want)
		must.Refuse(t, err, `solver study of "loop" on model "net"`)
	}
}
