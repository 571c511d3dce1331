// Package onnx reads, checks and writes ONNX models as a small graph type that the other model packages work on. [Read]
// or [ReadFS] loads a file, [Decode] turns its bytes into a [Graph], package simplify brings that into the form that
// rules know, a [Builder] extends it, and [Graph.Encode] writes it. The package owns the table of operators with their
// shapes and slopes. Faults of a user's file are errors that name the place, never panics. It uses no cgo.
package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DType is an element type, numbered as in ONNX's TensorProto.DataType.
type DType int32

// The element types that a [Graph] holds.
const (
	Float      DType = 1
	Uint8      DType = 2
	Int8       DType = 3
	uint16Type DType = 4
	int16Type  DType = 5
	Int32      DType = 6
	Int64      DType = 7
	Bool       DType = 9
)

// The other floating-point types: Decode turns them into Float.
const (
	Float16      DType = 10
	Double       DType = 11
	bfloat16Type DType = 16
)

// Batch is the symbolic batch dimension in a [Shape].
const Batch int64 = -1

// Shape lists dimensions. [Batch] stands for the batch and, in graphs that this program builds, −k for k times the
// batch; every other value is ≥ 0.
type Shape []int64

// Items returns the number of values in one item of the batch: the product of all dimensions except the batch.
func (s Shape) Items() int64 {
	n := int64(1)
	for _, d := range s {
		n *= max(d, -d)
	}
	return n
}

// Single returns the shape with 1 for each open dimension.
func (s Shape) Single() Shape { return Each(s, func(d int64) int64 { return max(d, 1) }) }

// HasBatch reports whether one of the dimensions is the batch or a multiple of it.
func (s Shape) HasBatch() bool { return s.BatchAxis() >= 0 }

// BatchAxis returns the axis that holds the batch or a multiple of it, or -1.
func (s Shape) BatchAxis() int { return slices.IndexFunc(s, func(d int64) bool { return d < 0 }) }

// BeforeBatch returns the product of the dimensions in front of the batch.
func (s Shape) BeforeBatch() int64 { return s[:s.BatchAxis()].Items() }

// String prints the shape as [N 3 32 32].
func (s Shape) String() string {
	sizes := make([]string, len(s))
	for i, d := range s {
		switch {
		case d == Batch:
			sizes[i] = "N"
		case d < 0:
			sizes[i] = fmt.Sprint(-d, "N")
		default:
			sizes[i] = fmt.Sprint(d)
		}
	}
	return "[" + strings.Join(sizes, " ") + "]"
}

// Tensor is a constant. Floats are held in Floats, integers and booleans in Ints.
type Tensor struct {
	DType  DType
	Shape  Shape
	Floats []float32
	Ints   []int64
}

// Scalar returns a float constant of rank 0.
func Scalar(v float32) *Tensor { return &Tensor{DType: Float, Shape: Shape{}, Floats: []float32{v}} }

// FloatTensor returns a float constant; len(data) must be the product of shape.
func FloatTensor(shape Shape, data []float32) *Tensor {
	return &Tensor{DType: Float, Shape: shape, Floats: data}
}

// Transposed returns the transpose of a float matrix.
func (t *Tensor) Transposed() *Tensor {
	rows, columns := t.Shape[0], t.Shape[1]
	out := make([]float32, 0, len(t.Floats))
	for c := range columns {
		for r := range rows {
			out = append(out, t.Floats[r*columns+c])
		}
	}
	return FloatTensor(Shape{columns, rows}, out)
}

// FloatVector returns a float constant of rank 1.
func FloatVector(v []float32) *Tensor { return FloatTensor(Shape{int64(len(v))}, v) }

// Filled returns a float constant that holds v everywhere.
func Filled(v float32, shape ...int64) *Tensor {
	return FloatTensor(shape, slices.Repeat([]float32{v}, int(Shape(shape).Items())))
}

// IntTensor returns an int64 vector.
func IntTensor(v ...int64) *Tensor {
	return &Tensor{DType: Int64, Shape: Shape{int64(len(v))}, Ints: v}
}

// IntScalar returns an int64 constant of rank 0.
func IntScalar(v int64) *Tensor { return &Tensor{DType: Int64, Shape: Shape{}, Ints: []int64{v}} }

// Len returns the number of elements that the tensor holds.
func (t *Tensor) Len() int {
	if t.DType == Float {
		return len(t.Floats)
	}
	return len(t.Ints)
}

// Attrs are a node's attributes: int or int64, float32, string, []string, []int64, []float32, *Tensor, *Subgraph, or
// [unread].
type Attrs map[string]any

// unread stands for a value that is not kept: messages can name all nodes that have one.
type unread struct{}

// Node is one operator.
type Node struct {
	Name    string
	Op      string
	Domain  string // "" for the standard operators
	Inputs  []string
	Outputs []string
	Attrs   Attrs
	Origin  *Origin // nil for a node that is not in the user's file
	// Guard marks a Where that only keeps NaN out: its second input would give the same values everywhere else. See
	// [Builder.Guarded] and [Graph.Unguarded].
	Guard bool
}

// Origin is a node's place in the file that it was read from, for messages.
type Origin struct {
	Index    int    // in the file's list of nodes, from 0
	Opset    int64  // version of the node's operator set
	Function string // the model-local function that it was written in, or ""
}

// Value is a typed graph input or output.
type Value struct {
	Name  string
	DType DType
	Shape Shape
}

// Graph is a feed-forward network: nodes in topological order, each tensor
// named once. Passes take a graph and change it in place; Clone first to keep it.
type Graph struct {
	Name    string
	Opset   int64
	IR      int64
	Inputs  []Value
	Outputs []Value
	Nodes   []*Node
	Consts  map[string]*Tensor
	Shapes  map[string]Shape // of every tensor, set by inference
	Meta    map[string]string

	// Notices tell the user, in one sentence each, about conversions that were needed to run the file.
	Notices []string
	// Inexact is set if the graph differs from the file's function even in exact arithmetic: weights were rounded, or a
	// rounding in the file is left out. A proof about the graph then says nothing about the file.
	Inexact bool
	// Rounds is set if activations are rounded to steps as in the file, except that values next to a tie may round
	// differently. Bounds allow either side.
	Rounds bool
	// Integers are the tensors that are integers (steps) in the file and floats in the graph.
	Integers map[string]bool
	// Opened is set if the graph's batch, or the meaning of its batch, differs from the file's: the graph must be
	// compared with the file, image by image, before its numbers are used.
	Opened bool
	// Steps is set if the answer rises in steps, as a tree ensemble's does: there are no gradients.
	Steps bool
	// Levels is set if the file's input is uint8: it takes the levels 0 to 255 of images in [0,1].
	Levels bool
}

// IsCopy reports whether the file may compute other values than the graph, so that verdicts must come from the file
// itself.
func (g *Graph) IsCopy() bool { return g.Inexact || g.Rounds }

// Clone copies the graph's structure. It shares the constants' data, which no pass changes.
func (g *Graph) Clone() *Graph {
	c := *g
	c.Inputs, c.Outputs = Each(g.Inputs, Value.clone), Each(g.Outputs, Value.clone)
	c.Consts, c.Shapes, c.Meta = maps.Clone(g.Consts), maps.Clone(g.Shapes), maps.Clone(g.Meta)
	c.Notices = slices.Clone(g.Notices)
	c.Nodes = Each(g.Nodes, (*Node).Clone)
	return &c
}

func (v Value) clone() Value {
	v.Shape = slices.Clone(v.Shape)
	return v
}

// Clone copies the node and its attribute map.
func (n *Node) Clone() *Node {
	c := *n
	c.Inputs, c.Outputs, c.Attrs = slices.Clone(n.Inputs), slices.Clone(n.Outputs), maps.Clone(n.Attrs)
	return &c
}

// Producers maps each tensor to the node that writes it.
func (g *Graph) Producers() map[string]*Node {
	m := make(map[string]*Node, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			if o != "" {
				m[o] = n
			}
		}
	}
	return m
}

// Consumers maps each tensor to the nodes that read it, in order, once each.
func (g *Graph) Consumers() map[string][]*Node {
	m := make(map[string][]*Node)
	for _, n := range g.Nodes {
		for i, in := range n.Inputs {
			if in != "" && !slices.Contains(n.Inputs[:i], in) {
				m[in] = append(m[in], n)
			}
		}
	}
	return m
}

// Input returns the name of n's i-th input, or "" if it is absent.
func (n *Node) Input(i int) string {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return ""
}

// Int returns an integer attribute or def.
func (n *Node) Int(name string, def int64) int64 {
	if v, ok := n.Attrs[name].(int); ok {
		return int64(v)
	}
	return attribute(n, name, def)
}

// Float, Str and Ints return an attribute of that type or def.
func (n *Node) Float(name string, def float32) float32 { return attribute(n, name, def) }
func (n *Node) Str(name, def string) string            { return attribute(n, name, def) }
func (n *Node) Ints(name string, def []int64) []int64  { return attribute(n, name, def) }

func attribute[T any](n *Node, name string, def T) T {
	if v, ok := n.Attrs[name].(T); ok {
		return v
	}
	return def
}

// Set stores an attribute.
func (n *Node) Set(name string, v any) {
	if n.Attrs == nil {
		n.Attrs = Attrs{}
	}
	n.Attrs[name] = v
}

// String names the node in messages.
func (n *Node) String() string { return fmt.Sprintf("%s %q", n.Op, n.called()) }

func (n *Node) called() string {
	if n.Name == "" && len(n.Outputs) > 0 {
		return n.Outputs[0]
	}
	return n.Name
}

// Notice adds a sentence to Notices unless it stands there.
func (g *Graph) Notice(text string) {
	if !slices.Contains(g.Notices, text) {
		g.Notices = append(g.Notices, text)
	}
}

// SetInput names the i-th input, inserting absent ones before it if needed.
func (n *Node) SetInput(i int, name string) {
	for len(n.Inputs) <= i {
		n.Inputs = append(n.Inputs, "")
	}
	n.Inputs[i] = name
}

// Opset is the operator-set version that Simplify brings older graphs to, so that rules and emitted operators know one
// form only. Newer graphs keep their version: for the operators used here later versions change only the element types
// they take.
const Opset = 18
