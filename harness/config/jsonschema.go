package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"selfheal/internal/number"
	"selfheal/internal/setting"
)

// Schema returns the JSON Schema (draft 2020-12) of a config, as JSON.
func Schema() []byte {
	s := (&decoder{}).config(&Config{}).schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "config.schema.json"
	s["title"] = "selfheal config"
	s["description"] = "What selfheal run attacks, how, and what controls heal it. docs/config.md explains every " +
		"key. " +
		"The program also checks what no schema can say: names that must be defined, places in a network."
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(s); err != nil {
		panic("config: the schema can't be written as JSON: " + err.Error()) // it is maps, lists and numbers
	}
	return text.Bytes()
}

// fraction is a number that a config writes as one, such as 8/255.
const fraction = `^\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?\s*/\s*\+?[0-9.]+([eE][-+]?[0-9]+)?\s*$`

func anyOf(of ...schema) schema { return schema{"anyOf": of} }

// settingSchema is a setting's own schema, without the words that a row has too.
func settingSchema(s setting.Setting) schema {
	s.Doc, s.Default, s.Rule = "?", nil, ""
	out := s.Schema()
	delete(out, "description")
	if s.Type != setting.Number {
		return out
	}
	pattern := fraction
	if s.Within.Min >= 0 {
		pattern = strings.Replace(pattern, "[-+]?", `\+?`, 1)
	}
	return anyOf(out, schema{"type": "string", "pattern": pattern})
}

// schema is the schema of a row's value, with its description and default.
func (r row) schema() schema {
	s := maps.Clone(r.value.schema())
	s["description"] = sentence(r.doc)
	switch v, ok := number.Parse(r.def); {
	case r.def == "" || strings.HasPrefix(r.def, "{"):
	case ok:
		s["default"] = v
	case r.def == "true" || r.def == "false":
		s["default"] = r.def == "true"
	default:
		s["default"] = r.def
	}
	return s
}

// sentence makes a sentence of a row's line.
func sentence(doc string) string {
	first, size := []rune(doc)[:1], len(string([]rune(doc)[:1]))
	return strings.ToUpper(string(first)) + strings.TrimSuffix(doc[size:], ".") + "."
}

// schema describes every key; of each form it says which keys there may and must be.
func (o object) schema() schema {
	properties, required := schema{}, []string{}
	for _, r := range o.rows {
		s := r.schema()
		if was, twice := properties[r.key]; twice && !reflect.DeepEqual(was, s) {
			s = schema{"description": was.(schema)["description"]} // each form says more
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

// condition is what a mapping of this form obeys.
func (o object) condition(f form) schema {
	values, given := schema{}, []string{}
	for _, is := range f.when {
		values[is[0]] = schema{"const": is[1]}
		if o.text(&node{}, is[0]) != is[1] { // else it may be left out
			given = append(given, is[0])
		}
	}
	return schema{"properties": values, "required": given}
}

// then is what a form adds to the properties of all.
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
