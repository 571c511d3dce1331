package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// editedResults are edits of a results.json: a path of keys and indices, and the value that it gets; "" is removed.
var editedResults = []struct {
	path  string
	value any
}{
	{"schema", "selfheal.results/0"}, {"cells/2/verdicts", "01"}, {"cells/2/verdicts", "12"}, {"cells/2/verdicts", nil},
	{"cells/2/n", 3}, {"cells/2/n", -2}, {"cells/2/correct", 0}, {"cells/2/correct", 9}, {"cells/2/accuracy", 0.25},
	{"cells/2/accuracy", 1e300}, {"cells/2/ci95", []float64{0, 1}}, {"cells/2/ci95", []float64{0.9, 0.1}},
	{"cells/2/ci95", "wide"}, {"cells/2/epsilon", -0.5}, {"cells/2/epsilon", 0}, {"cells/2/max_norm", -1},
	{"cells/2/seconds", 1e200}, {"cells/2/suite", "other"}, {"cells/2/steps/0/robust", 1.5},
	{"cells/2/steps/0/forward", -4}, {"cells/2/attack", "none"}, {"cells/2/epsilon", nil}, {"cells/2", "again"},
	{"cells/2/verdicts", 7}, {"cells", map[string]int{}}, {"seed", "x"}, {"created", "yesterday"},
}

// editedJournals are edits of a shard's journal: lines that get other text, and how a checksum that fits is made.
var editedJournals = []struct{ old, with string }{
	{`"right":true`, `"right":maybe`}, {`"i":1`, `"i":99`}, {`"i":1`, `"i":-1`}, {`"model":"robust"`, `"model":17`},
	{`"classes":10`, `"classes":"ten"`}, {`"margin":`, `"margin":"NaN","x":`}, {`{"i"`, `{"i`}, {`"C":3`, `"C":-3`},
	{`"Label":1`, `"Label":"one"`}, {`{"bytes"`, `["bytes"`}, {`"Logits":1`, `"Logits":"much"`},
	{`"robust":true`, `"robust":[]`}, {`"first":-1`, `"first":1e99`},
}

// set changes a value in decoded JSON.
func set(of any, path string, value any) any {
	key, rest, more := strings.Cut(path, "/")
	switch at := of.(type) {
	case map[string]any:
		if !more && value == nil {
			delete(at, key)
		} else if !more {
			at[key] = value
		} else {
			at[key] = set(at[key], rest, value)
		}
	case []any:
		var i int
		fmt.Sscan(key, &i)
		if value == "again" {
			return append(at, at[i])
		}
		at[i] = set(at[i], rest, value)
	}
	return of
}

// Results and journals that somebody has edited are refused in one line, or the edit does not matter: no panic, and no
// report of what was never measured.
func TestEditedFilesAreRefused(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	made := place{t, t.TempDir()}
	made.config("suites:", "suites:\n")
	doneIn(t, made, strings.Replace(tinyRun, "DIR/out", "DIR/whole", 1))
	whole := []byte(read(t, made.at("whole/results.json")))
	var text strings.Builder
	for _, e := range editedResults {
		var file any
		must.Do(t, json.Unmarshal(whole, &file))
		made.put("whole/results.json", must.Get(json.Marshal(set(file, e.path, e.value)))(t))
		for _, line := range []string{"report DIR/whole --out DIR/rendered",
			"check --update --baseline DIR/b.json DIR/whole"} {
			code, _, stderr := call(strings.Fields(strings.ReplaceAll(line, "DIR", made.dir))...)
			if code == exitOK || strings.Count(stderr, "\n") != 1 || len(stderr) > 500 {
				t.Errorf("%s = %v: %s: exit %d\n%s", e.path, e.value, line, code, stderr)
			}
			fmt.Fprintf(&text, "%s = %v\nexit %d %s", e.path, e.value, code,
				strings.ReplaceAll(stderr, made.dir, "DIR"))
		}
	}
	for _, i := range []string{"1", "2"} {
		doneIn(t, made, strings.Replace(tinyRun, "DIR/out --force", "DIR/parts --shard "+i+"/2", 1))
	}
	shards := must.Get(filepath.Glob(made.at("parts/shard-*")))(t)
	path := filepath.Join(shards[0], "selfheal-journal/journal.jsonl")
	journal := must.Get(os.ReadFile(path))(t)
	for _, e := range editedJournals {
		var lines [][]byte
		edited := false
		for line := range bytes.Lines(journal) {
			content := bytes.TrimSuffix(line[9:], []byte("\n"))
			if !edited && bytes.Contains(content, []byte(e.old)) {
				content, edited = bytes.Replace(content, []byte(e.old), []byte(e.with), 1), true
			}
			lines = append(lines, fmt.Appendf(nil, "%08x %s\n", crcOf(content), content))
		}
		if !edited {
			t.Errorf("no line holds %s", e.old)
		}
		must.Do(t, os.WriteFile(path, bytes.Join(lines, nil), 0o644))
		for _, line := range []string{"report DIR/parts --out DIR/merged --force",
			strings.Replace(tinyRun, "DIR/out --force", "DIR/parts --shard 1/2", 1)} {
			code, _, stderr := call(strings.Fields(strings.ReplaceAll(line, "DIR", made.dir))...)
			for strings.HasPrefix(stderr, "[") { // the progress of a merge
				_, stderr, _ = strings.Cut(stderr, "\n")
			}
			if code != exitOK && strings.Count(stderr, "\n") != 1 || len(stderr) > 500 || code > 3 {
				t.Errorf("%s → %s: %s: exit %d\n%s", e.old, e.with, line, code, stderr)
			}
			verb, _, _ := strings.Cut(line, " ")
			fmt.Fprintf(&text, "%s → %s, %s\nexit %d %s\n", e.old, e.with, verb, code,
				strings.TrimSpace(strings.ReplaceAll(stderr, made.dir, "DIR")))
		}
	}
	golden(t, "edited-files", regexp.MustCompile(`0\.\d+ seconds`).ReplaceAllString(text.String(), "SECONDS seconds"))
}

func crcOf(content []byte) uint32 { return crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)) }
