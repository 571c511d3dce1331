package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/harness/gate"
	"selfheal/harness/result"
	"selfheal/internal/testinput"
)

// The schemas have every key that Go writes and no other, required where it always writes
// them.
func TestResultSchemasAreTheTypes(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"results": reflect.TypeFor[result.File](), "records": reflect.TypeFor[result.Record](),
		"gallery": reflect.TypeFor[result.Gallery](), "baseline": reflect.TypeFor[gate.Baseline](),
	} {
		s := schema(t, name)
		s.goStruct(t, s.root, typ, "")
	}
}

// contractResults and contractRecord are what other programs may rely on in every version.
const (
	contractResults = `{"schema": "selfheal.results/1", "created": "2025-03-14T15:09:26Z", "config_sha256": "SHA", "seed": 0,
"environment": {"selfheal": "0.1.0", "go": "go1.26", "onnxruntime": "1.27.0", "provider": "cpu", "precision": "f32", "workers": 2, "batch": 64, "cpu": "a processor"},
"datasets": {"test": {"n": 4, "sha256": "SHA", "format": "npz"}},
"models": {"net": {"sha256": "SHA", "parameters": 112006, "segments": 4, "output": "logits"}},
"attacks": {"aa-linf": {"kind": "pgd", "title": "PGD-40", "recipe": "pgd/1", "norm": "linf", "epsilons": [0.00784]}}, "controls": {},
"cells": [{"suite": "real", "dataset": "test", "model": "net", "defense": "none", "mode": "oblivious",
"attack": "aa-linf", "norm": "linf", "epsilon": 0.00784, "recipe": "autoattack-standard/1",
"n": 4, "correct": 3, "accuracy": 0.75, "ci95": [0.3, 0.95], "verdicts": "1110",
"steps": [{"attack": "apgd-ce", "attacked": 4, "robust": 0.75, "forward": 404, "backward": 400, "seconds": 1.5}],
"max_norm": 0.00784, "seconds": 1.5, "warnings": [{"id": "zero-gradient", "message": "one image"}]},
{"suite": "real", "dataset": "test", "model": "net", "defense": "pca", "mode": "oblivious",
"attack": "none", "norm": null, "epsilon": null, "recipe": "", "n": 4, "correct": 4, "accuracy": 1, "ci95": [0.5, 1], "verdicts": "1111",
"steps": [], "max_norm": 0, "seconds": 0.1, "warnings": []}]}`
	contractRecord = `{"suite": "real", "model": "net", "defense": "none", "mode": "oblivious", "attack": "aa-linf", "epsilon": 0.00784,
"image": 3, "label": 7, "verdict": 0, "margin": -0.25, "norm": 0.00784, "first_success": null}`
)

// Results with what they must have, and nothing else, are valid; without any one of it, or
// with a value of another kind in its place, they are not.
func TestResultSchemasHoldTheContract(t *testing.T) {
	for name, text := range map[string]string{"results": contractResults, "records": contractRecord} {
		s := schema(t, name)
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.ReplaceAll(text, "SHA", strings.Repeat("5a", 32))))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		changes := 0
		refused := func(what string) {
			t.Helper()
			changes++
			if s.Validate(v) == nil {
				t.Errorf("%s: the schema accepts %s", name, what)
			}
		}
		var spoil func(v any, path string)
		spoil = func(v any, path string) {
			switch v := v.(type) {
			case schemaNode:
				for _, key := range slices.Sorted(maps.Keys(v)) {
					value := v[key]
					if path != ".datasets" && path != ".models" && path != ".attacks" { // names
						delete(v, key)
						refused(path + " without " + key)
						if key != "margin" { // of every number it alone may be negative
							v[key] = json.Number("-1")
							refused(path + "." + key + " = -1")
						}
					}
					v[key] = schemaNode{"a": true}
					refused(path + "." + key + " as a mapping")
					v[key] = value
					spoil(value, path+"."+key)
				}
			case []any:
				for i := range v {
					spoil(v[i], path+"[]")
				}
			}
		}
		spoil(v, "")
		if changes < 20 {
			t.Errorf("%s: only %d changes were tried", name, changes)
		}
	}
}

// What a run writes is valid: cells of every mode, a control, a solver study, published
// numbers, several epsilons and seeds.
func TestRunsObeyTheSchemas(t *testing.T) {
	testinput.Runtime(t)
	for name, args := range map[string]string{
		"oblivious": `run --limit 3 --suite bundled --set suites.bundled.attacks=[pgd-20] --set suites.bundled.models=[preact-robust] --set seeds=2
			--set suites.bundled.published={preact-robust:{none:[90,80]}} --set suites.bundled.solver={images:1}`,
		"white box": `run --limit 2 --suite greedy-through --set suites.greedy-through.attacks=[pgd-20] --set suites.greedy-through.models=[preact-robust]`,
		"attack":    `attack models/zoo/preact_robust.onnx --data models/zoo/shapes10/test.bin --norm l2 --attack fab --epsilon 0.5,1 --param steps=5 --limit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			var stdout, stderr bytes.Buffer
			if code := run(context.Background(), repository, append(strings.Fields(args), "--out", out, "--quiet"), &stdout, &stderr); code != 0 {
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
