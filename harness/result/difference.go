package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"selfheal/internal/lists"
)

// Difference is a value that two values do not share in their JSON.
type Difference struct {
	Path        string // its place
	Before, Now any    // nil if absent; numbers are [json.Number]
}

// Say writes the two values, with a word for each text.
func (d Difference) Say(before, now string) string {
	return fmt.Sprintf("%s: %s %s, %s %s", d.Path, before, shown(d.Before), now, shown(d.Now))
}

// SayFirst writes the first few differences, and how many more there are.
func SayFirst(list []Difference, before, now string) string {
	const most = 3
	texts := lists.Map(list[:min(len(list), most)], func(d Difference) string { return d.Say(before, now) })
	if more := len(list) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case []any:
		words := lists.Map(v, shown)
		if most := 12; len(words) > most {
			words = append(words[:most], fmt.Sprintf("… (%d)", len(v)))
		}
		return "[" + strings.Join(words, ", ") + "]"
	case map[string]any: // an item of a list that has become longer or shorter
		if kind, ok := v["kind"]; ok {
			return shown(kind)
		}
		return shown(v["at"])
	}
	return fmt.Sprint(v)
}

// Differences compares the JSON of two values, which must have one, field by field.
func Differences(before, now any) []Difference { return differences("", decoded(before), decoded(now)) }

// decoded returns a value in the form of its JSON.
func decoded(v any) (of any) {
	data, err := json.Marshal(v)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber() // seeds have more digits than a float64
		err = d.Decode(&of)
	}
	if err != nil {
		panic("result: a value has no JSON: " + err.Error()) // its numbers are finite
	}
	return of
}

func differences(path string, before, now any) (list []Difference) {
	x, isMap := before.(map[string]any)
	y, areMaps := now.(map[string]any)
	if (isMap || areMaps) && (isMap || before == nil) && (areMaps || now == nil) {
		keys := map[string]any{}
		maps.Copy(keys, x)
		maps.Copy(keys, y)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			list = append(list, differences(strings.TrimPrefix(path+"."+key, "."), x[key], y[key])...)
		}
		return list
	}
	p, isList := before.([]any)
	q, areLists := now.([]any)
	if isList && areLists && len(p) == len(q) && slices.ContainsFunc(p, func(v any) bool {
		_, ok := v.(map[string]any)
		return ok
	}) {
		for i := range p {
			list = append(list, differences(fmt.Sprintf("%s[%d]", path, i), p[i], q[i])...)
		}
		return list
	}
	if !reflect.DeepEqual(before, now) {
		return []Difference{{path, before, now}}
	}
	return nil
}
