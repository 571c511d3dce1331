package cli

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/internal/testinput"
)

func bundledGlobals() *globals { return &globals{files: repository} }

// schemaNode is a part of a schema, as it was read.
type schemaNode = map[string]any

// schemaDoc is one of docs/schema.
type schemaDoc struct {
	name string
	root schemaNode
	*jsonschema.Schema
}

// schema reads and compiles a schema, which holds it to the standard's own one.
func schema(t *testing.T, name string) schemaDoc {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(bundledGlobals().readSchema(name)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(name+schemaSuffix, doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(name + schemaSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return schemaDoc{name, doc.(schemaNode), compiled}
}

// items are the mappings in a list.
func items(list any) (out []schemaNode) {
	l, _ := list.([]any)
	for _, item := range l {
		if node, ok := item.(schemaNode); ok {
			out = append(out, node)
		}
	}
	return out
}

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
			var stdout, stderr bytes.Buffer
			args := append(strings.Fields(args), "--out", out, "--quiet")
			if code := run(context.Background(), repository, args, &stdout, &stderr); code != 0 {
				t.Fatalf("exit %d\n%s", code, stderr.String())
			}
			validateRun(t, out)
		})
	}
}

// validateRun holds the files of a run to their schemas.
func validateRun(t *testing.T, dir string) {
	t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	validateJSON(t, schema(t, "results"), read("results.json"))
	records, lines := schema(t, "records"), 0
	for scan := bufio.NewScanner(bytes.NewReader(read("records.jsonl"))); scan.Scan(); lines++ {
		validateJSON(t, records, scan.Bytes())
	}
	if lines == 0 {
		t.Error("there are no records")
	}
	validateJSON(t, schema(t, "gallery"), read("gallery.json"))
}

func validateJSON(t *testing.T, s schemaDoc, data []byte) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		t.Errorf("%s: %v", s.name, err)
	}
}
