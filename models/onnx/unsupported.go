package onnx

import (
	_ "embed" // attributes.txt
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// UnsupportedError says that operators of a model prevent what was asked for. It names every such node.
type UnsupportedError struct {
	Nodes []*Node // in the graph's order
	what  string
	hints []string
}

// Unsupported returns an [UnsupportedError] about nodes, or nil if there are none. what begins its message: "no
// gradient rule for".
func Unsupported(what string, nodes []*Node) error {
	if len(nodes) == 0 {
		return nil
	}
	e := &UnsupportedError{Nodes: nodes, what: what}
	for _, n := range nodes {
		for _, h := range unsupportedHints {
			if h.fits(n) && !slices.Contains(e.hints, h.text) {
				e.hints = append(e.hints, h.text)
			}
		}
	}
	return e
}

// unsupportedHints tells the user what to do about some operators.
var unsupportedHints = []struct {
	fits func(n *Node) bool
	text string
}{
	{func(n *Node) bool { return len(n.subgraphs()) > 0 }, "export the network without branches and loops that " +
		"depend on the input, because a subgraph makes it more than feed-forward"},
	{func(n *Node) bool { return integerOperator.MatchString(opName(n)) }, "export the quantised network in QDQ " +
		"form, with QuantizeLinear and DequantizeLinear around float operators"},
}

// integerOperator matches operators that compute on quantised values.
var integerOperator = regexp.MustCompile(`^com\.microsoft\.(Q[A-Z]|.*NBits|.*Quantize)`)

// mostPlaces bounds the number of nodes, or other names, in a message.
const mostPlaces = 5

// Few lists the first names and counts the others.
func Few(names []string) string {
	listed := slices.Clone(names[:min(len(names), mostPlaces)])
	if more := len(names) - len(listed); more > 0 {
		listed = append(listed, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(listed, ", ")
}

// Error says what the user can do and names the nodes of each operator: X (operator set 16) at node 12 "/a/X", node 40
// "/b/X"; Y … Nodes are numbered from 0, as in the file.
func (e *UnsupportedError) Error() string {
	groups := e.Groups()
	listed, left := make([]int, len(groups)), min(mostPlaces, len(e.Nodes))
	for round := 0; left > 0; round++ {
		for i, g := range groups {
			if left > 0 && round < len(g.Places) {
				listed[i]++
				left--
			}
		}
	}
	var parts []string
	for i, g := range groups {
		if listed[i] > 0 {
			parts = append(parts, g.Operator+" at "+strings.Join(g.Places[:listed[i]], ", "))
		}
	}
	if more := len(e.Nodes) - mostPlaces; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d nodes more, which selfheal inspect lists", more))
	}
	return strings.Join(append(slices.Clone(e.hints), e.what+": "+strings.Join(parts, "; ")), "; ")
}

// OperatorGroup lists the nodes of one operator, in words.
type OperatorGroup struct {
	Operator string   `json:"operator"` // "RoiAlign (operator set 16)"
	Places   []string `json:"nodes"`    // `node 12 "/a/RoiAlign"`
}

// Groups lists the nodes by operator, in the order of first occurrence.
func (e *UnsupportedError) Groups() []OperatorGroup {
	var groups []OperatorGroup
	at := map[string]int{}
	for _, n := range e.Nodes {
		name := n.versioned()
		if _, seen := at[name]; !seen {
			at[name] = len(groups)
			groups = append(groups, OperatorGroup{Operator: name})
		}
		g := &groups[at[name]]
		g.Places = append(g.Places, n.place())
	}
	return groups
}

// versioned names the operator with the version of its operator set.
func (n *Node) versioned() string {
	suffix := ""
	switch {
	case n.Origin == nil:
	case n.Domain == "":
		suffix = fmt.Sprintf(" (operator set %d)", n.Origin.Opset)
	case n.Origin.Opset == 0:
		suffix = " (a domain that the model doesn't import)"
	default:
		suffix = fmt.Sprintf(" (version %d of %s)", n.Origin.Opset, n.Domain)
	}
	return opName(n) + suffix
}

// place names the node: its number in the file and its name, or its first output.
func (n *Node) place() string {
	if n.Origin == nil {
		return fmt.Sprintf("%q", n.called())
	}
	return fmt.Sprintf("%s %q", n.Origin, n.called())
}

//go:embed attributes.txt
var attributeList string

// attributesOf maps each operator to its attributes in any version of the standard operator set.
var attributesOf = func() map[string][]string {
	of := map[string][]string{}
	for line := range strings.Lines(attributeList) {
		words := strings.Fields(line)
		of[words[0]] = words[1:]
	}
	return of
}()

// Supported returns an error unless every node has a rule. others reports nodes that simplification expands before any
// rule is needed.
func Supported(nodes []*Node, others func(n *Node) bool) error {
	missing := slices.DeleteFunc(slices.Clone(nodes), func(n *Node) bool {
		_, known := operators[n.Op]
		return (known && n.Domain == "" || others(n)) && len(n.subgraphs()) == 0 &&
			!slices.Contains(slices.Collect(maps.Values(n.Attrs)), any(unread{}))
	})
	if len(missing) > 0 {
		return Unsupported("operators that are not supported", missing)
	}
	for _, n := range nodes { // the runtime refuses it too
		if others(n) {
			continue
		}
		for _, name := range sortedKeys(n.Attrs) {
			if !slices.Contains(attributesOf[n.Op], name) {
				return fmt.Errorf("node %s has the attribute %.80q, which its operator does not have", n, name)
			}
		}
	}
	return nil
}
