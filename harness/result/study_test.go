package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// A study that no run writes is refused in one line; reports rely on what is checked.
func TestReadStudies(t *testing.T) {
	const whole = `{"schema": "selfheal.results/1", "cells": [], "solver": [{"model": "net", "control": "loop",
		"solver": {"outer": 2}, "curves": [{"points": [{"passes": 1.5}]}],
		"runs": [{"why": "own", "settings": {"outer": 2}, "outcomes": [{"sweeps": [{}, {}, {}]}]}]}]}`
	path := filepath.Join(t.TempDir(), "results.json")
	for _, c := range []struct{ old, with, want string }{
		{"", "", ""},
		{`"passes": 1.5`, `"passes": 0`, "costs 0 passes"},
		{`[{}, {}, {}]`, `[]`, "a run of 2 sweeps has 0 means"},
		{`[{}, {}, {}]`, `[{}, {}]`, "a run of 2 sweeps has 2 means"},
		{`"settings": {"outer": 2}, "outcomes": [{"sweeps": [{}, {}, {}]}]`,
			`"settings": {"outer": 1}, "outcomes": [{"sweeps": [{}, {}]}]`, `makes 2 sweeps`},
	} {
		must.Do(t, os.WriteFile(path, []byte(strings.Replace(whole, c.old, c.with, 1)), 0o644))
		_, err := Read(path)
		if c.want == "" {
			must.Do(t, err)
			continue
		}
		must.Refuse(t, err, c.want)
		must.Refuse(t, err, `solver study of "loop" on model "net"`)
	}
}
