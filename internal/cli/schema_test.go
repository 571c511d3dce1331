package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// What a run writes is valid: cells of every mode, a control, a solver study, published
// numbers, several epsilons and seeds.
func TestRunsObeyTheSchemas(t *testing.T) {
	testinput.Runtime(t)
	for name, args := range map[string]string{
		"oblivious": `run --limit 3 --suite bundled --set suites.bundled.attacks=[pgd-20]
			--set suites.bundled.models=[preact-robust]
			--set seeds=2 --set suites.bundled.published={preact-robust:{none:[90,80]}}
			--set suites.bundled.solver={images:1}`,
		"white box": `run --limit 2 --suite greedy-through --set suites.greedy-through.attacks=[pgd-20]
			--set suites.greedy-through.models=[preact-robust]`,
		"attack": `attack models/zoo/preact_robust.onnx --data models/zoo/shapes10/test.bin --norm l2 --attack fab
			--epsilon 0.5,1 --param steps=5 --limit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			done(t, append(strings.Fields(args), "--out", out, "--quiet")...)
			validateRun(t, out)
		})
	}
}

// validateRun holds the files of a run to their schemas.
func validateRun(t *testing.T, dir string) {
	t.Helper()
	for name, schema := range map[string]string{"results.json": "results", "records.jsonl": "records",
		"gallery.json": "gallery"} {
		validate(t, schema, filepath.Join(dir, name))
	}
}

// validate holds a file, or each line of a .jsonl file, to a schema and that to the standard's.
func validate(t *testing.T, schema, path string) {
	t.Helper()
	doc := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(done(t, "schema", schema))))(t)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must.Do(t, c.AddResource("schema.json", doc))
	compiled := must.Get(c.Compile("schema.json"))(t)
	documents := []string{read(t, path)}
	if filepath.Ext(path) == ".jsonl" {
		documents = strings.Split(strings.TrimSpace(documents[0]), "\n")
	}
	for _, text := range documents {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = compiled.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
