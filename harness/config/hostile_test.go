package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"selfheal/internal/must"
)

// Hostile YAML costs an error and little time.
func TestHostile(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 20; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9),
			", "))
	}
	steps := ""
	for i := range 500 {
		steps += strings.Repeat(" ", i) + "a:\n"
	}
	const many = 50_000
	for name, text := range map[string]string{
		"aliases":      bomb,
		"flow lists":   strings.Repeat("[", many),
		"flow maps":    strings.Repeat("{a: ", many),
		"closers":      strings.Repeat("]", many),
		"dashes":       strings.Repeat("- ", many),
		"colons":       strings.Repeat("a: ", many),
		"flow colons":  "{" + strings.Repeat("a: ", many),
		"questions":    strings.Repeat("? ", many),
		"indentation":  steps,
		"documents":    strings.Repeat("---\n", many),
		"tags":         strings.Repeat("!a ", many),
		"wide indent":  "a:\n" + strings.Repeat(" ", many) + "b: 1",
		"quotes":       strings.Repeat("'", many+1),
		"long key":     strings.Repeat("k", many) + ": 1",
		"nul":          "version: \x00",
		"not utf-8":    "version: \xff\xfe",
		"empty":        "",
		"comment":      "# nothing",
		"too large":    strings.Repeat("#", maxBytes+1),
		"bare scalar":  "hello",
		"null":         "~",
		"literal":      "version: |\n  1\n",
		"list as key":  "[a]: 1",
		"null as key":  "~: 1",
		"empty as key": ": 1",
	} {
		start := time.Now()
		_, err := parse(text)
		list, e := Errors(nil), new(Error)
		if !errors.As(err, &list) && errors.As(err, &e) {
			list = Errors{e}
		}
		if len(list) == 0 || len(list) > 4 {
			t.Errorf("%s: %d errors: %.500v", name, len(list), err)
		}
		for _, e := range list {
			if strings.Contains(e.Error(), "\n") || len(e.Error()) > 400 {
				t.Errorf("%s: the error is %.500v", name, e)
			} else if e.pos.line < 1 || e.pos.column < 1 {
				t.Errorf("%s: the place is %v", name, e.pos)
			}
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// The time to read a config of many names, defined or not, grows with its length. If it grew with the square, these
// would take half a minute.
func TestManyNames(t *testing.T) {
	names := func(n int, format string) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, format, i)
		}
		return all.String()
	}
	const text = `{version: 1, datasets: {d: {format: npz, path: d.npz, indices: [%s0]}},
models: {m: {path: m.onnx}, %s},
suites: {s: {dataset: d, models: [%sm], attacks: [], %s}}}`
	for name, c := range map[string]struct{ indices, models, used, more, wrong string }{
		"as many as may be": {"", names(4095, "m%d: {path: m.onnx}, "), names(4095, "m%d, "), "", ""},
		"too many models": {"", names(20_000, "m%d: {path: m.onnx}, "), "", "",
			"models has 20001 entries; 4096 are the most"},
		"many images": {names(60_000, "9%d, "), "", "", "", ""},
		"undefined models": {"", names(4000, "m%d: {path: m.onnx}, "), names(50_000, "n%d, "), "",
			"49980 more errors"},
		"unknown keys": {"", "", "", names(40_000, "k%d: 1, "), "39980 more errors"},
	} {
		start := time.Now()
		_, err := parse(fmt.Sprintf(text, c.indices, c.models, c.used, c.more))
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.HasSuffix(err.Error(), c.wrong)) {
			t.Errorf("%s: %.500v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{full, small, "", "a: [b", "? a", "a: &a *a", "{a: {b: [c, - d]}}", "- - - a",
		"a:\n\t- b", "a: |\n  b\n", "\ufeffa: 'b\n", "version: 1\n---\nversion: 1"} {
		f.Add([]byte(seed), "attacks.aa.epsilon=1")
	}
	f.Add([]byte(small), "controls.pca.layers.0={at: [}")
	f.Add([]byte(small), strings.Repeat("a.", 5000)+"=1")
	f.Fuzz(func(t *testing.T, data []byte, set string) {
		for _, sets := range [][]string{nil, {set}} {
			var c *Config
			var list Errors
			err := must.Survive(t, func() (err error) {
				if c, err = Parse("config.yaml", data, nil, sets...); errors.As(err, &list) {
					err = list[0]
				}
				return err
			})
			for _, e := range list {
				must.Survive(t, func() error { return e })
			}
			if (c == nil) == (err == nil) {
				t.Fatalf("Parse returned %v and %v", c, err)
			}
			if err == nil {
				part := must.Get(c.Selected(nil))(t)
				part.Hash()
			}
		}
	})
}
