package gate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"selfheal/harness/cell"
)

// checkKeys refuses JSON text for type t that encoding/json would accept: an object's repeated key, of which it takes
// the last (a bad merge leaves such); a key with other capitals; and a key that is missing or null, for which it sets
// 0. The text must be valid JSON. A nil t accepts anything.
func checkKeys(d *json.Decoder, t reflect.Type, where string) error {
	token, err := d.Token()
	switch {
	case err != nil:
		return err
	case t == nil:
	case t == reflect.TypeFor[cell.Epsilon](): // null is none
	case t.Kind() == reflect.Pointer:
		t = t.Elem()
	case token == nil:
		return fmt.Errorf("null is no value%s", where)
	}
	switch token {
	case json.Delim('{'):
		err = checkObject(d, t, where)
	case json.Delim('['):
		var element reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			element = t.Elem()
		}
		for err == nil && d.More() {
			err = checkKeys(d, element, where)
		}
	default:
		return nil
	}
	if err == nil {
		_, err = d.Token()
	}
	return err
}

// checkObject is [checkKeys] between an object's braces.
func checkObject(d *json.Decoder, t reflect.Type, where string) error {
	var fields map[string]reflect.Type // nil unless t is a struct
	var needed []string
	if t != nil && t.Kind() == reflect.Struct {
		fields = map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if fields[name] = f.Type; options == "" && !f.Anonymous {
				needed = append(needed, name)
			}
		}
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		value, known := fields[key]
		switch {
		case seen[key]:
			return fmt.Errorf("the key %q is there twice%s", key, where)
		case fields != nil && !known:
			return fmt.Errorf("unknown key %q%s", key, where)
		case t != nil && t.Kind() == reflect.Map:
			value = t.Elem()
		}
		seen[key] = true
		if err := checkKeys(d, value, " in "+plain(key)); err != nil {
			return err
		}
	}
	for _, name := range needed {
		if !seen[name] {
			return fmt.Errorf("the key %q is missing%s", name, where)
		}
	}
	return nil
}
