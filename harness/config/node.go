package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"selfheal/internal/lists"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on a config's text, so that hostile YAML costs no more than an error.
const (
	maxBytes = 1 << 20
	maxDepth = 32
)

// position is a place in the config file, or a --set argument (then line is 0).
type position struct {
	source       string // the config's path, or "--set attacks.a.steps=5"
	line, column int    // from 1
}

func (p position) String() string {
	if p.line == 0 {
		return p.source
	}
	return fmt.Sprintf("%s:%d:%d", p.source, p.line, p.column)
}

type nodeKind int

const (
	scalarNode nodeKind = iota
	listNode
	mapNode
)

// node is a YAML value reduced to what a config needs. Every error knows its place.
type node struct {
	kind    nodeKind
	pos     position
	text    string // scalarNode: as written, unquoted
	quoted  bool   // scalarNode: quoted or a block literal, so always text
	flag    string // the command line's flag that gave it; "" for none
	items   []*node
	entries []entry
}

type entry struct {
	key   string
	pos   position // of the key
	value *node
}

func (n *node) get(key string) *node {
	if e := lists.Find(n.entries, func(e entry) bool { return e.key == key }); e != nil {
		return e.value
	}
	return nil
}

// place returns the name of a key's value in messages, in a mapping named where.
func (n *node) place(where, key string) string {
	if v := n.get(key); v != nil && v.flag != "" {
		return v.flag
	}
	return join(where, key)
}

func (n *node) isNull() bool {
	return n.kind == scalarNode && !n.quoted && (n.text == "" || n.text == "~" || strings.EqualFold(n.text, "null"))
}

// describe says what a node is, for "must be …, not …".
func (n *node) describe() string {
	switch {
	case n.kind == listNode:
		return "a list"
	case n.kind == mapNode:
		return "a mapping"
	case n.isNull():
		return "nothing"
	case n.quoted:
		return "the text " + quote(n.text)
	}
	return quote(n.text)
}

var yamlVersionPrefix = regexp.MustCompile(`^\[\d+:\d+\] `)

// parseTree reads one YAML document. Messages call it source.
func parseTree(source string, data []byte) (root *node, err error) {
	whole := position{source: source, line: 1, column: 1}
	if len(data) > maxBytes {
		return nil, errorAt(whole, "the config is larger than %d bytes", maxBytes)
	}
	defer func() {
		// The parser gets arbitrary bytes: a panic in it is reported like any other bad file.
		if r := recover(); r != nil {
			root, err = nil, errorAt(whole, "this can't be parsed as YAML (%v)", r)
		}
	}()
	text := strings.TrimPrefix(string(data), "\ufeff")
	tokens := lexer.Tokenize(text)
	if err := checkTokens(source, tokens); err != nil {
		return nil, err
	}
	file, bad := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if syntax, ok := errors.AsType[*yaml.SyntaxError](bad); ok {
		return nil, errorAt(tokenPosition(source, syntax.Token), "%s", firstLine(syntax.Message))
	} else if bad != nil {
		return nil, errorAt(whole, "%s", firstLine(yamlVersionPrefix.ReplaceAllString(bad.Error(), "")))
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	switch len(docs) {
	case 0:
		return nil, errorAt(whole, "the config is empty; it begins with version: 1")
	case 1:
		c := converter{source: source}
		if root = c.node(docs[0].Body); c.err != nil {
			return nil, c.err
		}
		return root, nil
	}
	return nil, errorAt(tokenPosition(source, docs[1].Body.GetToken()),
		"a config is one YAML document, this begins a second one")
}

// checkTokens refuses what a config does not use and what would cost the parser much: anchors and aliases, tags,
// complex keys, directives, deep nesting.
func checkTokens(source string, tokens token.Tokens) *Error {
	var flow, colons int // number of open brackets; number of colons since the last comma or bracket
	var columns []int    // of the open block collections
	for _, t := range tokens {
		pos := tokenPosition(source, t)
		switch t.Type {
		case token.InvalidType:
			if strings.Contains(t.Error, "'\t'") {
				return errorAt(pos, "a tab stands here; YAML is indented by spaces")
			}
			return errorAt(pos, "%s", firstLine(t.Error))
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return errorAt(pos, "anchors, aliases and merge keys are not allowed in a config; write the value out")
		case token.MappingKeyType:
			return errorAt(pos, "complex keys (?) are not allowed in a config")
		case token.DirectiveType:
			return errorAt(pos, "directives (%%) are not allowed in a config")
		case token.TagType:
			return errorAt(pos, "tags (%s) are not allowed in a config", quote(t.Value))
		case token.SequenceStartType, token.MappingStartType:
			flow, colons = flow+1, 0
		case token.SequenceEndType, token.MappingEndType:
			flow, colons = flow-1, 0
		case token.CollectEntryType:
			colons = 0
		case token.MappingValueType:
			if colons++; flow > 0 && colons > 1 {
				return errorAt(pos, "a second colon in one entry; is a comma or a pair of quotes missing?")
			}
		}
		if flow <= 0 && (t.Type == token.SequenceEntryType || t.Next != nil && t.Next.Type == token.MappingValueType) {
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
		if flow+len(columns) > maxDepth {
			return errorAt(pos, "nested more than %d levels deep", maxDepth)
		}
	}
	return nil
}

// converter reduces the parser's tree to nodes, up to the first error.
type converter struct {
	source string
	err    *Error
}

func (c *converter) fail(pos position, format string, args ...any) {
	if c.err == nil {
		c.err = errorAt(pos, format, args...)
	}
}

func (c *converter) node(a ast.Node) *node {
	n := &node{pos: tokenPosition(c.source, a.GetToken())}
	switch v := a.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		n.kind = mapNode
		seen := map[string]position{}
		for it := v.(ast.MapNode).MapRange(); it.Next() && c.err == nil; {
			key := c.node(it.Key())
			if len(n.entries) == 0 && (n.pos.line != key.pos.line || n.pos.column > key.pos.column) {
				n.pos = key.pos // a block mapping's own token is its first colon
			}
			if first, ok := seen[key.text]; ok {
				c.fail(key.pos, "duplicate key %s, first given on line %d", quote(key.text), first.line)
			}
			seen[key.text] = key.pos
			n.entries = append(n.entries, entry{key.text, key.pos, c.node(it.Value())})
		}
	case *ast.SequenceNode:
		n.kind = listNode
		n.items = lists.Map(v.Values, c.node)
	case *ast.StringNode:
		n.text, n.quoted = v.Value, v.Token.Type != token.StringType
	case *ast.LiteralNode:
		n.text, n.quoted = v.Value.Value, true
	case *ast.NullNode:
		n.text = "null"
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		n.text = v.GetToken().Value
	default:
		c.fail(n.pos, "this kind of YAML (%s) is not allowed in a config", a.Type())
	}
	return n
}

func tokenPosition(source string, t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{source: source, line: 1, column: 1}
	}
	return position{source: source, line: max(t.Position.Line, 1), column: max(t.Position.Column, 1)}
}

// firstLine returns the first line of a text for a message: not very long, and printable.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, cut(s, 200))
}
