package ort

import (
	"errors"
	"fmt"
	"runtime"

	onnx "github.com/yalue/onnxruntime_go"
)

// Tensor is a float32 tensor of one dimension or more; len(Data) is the product of Shape.
type Tensor struct {
	Shape []int64
	Data  []float32
}

// Session runs a graph on whole tensors, one call at a time and on one thread:
// for graphs whose inputs and outputs are not items of a batch that a [Pool]
// could put together, such as gradients with respect to parameters, which sum
// over the batch. All inputs and outputs are float32.
type Session struct {
	name            string
	inputs, outputs []string
	session         *onnx.DynamicAdvancedSession
}

// Open makes a session of a model's bytes.
func Open(name string, model []byte) (*Session, error) {
	if !initialized() {
		return nil, fmt.Errorf("open %s: %w", name, errNotLoaded)
	}
	in, out, err := declaredPorts(model)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	s := &Session{name: name, inputs: names(in), outputs: names(out)}
	for _, d := range append(in, out...) {
		if d.elemType != elemFloat {
			return nil, fmt.Errorf("open %s: %q is not float32 (ONNX element type %d)", name, d.name, d.elemType)
		}
	}
	options, err := sessionOptions(compileConfig{level: onnx.GraphOptimizationLevelEnableAll})
	if err != nil {
		return nil, fmt.Errorf("open %s: %s", name, oneLine(err))
	}
	defer options.Destroy()
	if s.session, err = onnx.NewDynamicAdvancedSessionWithONNXData(model, s.inputs, s.outputs, options); err != nil {
		return nil, fmt.Errorf("open %s: %s", name, oneLine(err))
	}
	return s, nil
}

// Inputs names the inputs in the order that Run takes them.
func (s *Session) Inputs() []string { return s.inputs }

// Outputs names the outputs in the order that Run gives them.
func (s *Session) Outputs() []string { return s.outputs }

// Run evaluates the graph; the inputs are only read, the results the caller's own.
func (s *Session) Run(in []Tensor) (results []Tensor, err error) {
	if s.session == nil {
		return nil, fmt.Errorf("run %s: the session is closed", s.name)
	}
	if len(in) != len(s.inputs) {
		return nil, fmt.Errorf("run %s: %d inputs are given for %v", s.name, len(in), s.inputs)
	}
	var pinner runtime.Pinner // the runtime keeps pointers into the inputs until it is done
	defer pinner.Unpin()
	bound, out := make([]onnx.Value, len(in)), make([]onnx.Value, len(s.outputs))
	defer func() {
		for _, v := range append(bound, out...) {
			if v != nil {
				v.Destroy()
			}
		}
	}()
	for i, t := range in {
		if len(t.Shape) == 0 || len(t.Data) == 0 || product(t.Shape) != int64(len(t.Data)) {
			return nil, fmt.Errorf("run %s: input %q has %d values for the shape %v", s.name, s.inputs[i], len(t.Data), t.Shape)
		}
		pinner.Pin(&t.Data[0])
		v, err := onnx.NewTensor(onnx.NewShape(t.Shape...), t.Data)
		if err != nil {
			return nil, fmt.Errorf("run %s: input %q: %s", s.name, s.inputs[i], oneLine(err))
		}
		bound[i] = v
	}
	if err := s.session.Run(bound, out); err != nil {
		return nil, fmt.Errorf("run %s: %s", s.name, oneLine(err))
	}
	for _, v := range out {
		t, ok := v.(*onnx.Tensor[float32])
		if !ok {
			return nil, errors.New("run " + s.name + ": an output is not a float32 tensor")
		}
		results = append(results, Tensor{Shape: t.GetShape(), Data: append([]float32(nil), t.GetData()...)})
	}
	return results, nil
}

// Close frees the runtime's memory. A second Close does nothing.
func (s *Session) Close() {
	if s.session != nil {
		s.session.Destroy()
		s.session = nil
	}
}
