// Package onnx reads, checks, simplifies and writes ONNX models, as a small
// graph type that the other model packages work on. It uses no cgo.
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

// Shape lists dimensions; [Batch] stands for the batch, and −k, in graphs that this
// program builds, for k times the batch; every other value is ≥ 0.
type Shape []int64

// Items returns the number of values in one item of the batch: the product of all dimensions but the batch.
func (s Shape) Items() int64 {
	n := int64(1)
	for _, d := range s {
		n *= max(d, -d)
	}
	return n
}

// Single is the shape with 1 for each open dimension.
func (s Shape) Single() Shape { return Each(s, func(d int64) int64 { return max(d, 1) }) }

// HasBatch reports whether one of the dimensions is the batch or a multiple of it.
func (s Shape) HasBatch() bool { return s.BatchAxis() >= 0 }

// BatchAxis is the axis that holds the batch or a multiple of it, or -1.
func (s Shape) BatchAxis() int { return slices.IndexFunc(s, func(d int64) bool { return d < 0 }) }

// BeforeBatch is the number of values that a step of the batch lies after.
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

// Transposed is the transpose of a float matrix.
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

// Len is the number of elements that the tensor holds.
func (t *Tensor) Len() int {
	if t.DType == Float {
		return len(t.Floats)
	}
	return len(t.Ints)
}

// Attrs are a node's attributes: int or int64, float32, string, []int64, []float32, *Tensor, *Subgraph, or [opaque].
type Attrs map[string]any

// opaque stands for a value that is not kept: it lets messages name all nodes that have one.
type opaque string

const (
	unread opaque = "unread"
)

// Node is one operator.
type Node struct {
	Name    string
	Op      string
	Domain  string // "" for the standard operators
	Inputs  []string
	Outputs []string
	Attrs   Attrs
	Origin  *Origin // nil for a node that the user's file does not have
	// Guard marks a Where whose second input would serve as well in all places, but for NaN that comes of it: see
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
	Shapes  map[string]Shape // of every tensor, after Infer
	Meta    map[string]string

	// Notices tell the user what was done to the file to make it run, one
	// sentence each: conversions that its results stand on.
	Notices []string
	// Inexact says that the graph is not the file's function even in exact arithmetic: weights were rounded, or
	// what rounds in the file is left out. A proof about the graph is none about the file.
	Inexact bool
	// Rounds says that activations are rounded to steps, as the file rounds them, but for values next to a tie. Bounds
	// leave room for either side.
	Rounds bool
	// Integers are the tensors that the file holds as integers, by steps, and the graph as floats.
	Integers map[string]bool
	// Opened says that the file holds another batch, or another meaning of it, than the graph: before its numbers are
	// used it is to be held against the file, image by image.
	Opened bool
	// Levels says that the file's input is uint8: it takes the levels 0 to 255 of images in [0,1].
	Levels bool
}

// IsCopy reports whether the file computes otherwise than the graph, and is to be asked itself.
func (g *Graph) IsCopy() bool { return g.Inexact || g.Rounds }

// Clone copies the graph's structure; constants' data is shared, as no pass writes to it.
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

// Input returns the name of n's i-th input, or "" when it is absent.
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

// Float returns a float attribute or def.
func (n *Node) Float(name string, def float32) float32 { return attribute(n, name, def) }

// Str returns a string attribute or def.
func (n *Node) Str(name, def string) string { return attribute(n, name, def) }

// Ints returns an integer-list attribute or def.
func (n *Node) Ints(name string, def []int64) []int64 { return attribute(n, name, def) }

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

// SetInput names the i-th input, after absent ones where there are fewer.
func (n *Node) SetInput(i int, name string) {
	for len(n.Inputs) <= i {
		n.Inputs = append(n.Inputs, "")
	}
	n.Inputs[i] = name
}

// Opset is the operator-set version that Simplify brings older graphs to, so that rules and emitted operators know one
// form only. Newer graphs keep theirs: what later versions changed of the operators used here is only which element
// types they take.
const Opset = 18
