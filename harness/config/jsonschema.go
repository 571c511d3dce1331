package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"selfheal/internal/number"
)

// Schema returns the JSON Schema (draft 2020-12) of a config, as JSON.
func Schema() []byte {
	s := (&Config{}).object().schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "config.schema.json"
	s["title"] = "selfheal config"
	s["description"] = "What selfheal run attacks, how, and what controls heal it. docs/config.md explains every " +
		"key. The program also checks what no schema can say: names that must be defined, places in a network."
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(s); err != nil {
		panic("config: the schema can't be written as JSON: " + err.Error()) // it consists of maps, lists and numbers
	}
	return text.Bytes()
}

func anyOf(of ...schema) schema { return schema{"anyOf": of} }

// schema returns the schema of a row's value, with its description and default.
func (r row) schema() schema {
	s := maps.Clone(r.value.schema())
	first, size := utf8.DecodeRuneInString(r.doc)
	s["description"] = string(unicode.ToUpper(first)) + strings.TrimSuffix(r.doc[size:], ".") + "."
	switch v, ok := number.Parse(r.def); {
	case r.def == "" || strings.HasPrefix(r.def, "{") || strings.HasPrefix(r.def, "["):
	case ok:
		s["default"] = v
	case r.def == "true" || r.def == "false":
		s["default"] = r.def == "true"
	default:
		s["default"] = r.def
	}
	return s
}

// schema describes every key. For each form it says which keys there may and must be.
func (o object) schema() schema {
	properties, required := schema{}, []string{}
	for _, r := range o.rows {
		s := r.schema()
		if was, twice := properties[r.key]; twice && !reflect.DeepEqual(was, s) {
			s = schema{"description": was.(schema)["description"]} // each form adds its own keys
		}
		properties[r.key] = s
		if r.required && r.only == nil {
			required = append(required, r.key)
		}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	all := o.also
	for _, f := range o.forms {
		all = append(all, schema{"if": o.condition(f), "then": o.then(f, properties)})
	}
	if all != nil {
		s["allOf"] = all
	}
	return s
}

func (o object) condition(f form) schema {
	values, given := schema{}, []string{}
	for _, is := range f.when {
		values[is[0]] = schema{"const": is[1]}
		if o.text(&node{}, is[0]) != is[1] { // otherwise it may be left out
			given = append(given, is[0])
		}
	}
	return schema{"properties": values, "required": given}
}

// then returns the schema of a form, which extends the properties that all forms share.
func (o object) then(f form, properties schema) schema {
	own, needed := schema{}, []string{}
	rows := o.of(f)
	for _, r := range rows {
		if s := r.schema(); !reflect.DeepEqual(s, properties[r.key]) {
			own[r.key] = s
		}
		if r.required && r.only != nil {
			needed = append(needed, r.key)
		}
	}
	then := schema{"propertyNames": schema{"enum": keys(rows)}}
	if len(own) > 0 {
		then["properties"] = own
	}
	if len(needed) > 0 {
		then["required"] = needed
	}
	if pair, ok := o.either[f.name]; ok {
		then["oneOf"] = []schema{{"required": pair[:1]}, {"required": pair[1:]}}
	}
	return then
}
