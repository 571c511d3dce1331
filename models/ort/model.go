package ort

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Port is one input or output of a program, seen for a single item.
type Port struct {
	Name string
	// Shape is that of one item, without the batch dimension; empty for one
	// number an item.
	Shape []int64
	// Size is the number of values of one item, the product of Shape; Compile
	// fills it in.
	Size int
}

// declared is a graph input or output as the model's file declares it.
type declared struct {
	name     string
	elemType uint64
	hasShape bool
	dims     []int64 // -1: symbolic or unknown
}

const elemFloat = 1

// declaredPorts reads the graph's inputs (without initializers) and outputs
// from the protobuf. The runtime would need a second session to tell them.
func declaredPorts(model []byte) (inputs, outputs []declared, err error) {
	weights := map[string]bool{}
	err = fields(model, func(num protowire.Number, graph []byte, _ uint64) error {
		if num != 7 { // ModelProto.graph
			return nil
		}
		return fields(graph, func(num protowire.Number, b []byte, _ uint64) error {
			switch num {
			case 5: // GraphProto.initializer
				return fields(b, func(num protowire.Number, b []byte, _ uint64) error {
					if num == 8 { // TensorProto.name
						weights[string(b)] = true
					}
					return nil
				})
			case 11, 12: // GraphProto.input, output
				d, err := valueInfo(b)
				if num == 11 {
					inputs = append(inputs, d)
				} else {
					outputs = append(outputs, d)
				}
				return err
			}
			return nil
		})
	})
	if err != nil {
		return nil, nil, err
	}
	free := inputs[:0]
	for _, in := range inputs {
		if !weights[in.name] {
			free = append(free, in)
		}
	}
	if len(outputs) == 0 {
		return nil, nil, errors.New("not an ONNX model")
	}
	return free, outputs, nil
}

// valueInfo reads a ValueInfoProto whose type is a tensor.
func valueInfo(b []byte) (d declared, err error) {
	err = fields(b, func(num protowire.Number, b []byte, _ uint64) error {
		switch num {
		case 1: // name
			d.name = string(b)
		case 2: // type
			return fields(b, func(num protowire.Number, b []byte, _ uint64) error {
				if num != 1 { // TypeProto.tensor_type
					return nil
				}
				return fields(b, func(num protowire.Number, b []byte, v uint64) error {
					switch num {
					case 1: // Tensor.elem_type
						d.elemType = v
					case 2: // Tensor.shape
						d.hasShape = true
						return fields(b, func(num protowire.Number, b []byte, _ uint64) error {
							if num != 1 { // TensorShapeProto.dim
								return nil
							}
							dim := int64(-1)
							err := fields(b, func(num protowire.Number, _ []byte, v uint64) error {
								if num == 1 { // Dimension.dim_value
									dim = int64(v)
								}
								return nil
							})
							d.dims = append(d.dims, dim)
							return err
						})
					}
					return nil
				})
			})
		}
		return nil
	})
	return d, err
}

// fields calls visit for each field of a message: with its bytes, or with its
// number if it is a varint.
func fields(b []byte, visit func(num protowire.Number, b []byte, v uint64) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errors.New("not an ONNX model")
		}
		b = b[n:]
		var value []byte
		var v uint64
		switch typ {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errors.New("not an ONNX model")
		}
		b = b[n:]
		if err := visit(num, value, v); err != nil {
			return err
		}
	}
	return nil
}

// matchPorts checks the wanted ports of one side against the declared ones, or
// takes all declared ones if want is nil.
func matchPorts(side string, want []Port, have []declared) ([]Port, error) {
	if want == nil {
		for _, d := range have {
			p := Port{Name: d.name}
			if len(d.dims) > 0 {
				p.Shape = d.dims[1:]
			}
			want = append(want, p)
		}
	}
	ports := make([]Port, len(want))
	for i, w := range want {
		d, ok := find(have, w.Name)
		if !ok {
			return nil, fmt.Errorf("the model has no %s %q, it has %s", side, w.Name, names(have))
		}
		if err := w.matches(side, d); err != nil {
			return nil, err
		}
		ports[i] = Port{Name: w.Name, Shape: append([]int64(nil), w.Shape...), Size: int(product(w.Shape))}
		if w.Size != 0 && w.Size != ports[i].Size {
			return nil, fmt.Errorf("%s %q: size %d does not fit its shape %v", side, w.Name, w.Size, w.Shape)
		}
		for _, other := range want[:i] {
			if other.Name == w.Name {
				return nil, fmt.Errorf("%s %q is named twice", side, w.Name)
			}
		}
	}
	return ports, nil
}

// matches checks one port against its declaration.
func (w Port) matches(side string, d declared) error {
	if d.elemType != elemFloat {
		return fmt.Errorf("%s %q is not float32 (ONNX element type %d)", side, w.Name, d.elemType)
	}
	for _, n := range w.Shape {
		if n <= 0 {
			return fmt.Errorf("%s %q: the shape of an item must be known and positive, it is %v", side, w.Name, w.Shape)
		}
	}
	if !d.hasShape {
		return nil // the runtime compares the shape at each run
	}
	if len(d.dims) == 0 || d.dims[0] >= 0 {
		return fmt.Errorf("%s %q has no symbolic batch dimension, its shape is %v", side, w.Name, d.dims)
	}
	fits := len(d.dims) == len(w.Shape)+1
	for i := 0; fits && i < len(w.Shape); i++ {
		fits = d.dims[i+1] < 0 || d.dims[i+1] == w.Shape[i]
	}
	if !fits {
		return fmt.Errorf("%s %q: the model's shape is %v, wanted is [-1 and %v]", side, w.Name, d.dims, w.Shape)
	}
	return nil
}

func find(list []declared, name string) (declared, bool) {
	for _, d := range list {
		if d.name == name {
			return d, true
		}
	}
	return declared{}, false
}

func names(list []declared) (out []string) {
	for _, d := range list {
		out = append(out, d.name)
	}
	return out
}

func portNames(ports []Port) (out []string) {
	for _, p := range ports {
		out = append(out, p.Name)
	}
	return out
}

func product(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}
