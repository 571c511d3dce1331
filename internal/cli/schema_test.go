package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/santhosh-tekuri/jsonschema/v6"
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
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	var root any
	for _, n := range bundledGlobals().schemaNames() { // all of them: one may refer to another
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(bundledGlobals().readSchema(n)))
		if err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		if err := c.AddResource(n+schemaSuffix, doc); err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		if n == name {
			root = doc
		}
	}
	compiled, err := c.Compile(name + schemaSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return schemaDoc{name, root.(schemaNode), compiled}
}

// follow adds to node what it refers to; its own keys come first.
func (s schemaDoc) follow(node schemaNode) schemaNode {
	for {
		ref, ok := node["$ref"].(string)
		if !ok {
			return node
		}
		target, ok := s.root["$defs"].(schemaNode)[strings.TrimPrefix(ref, "#/$defs/")].(schemaNode)
		if !ok {
			panic(s.name + ": there is no " + ref)
		}
		merged := maps.Clone(target)
		for k, v := range node {
			if k != "$ref" {
				merged[k] = v
			}
		}
		node = merged
	}
}

// objects returns the descriptions of objects that v may be: of a choice those whose
// constants are v's.
func (s schemaDoc) objects(node schemaNode, v schemaNode) (list []schemaNode) {
	node = s.follow(node)
	if _, ok := node["properties"]; ok || node["additionalProperties"] != nil {
		list = append(list, node)
	}
	for _, choice := range []string{"anyOf", "oneOf"} {
		for _, branch := range items(node[choice]) {
			if b := s.follow(branch); b["type"] == "object" && s.fits(b, v) {
				list = append(list, s.objects(branch, v)...)
			}
		}
	}
	return list
}

func (s schemaDoc) fits(node, v schemaNode) bool {
	properties, _ := node["properties"].(schemaNode)
	for name, p := range properties {
		if constant, ok := p.(schemaNode)["const"]; ok && v[name] != constant {
			return false
		}
	}
	return true
}

// items are the schemas in a list.
func items(list any) (out []schemaNode) {
	l, _ := list.([]any)
	for _, item := range l {
		if node, ok := item.(schemaNode); ok {
			out = append(out, node)
		}
	}
	return out
}

// everyNode calls each for a schema and all schemas in it.
func everyNode(v any, path string, each func(node schemaNode, path string)) {
	switch v := v.(type) {
	case schemaNode:
		each(v, path)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			everyNode(v[k], path+"/"+k, each)
		}
	case []any:
		for i, item := range v {
			everyNode(item, fmt.Sprintf("%s/%d", path, i), each)
		}
	}
}

// Every schema is one of draft 2020-12, goes by its file's name, and describes every key, so
// that an editor has something to show; every definition is used.
func TestSchemasAreWhole(t *testing.T) {
	if got, want := bundledGlobals().schemaNames(), []string{"baseline", "config", "gallery", "records", "results"}; !slices.Equal(got, want) {
		t.Fatalf("schemas: %v", got)
	}
	for _, name := range bundledGlobals().schemaNames() {
		s := schema(t, name)
		if s.root["$schema"] != "https://json-schema.org/draft/2020-12/schema" || s.root["$id"] != name+schemaSuffix || s.root["title"] == nil || s.root["description"] == nil {
			t.Errorf("%s: $schema %v, $id %v, title %v, description %v", name, s.root["$schema"], s.root["$id"], s.root["title"], s.root["description"])
		}
		used := map[string]bool{}
		everyNode(s.root, name, func(node schemaNode, path string) {
			if ref, ok := node["$ref"].(string); ok {
				used[strings.TrimPrefix(ref, "#/$defs/")] = true
			}
			if strings.HasSuffix(path, "/properties") {
				for key, p := range node {
					if p, ok := p.(schemaNode); ok && s.follow(p)["description"] == nil && !strings.Contains(path, "/if/") && !strings.Contains(path, "/then/") {
						t.Errorf("%s/%s has no description", path, key)
					}
				}
			}
			if p := node["properties"]; p != nil && (name == "config" || name == "baseline") && !strings.Contains(path, "/if") && !strings.Contains(path, "/then") && !strings.Contains(path, "/else") &&
				!strings.Contains(path, "/oneOf/") && node["additionalProperties"] != false {
				t.Errorf("%s takes any key, but the program is strict", path)
			}
		})
		definitions, _ := s.root["$defs"].(schemaNode)
		for d := range definitions {
			if !used[d] {
				t.Errorf("%s: nothing uses $defs/%s", name, d)
			}
		}
	}
}

// fromYAML reads a config as an editor does, by YAML 1.2.
func fromYAML(data []byte) (any, error) {
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		return nil, err
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	return yamlValue(file.Docs[0].Body), nil
}

// yamlNumber is a plain scalar that YAML 1.2 reads as a number and the library may not: 1e-2.
var yamlNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

func yamlValue(n ast.Node) any {
	text := n.GetToken().Value
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		m := schemaNode{}
		for it := n.(ast.MapNode).MapRange(); it.Next(); {
			m[it.Key().GetToken().Value] = yamlValue(it.Value())
		}
		return m
	case *ast.SequenceNode:
		l := []any{}
		for _, v := range n.Values {
			l = append(l, yamlValue(v))
		}
		return l
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.StringNode:
		if n.Token.Type != token.StringType || !yamlNumber.MatchString(text) {
			return n.Value
		}
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return json.Number(fmt.Sprint(n.Value))
	case *ast.InfinityNode, *ast.NanNode: // JSON has no word for them
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return text
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

// goStruct holds a schema to the Go type that is written as what it describes: the same
// keys, required where Go always writes them, and of the same kinds.
func (s schemaDoc) goStruct(t *testing.T, node schemaNode, typ reflect.Type, where string) {
	t.Helper()
	node = s.follow(node)
	properties, _ := node["properties"].(schemaNode)
	var keys, required []string
	for _, f := range jsonFields(typ) {
		key, omitempty := f.key()
		keys = append(keys, key)
		if !omitempty {
			required = append(required, key)
		}
		if p, ok := properties[key].(schemaNode); ok {
			s.goValue(t, p, f.Type, where+"."+key)
		}
	}
	slices.Sort(keys)
	slices.Sort(required)
	if known := slices.Sorted(maps.Keys(properties)); !slices.Equal(known, keys) {
		t.Errorf("%s%s: the schema has the keys %v, Go writes %v", s.name, where, known, keys)
	}
	var demanded []string
	list, _ := node["required"].([]any)
	for _, r := range list {
		demanded = append(demanded, r.(string))
	}
	slices.Sort(demanded)
	if !slices.Equal(demanded, required) {
		t.Errorf("%s%s: the schema requires %v, Go always writes %v", s.name, where, demanded, required)
	}
}

type jsonField struct{ reflect.StructField }

func (f jsonField) key() (name string, omitempty bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
}

// jsonFields are the fields that encoding/json writes, those of embedded structs among them.
func jsonFields(typ reflect.Type) (list []jsonField) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		switch {
		case f.Anonymous && f.Tag.Get("json") == "":
			list = append(list, jsonFields(f.Type)...)
		case f.IsExported() && f.Tag.Get("json") != "-":
			list = append(list, jsonField{f})
		}
	}
	return list
}

// goValue holds a schema to the Go type of a value.
func (s schemaDoc) goValue(t *testing.T, node schemaNode, typ reflect.Type, where string) {
	t.Helper()
	node = s.follow(node)
	want := ""
	switch kind := typ.Kind(); {
	case typ.Implements(reflect.TypeFor[json.Marshaler]()) && typ.String() != "time.Time":
		text, err := json.Marshal(reflect.Zero(typ).Interface())
		if err != nil {
			t.Fatal(err)
		}
		if want = map[byte]string{'[': "array", '{': "object", '"': "string"}[text[0]]; want == "" {
			t.Fatalf("%s%s is written as %s", s.name, where, text)
		}
	case typ.String() == "time.Time" || kind == reflect.String || typ == reflect.TypeFor[[]byte]():
		want = "string"
	case kind == reflect.Pointer:
		s.goValue(t, node, typ.Elem(), where)
		return
	case kind == reflect.Struct:
		s.goStruct(t, node, typ, where)
		return
	case kind == reflect.Map:
		each, ok := node["additionalProperties"].(schemaNode)
		if !ok {
			t.Errorf("%s%s: the schema does not say what its values are", s.name, where)
			return
		}
		s.goValue(t, each, typ.Elem(), where+".*")
		return
	case kind == reflect.Slice || kind == reflect.Array:
		each, ok := node["items"].(schemaNode)
		if !ok {
			t.Errorf("%s%s: the schema does not say what its items are", s.name, where)
			return
		}
		s.goValue(t, each, typ.Elem(), where+"[]")
		want = "array"
	case kind == reflect.Interface:
		want = "string" // among others
	case kind == reflect.Bool:
		want = "boolean"
	case kind == reflect.Float64 || kind == reflect.Float32:
		want = "number"
	default:
		want = "integer"
	}
	if !slices.Contains(jsonTypes(node), want) {
		t.Errorf("%s%s: the schema says %v, Go writes %s", s.name, where, jsonTypes(node), want)
	}
}

// jsonTypes are the types that a schema allows by name or by its constants.
func jsonTypes(node schemaNode) (types []string) {
	switch t := node["type"].(type) {
	case string:
		types = append(types, t)
	case []any:
		for _, one := range t {
			types = append(types, one.(string))
		}
	}
	constants, _ := node["enum"].([]any)
	if c, ok := node["const"]; ok {
		constants = append(constants, c)
	}
	for _, c := range constants {
		switch c.(type) {
		case string:
			types = append(types, "string")
		case json.Number:
			types = append(types, "integer", "number")
		}
	}
	return types
}

// readTestFiles are the files of a folder by name.
func readTestFiles(t *testing.T, fsys fs.FS, pattern string) map[string]string {
	t.Helper()
	names, err := fs.Glob(fsys, pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %d files", pattern, err, len(names))
	}
	files := map[string]string{}
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	return files
}
