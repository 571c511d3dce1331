// Package schema_test makes the JSON Schemas of result files from their Go types and the
// comments on them: go test ./docs/schema -update. Package harness/config makes the config's.
package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/compare"
	"selfheal/harness/gate"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

var update = flag.Bool("update", false, "write the schemas anew")

type schema = map[string]any

// files are the root types of the schemas.
var files = []struct {
	name, title, doc string
	root             any
	id               string // what its key schema has
	strict           bool   // another key is refused
}{
	{"results", "selfheal results", "results.json, which selfheal run and selfheal attack leave in their output " +
		"folder. docs/results.md explains it.", result.File{}, result.Schema, false},
	{"records", "A line of selfheal's records.jsonl", "One image in one cell. docs/results.md explains it.",
		result.Record{}, "", false},
	{"gallery", "selfheal gallery", "gallery.json: images of a run, chosen by a rule, as pictures. docs/results.md " +
		"explains it.", result.Gallery{}, result.GallerySchema, false},
	{"comparison", "selfheal comparison", "What selfheal compare --json prints, and compare.json. docs/compare.md " +
		"explains it.", compare.Comparison{}, compare.Schema, false},
	{"baseline", "selfheal baseline", "What selfheal check compares a run with; selfheal check --update writes it. " +
		"docs/gate.md explains it.", gate.Baseline{}, gate.Schema, true},
}

// hasDataset are the types whose values always have a data set: records leave it to their cell.
var hasDataset = []reflect.Type{reflect.TypeFor[result.Cell](), reflect.TypeFor[gate.Cell](),
	reflect.TypeFor[result.GalleryCase](), reflect.TypeFor[compare.Entry](), reflect.TypeFor[compare.Series]()}

var (
	sha256   = schema{"pattern": "^[0-9a-f]{64}$"}
	fraction = schema{"minimum": 0, "maximum": 1}
	fromZero = schema{"minimum": 0}
)

// rules say of the values of a key what types do not, wherever it stands, or of a type's key.
var rules = map[string]schema{
	"sha256": sha256, "config_sha256": sha256, "recipe": {"pattern": `^([a-z0-9-]+/[0-9]+(\+[a-z0-9]+)*)?$`},
	"mode": {"enum": result.ModeNames()}, "Published.mode": {}, "verdict": {"enum": []int{0, 1}},
	"epsilon": {"exclusiveMinimum": 0}, "accuracy": fraction, "robust": fraction, "below_greedy": fraction,
	"non_increasing": fraction, "not_finite": fraction, "seconds": fromZero, "max_norm": fromZero,
	"control_norm": fromZero, "passes": fromZero, "milliseconds": fromZero, "passes_per_forward": fromZero,
	"perturbation": fromZero, "distance": fromZero, "standard_error": fromZero, "loss": fromZero,
	"ci95": {"minItems": 2, "maxItems": 2, "items": schema{"type": "number", "minimum": 0, "maximum": 1}},
}

// words describe keys that mean the same in many types and have no comment there.
var words = map[string]string{
	"schema": "name and version of this layout", "suite": "the suite's name", "dataset": "the data set's name",
	"model": "the network's name", "defense": "none, or the control's name", "control": "the control's name",
	"attack": "none, clean images, or the attack's name", "norm": "of the perturbation: linf, l2, l1 or l0",
	"epsilon": "its bound, in pixel units of [0,1]", "mode": "what the attacker knows",
	"at": "place in the network, as the config says it", "n": "images",
	"correct": "images that the model is right on", "accuracy": "correct/n", "seconds": "time that it took",
	"seed": "keys every random number", "recipe": "which attack made the images", "image": "the image's id",
	"label": "the image's class", "verdict": "1: the model is right", "name": "its name",
}

// The pattern of a recipe matches what an attack with everything behind its version is called.
func TestRecipePattern(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(rules["recipe"]["pattern"].(string))
	for _, kind := range attacks.Kinds() {
		s := attacks.Setup{Kind: kind, Precision: "bf16", Pixels: "8bit"}
		if d, err := s.Describe(); err == nil && !pattern.MatchString(d.Recipe) {
			t.Errorf("%s does not match %s", d.Recipe, pattern)
		}
	}
}

// comments are the comments on types and fields, by "Type" and "Type.Field".
func comments(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"cell", "result", "gate", "config", "compare"} {
		files := must.Get(filepath.Glob("../../harness/" + name + "/*.go"))(t)
		for _, path := range files {
			p := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments))(t)
			ast.Inspect(p, func(n ast.Node) bool {
				if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.TYPE {
					if spec := decl.Specs[0].(*ast.TypeSpec); spec != nil {
						all[name+"."+spec.Name.Name] = decl.Doc.Text()
					}
				}
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if of, ok := spec.Type.(*ast.StructType); ok {
					for _, f := range of.Fields.List {
						for _, id := range f.Names {
							field := name + "." + spec.Name.Name + "." + id.Name
							all[field] = strings.TrimSpace(f.Doc.Text() + f.Comment.Text())
						}
					}
				}
				return true
			})
		}
	}
	return all
}

var (
	subject = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(:| is| are| says?| follows?)? `)
	link    = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
)

// sentence is a comment without the Go name that it begins with.
func sentence(comment string) string {
	text := strings.Join(strings.Fields(link.ReplaceAllString(subject.ReplaceAllString(comment, ""), "$1")), " ")
	if text == "" {
		return ""
	}
	first := []rune(text)[:1]
	return strings.ToUpper(string(first)) + strings.TrimSuffix(text[len(string(first)):], ".") + "."
}

// maker makes one file's schema.
type maker struct {
	comments map[string]string
	defs     schema
	strict   bool
}

// of is the schema of a type.
func (m *maker) of(typ reflect.Type) schema {
	switch {
	case typ == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case typ == reflect.TypeFor[[]byte]():
		return schema{"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}
	case typ == reflect.TypeFor[result.Margin](), typ == reflect.TypeFor[result.Distance](),
		typ == reflect.TypeFor[cell.Epsilon]():
		return schema{"type": []string{"number", "null"}}
	case typ.Kind() == reflect.String && typ.Implements(reflect.TypeFor[json.Marshaler]()): // a baseline's verdicts
		return schema{"type": "array", "items": schema{"type": "string", "pattern": "^[01]{1,100}$"}}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return m.of(typ.Elem())
	case reflect.Struct:
		name := strings.ToLower(typ.Name()[:1]) + typ.Name()[1:]
		if _, made := m.defs[name]; !made {
			m.defs[name] = nil // while it is under way
			m.defs[name] = m.object(typ)
		}
		return schema{"$ref": "#/$defs/" + name}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": m.of(typ.Elem())}
	case reflect.Slice, reflect.Array:
		return schema{"type": "array", "items": m.of(typ.Elem())}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Interface:
		return schema{}
	}
	return schema{"type": "integer", "minimum": 0}
}

// object has a property for each field that Go writes. A field without omitempty is required; it is
// null where Go has no value.
func (m *maker) object(typ reflect.Type) schema {
	properties, required, root := schema{}, []string{}, typ
	var add func(typ reflect.Type)
	add = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			optional := strings.Contains(options, "omit") && (key != "dataset" || !slices.Contains(hasDataset, root))
			switch {
			case f.Anonymous && key == "":
				add(f.Type)
				continue
			case key == "-" || !f.IsExported():
				continue
			case !optional:
				required = append(required, key)
			}
			s := m.of(f.Type)
			rule, own := rules[typ.Name()+"."+key]
			if !own {
				rule = rules[key]
			}
			if s["$ref"] == nil {
				maps.Copy(s, rule)
			}
			if key == "norm" && f.Type.Kind() == reflect.Float64 {
				s["minimum"] = 0
			}
			if key == "verdicts" && s["type"] == "string" {
				s["pattern"] = "^[01]*$"
			}
			if key == "layer" { // −1 at the greedy start
				s["minimum"] = -1
			}
			kind := f.Type.Kind()
			if kind == reflect.Pointer && !optional || kind == reflect.Slice && f.Type != reflect.TypeFor[[]byte]() &&
				key != "cells" {
				if name, ok := s["type"].(string); ok {
					s["type"] = []string{name, "null"}
				}
			}
			text := sentence(m.comments[path.Base(typ.PkgPath())+"."+typ.Name()+"."+f.Name])
			if text == "" {
				text = sentence(words[key])
			}
			if text != "" {
				s["description"] = text
			}
			properties[key] = s
		}
	}
	add(typ)
	s := schema{"type": "object", "properties": properties, "required": required}
	if text := sentence(m.comments[path.Base(typ.PkgPath())+"."+typ.Name()]); text != "" {
		s["description"] = text
	}
	if m.strict {
		s["additionalProperties"] = false
	}
	return s
}

// The committed schemas equal the schemas made from the types.
func TestSchemas(t *testing.T) {
	t.Parallel()
	known := comments(t)
	for _, f := range files {
		m := maker{known, schema{}, f.strict}
		s := m.object(reflect.TypeOf(f.root))
		s["$schema"], s["$id"] = "https://json-schema.org/draft/2020-12/schema", f.name+".schema.json"
		s["title"], s["description"], s["$defs"] = f.title, f.doc, m.defs
		if !f.strict {
			s["description"] = f.doc + " A later version may add keys; those named here keep their meaning."
		}
		if f.id != "" {
			s["properties"].(schema)["schema"].(schema)["const"] = f.id
		}
		var want bytes.Buffer
		out := json.NewEncoder(&want)
		out.SetEscapeHTML(false)
		out.SetIndent("", " ")
		must.Do(t, out.Encode(s))
		file := f.name + ".schema.json"
		if *update {
			must.Do(t, os.WriteFile(file, want.Bytes(), 0o644))
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is out of date (%v); make it anew by go test ./docs/schema -update", file, err)
		}
	}
}

// contract are the least that other programs may rely on, in every version.
var contract = map[string]string{
	"results": `{"schema": "selfheal.results/1", "created": "2025-03-14T15:09:26Z", "config_sha256": "SHA", "seed": 0,
"environment": {"selfheal": "0.1.0", "go": "go1.26", "onnxruntime": "1.27.0", "provider": "cpu", "precision": "f32", 
"workers": 2, "batch": 64, "cpu": "a processor"}, "datasets": {}, "models": {}, "attacks": {}, "controls": {},
"cells": [{"suite": "real", "dataset": "test", "model": "net", "defense": "none", "mode": "oblivious",
"attack": "aa-linf", "norm": "linf", "epsilon": 0.00784, "recipe": "autoattack-standard/1",
"n": 4, "correct": 3, "accuracy": 0.75, "ci95": [0.3, 0.95], "verdicts": "1110",
"steps": [{"attack": "apgd-ce", "attacked": 4, "robust": 0.75, "forward": 404, "backward": 400, "seconds": 1.5}],
"max_norm": 0.00784, "seconds": 1.5, "warnings": [{"id": "zero-gradient", "message": "one image"}]}]}`,
	"records": `{"suite": "real", "model": "net", "defense": "none", "mode": "oblivious", "attack": "aa-linf",
"epsilon": 0.00784, "image": 3, "label": 7, "verdict": 0, "predicted": 3, "margin": -0.25, "norm": 0.00784,
"first_success": null}`,
}

// Results with what they must have, and nothing else, are valid; without any one of it, or
// with a value of another kind in its place, they are not.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, text := range contract {
		compiler := jsonschema.NewCompiler()
		s := must.Get(compiler.Compile(name + ".schema.json"))(t)
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.ReplaceAll(text, "SHA", strings.Repeat("5a", 32))))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		refused := func(what string) {
			t.Helper()
			if s.Validate(v) == nil {
				t.Errorf("%s: the schema accepts %s", name, what)
			}
		}
		var spoil func(v any, path string)
		spoil = func(v any, path string) {
			switch v := v.(type) {
			case schema:
				for _, key := range slices.Sorted(maps.Keys(v)) {
					value := v[key]
					delete(v, key)
					refused(path + " without " + key)
					if key != "margin" { // of every number it alone may be negative
						v[key] = json.Number("-1")
						refused(path + "." + key + " = -1")
					}
					v[key] = []any{schema{"zzqx": true}}
					refused(path + "." + key + " as a list")
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
	}
}
