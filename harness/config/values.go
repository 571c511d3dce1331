package config

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"

	"selfheal/harness/cell"
	"selfheal/internal/number"
	"selfheal/internal/setting"
	"selfheal/internal/suggest"
)

var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)

// orNone is the interval of a count that may be 0.
var orNone = setting.Interval{Max: math.MaxInt32}

// of returns the value of a setting, an int, float64, bool or string. to stores it.
func of(s setting.Setting, to func(v any)) value {
	decode := func(d *decoder, n *node, where string) {
		plain := s.Type != setting.Choice && s.Type != setting.Time // a text may be in quotes
		text := n.quoted && plain && !(s.Type == setting.Number && strings.Contains(n.text, "/"))
		v, err := s.Read(n.text)
		if n.kind != scalarNode || text || err != nil {
			d.fail(n.pos, "%s must be %s, not %s%s", where, s.Wanted(n.text), n.describe(),
				suggest.Word(n.text, s.Choices))
			return
		}
		to(v)
	}
	return value{decode: decode, schema: s.Schema, want: s.Want()}
}

// scalar returns the value of a setting without a name.
func scalar[T any](s setting.Setting, to *T) value { return of(s, func(v any) { *to = v.(T) }).at(to) }

func whole(to *int, within setting.Interval) value {
	return scalar(setting.Setting{Type: setting.Whole, Within: within}, to)
}

// count reads a whole number from 1 up.
func count(to *int) value { return whole(to, setting.Count) }

func decimal(to *float64, within setting.Interval) value {
	return scalar(setting.Setting{Type: setting.Number, Within: within}, to)
}

func boolean(to *bool) value { return scalar(setting.Setting{Type: setting.Flag}, to) }

func choice(to *string, words []string) value {
	return scalar(setting.Setting{Type: setting.Choice, Choices: words}, to)
}

// custom returns a value for the scalars that take accepts.
func custom(want string, s schema, take func(n *node) (ok bool)) value {
	return value{want: want, schema: func() schema { return s }, decode: func(d *decoder, n *node, where string) {
		if n.kind != scalarNode || !take(n) {
			d.fail(n.pos, "%s must be %s, not %s", where, want, n.describe())
		}
	}}
}

// either returns a value of one of two forms: a scalar, or a list or mapping.
func either(want string, scalar, other value) value {
	decode := func(d *decoder, n *node, where string) {
		if n.kind == scalarNode {
			scalar.decode(d, n, where)
			return
		}
		other.decode(d, n, where)
	}
	return value{decode: decode, want: want, object: other.object, parts: other.parts,
		schema: func() schema { return anyOf(scalar.schema(), other.schema()) }}
}

// scalars are the types that YAML gives a text without quotes.
var scalars = []string{"string", "number", "boolean"}

// text returns a value for a scalar that is not null.
func text(to *string, want string) value {
	return custom(want, schema{"type": scalars, "minLength": 1}, func(n *node) bool {
		*to = n.text
		return n.text != "" && !n.isNull()
	}).at(to)
}

// file reads the path of a file or folder, with slashes on every system.
func file(to *string) value {
	v := text(to, "a path").then(func(*decoder, *node, string) {
		if *to != "" {
			*to = path.Clean(*to)
		}
	})
	v.file = true
	return v
}

// name reads the name of something in another section.
func name(to *string, what, section string) value {
	return text(to, "the name of "+what).then(func(d *decoder, n *node, where string) { d.refer(n, where, section) })
}

// names reads a list of names of things in another section, each at most once.
func names(to *[]string, what, section string, least int) value {
	return list(to, span{least: least, once: true}, func(v *string) value { return name(v, what, section) })
}

// seed reads a number from 0 that fits an int64.
func seed(to *uint64) value {
	bounds := schema{"type": "integer", "minimum": 0, "maximum": int64(math.MaxInt64)}
	return custom("a whole number from 0 up", bounds, func(n *node) (ok bool) {
		v, err := strconv.ParseUint(n.text, 10, 63)
		*to = v
		return err == nil && !n.quoted
	}).at(to)
}

// span describes a list.
type span struct {
	least, most int  // items; most 0: any number
	once        bool // no item occurs twice
	single      bool // a single item may stand without brackets
}

// oneOrMore is a list of different items, of which one may stand without brackets.
var oneOrMore = span{least: 1, once: true, single: true}

// list reads a list of items.
func list[T any](to *[]T, in span, item func(*T) value) value {
	each := item(new(T))
	var listed map[any]bool
	add := func(d *decoder, n *node, where string) {
		var v T
		before := len(d.errs)
		item(&v).decode(d, n, where)
		switch {
		case len(d.errs) > before:
			return
		case in.once && listed[v]:
			d.fail(n.pos, "%s: %s is listed twice", where, n.describe())
			return
		case in.once:
			listed[v] = true
		}
		*to = append(*to, v)
	}
	v := value{want: "a list, each item " + each.want, to: to, decode: func(d *decoder, n *node, where string) {
		*to, listed = (*to)[:0], map[any]bool{}
		switch {
		case in.single && n.kind == scalarNode:
			add(d, n, where)
		case n.kind == scalarNode && !n.isNull():
			d.fail(n.pos, "%s must be a list, not %s; write [%s]", where, n.describe(), shorten(n.text))
		case n.kind != listNode:
			d.fail(n.pos, "%s must be a list, not %s", where, n.describe())
		case in.most > 0 && len(n.items) > in.most:
			d.fail(n.pos, "%s has %d items; %d are the most", where, len(n.items), in.most)
		case len(n.items) < in.least && in.least == 1:
			d.fail(n.pos, "%s must not be empty", where)
		case len(n.items) < in.least:
			d.fail(n.pos, "%s has %d items; %d are needed", where, len(n.items), in.least)
			fallthrough
		default:
			for i, item := range n.items {
				add(d, item, fmt.Sprintf("%s[%d]", where, i))
			}
		}
	}}
	v.schema = func() schema {
		s := schema{"type": "array", "items": each.schema()}
		if in.least > 0 {
			s["minItems"] = in.least
		}
		if in.most > 0 {
			s["maxItems"] = in.most
		}
		if in.once {
			s["uniqueItems"] = true
		}
		if in.single {
			return anyOf(each.schema(), s)
		}
		return s
	}
	v.parts = func(yield func(string, value) bool) {
		for i := range *to {
			if !yield(fmt.Sprintf("[%d]", i), item(&(*to)[i])) {
				return
			}
		}
	}
	if in.single {
		v.want = each.want + ", or a list of such"
	}
	return v
}

// mostNames bounds the names of the user's in a mapping.
const mostNames = 4096

// mapping reads a mapping. key checks each key, and item returns the value for it.
func mapping(want string, key func(d *decoder, e entry, where string), item func(key string) value) value {
	shape := func() schema {
		return schema{"type": "object", "additionalProperties": item("").schema(), "maxProperties": mostNames}
	}
	return value{schema: shape, want: want, decode: func(d *decoder, n *node, where string) {
		if n.kind != mapNode {
			d.fail(n.pos, "%s must be %s, not %s", where, want, n.describe())
			return
		}
		if len(n.entries) > mostNames {
			d.fail(n.pos, "%s has %d entries; %d are the most", where, len(n.entries), mostNames)
			return
		}
		for _, e := range n.entries {
			key(d, e, where)
			item(e.key).decode(d, e.value, n.place(where, e.key))
		}
	}}
}

// named reads a mapping from the user's names to objects. reserved refuses the name none.
func named[T any](to *[]T, nameOf func(*T) string, reserved bool, item func(name string, t *T) object) value {
	check := func(d *decoder, e entry, where string) {
		if problem := nameProblem(e.key); problem != "" {
			d.fail(e.pos, "%s can't be a name in %s: %s", quote(e.key), where, problem)
		}
		if reserved && e.key == cell.None {
			d.fail(e.pos, "%s: the name none is always defined; choose another", join(where, e.key))
		}
	}
	v := mapping("a mapping from names to settings", check, func(name string) value {
		var v T
		return item(name, &v).value().then(func(*decoder, *node, string) { *to = append(*to, v) })
	})
	v.to = to
	v.parts = func(yield func(string, value) bool) {
		for i := range *to {
			if t := &(*to)[i]; !yield("."+nameOf(t), item(nameOf(t), t).value()) {
				return
			}
		}
	}
	shape := v.schema
	v.schema = func() schema {
		s, names := shape(), schema{"type": "string", "maxLength": 100, "pattern": namePattern}
		if reserved {
			names["not"] = schema{"const": cell.None}
		}
		s["propertyNames"] = names
		return s
	}
	return v
}

// namePattern is the schema's pattern for names.
const namePattern = `^[\p{L}\p{Nd}][\p{L}\p{Nd}_.+@-]*$`

var nameForm = regexp.MustCompile(namePattern)

// nameProblem says why a name can't be used, or returns "". Names become parts of file names.
func nameProblem(name string) string {
	if name == "" || len(name) > 100 {
		return "it must have 1 to 100 characters"
	}
	if !nameForm.MatchString(name) {
		return "it may hold letters, digits and - _ . + @ and begins with a letter or digit"
	}
	return ""
}

// percentage reads a number in per cent and keeps the nearest float64 to the fraction: 94.71 becomes 0.9471.
func percentage(to *float64) value {
	within := setting.Setting{Type: setting.Number, Within: setting.Interval{Max: 100}, Unit: "per cent"}
	return of(within, func(v any) {
		*to, _ = number.Parse(strconv.FormatFloat(v.(float64), 'f', -1, 64) + "e-2")
	})
}
