package ort

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	onnx "github.com/yalue/onnxruntime_go"
)

// Tensor is a float32 tensor of one dimension or more; len(Data) is the product of Shape.
type Tensor struct {
	Shape []int64
	Data  []float32
}

// Session runs a graph on whole tensors, one call at a time and on one thread. It is
// for graphs whose inputs and outputs are no items of a batch that a [Pool] could put
// together: gradients with respect to parameters, say, sum over the batch. All inputs
// and outputs are float32.
type Session struct {
	name            string
	inputs, outputs []string
	session         *onnx.DynamicAdvancedSession
}

// Open makes a session of a model's bytes.
func Open(name string, model []byte) (*Session, error) {
	in, out, err := declared(model)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	s := &Session{name: name, inputs: names(in), outputs: names(out)}
	if s.session, err = newSession(model, in, out, compileConfig{}); err != nil {
		return nil, fmt.Errorf("open %s: %s", name, oneLine(err))
	}
	return s, nil
}

// Inputs names the inputs in the order that Run takes them.
func (s *Session) Inputs() []string { return s.inputs }

// Outputs names the outputs in the order that Run gives them.
func (s *Session) Outputs() []string { return s.outputs }

// Run evaluates the graph; the inputs are only read, the results the caller's own.
func (s *Session) Run(in []Tensor) ([]Tensor, error) {
	results, err := s.run(in)
	if err != nil {
		return nil, fmt.Errorf("run %s: %s", s.name, oneLine(err))
	}
	return results, nil
}

func (s *Session) run(in []Tensor) (results []Tensor, err error) {
	if s.session == nil {
		return nil, errors.New("the session is closed")
	}
	if len(in) != len(s.inputs) {
		return nil, fmt.Errorf("%d inputs are given for %v", len(in), s.inputs)
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
		shape := onnx.NewShape(t.Shape...)
		if len(t.Shape) == 0 || len(t.Data) == 0 || shape.FlattenedSize() != int64(len(t.Data)) {
			return nil, fmt.Errorf("input %q has %d values for the shape %v", s.inputs[i], len(t.Data), t.Shape)
		}
		pinner.Pin(&t.Data[0])
		if bound[i], err = onnx.NewTensor(shape, t.Data); err != nil {
			return nil, fmt.Errorf("input %q: %w", s.inputs[i], err)
		}
	}
	if err := s.session.Run(bound, out); err != nil {
		return nil, err
	}
	for _, v := range out {
		t, ok := v.(*onnx.Tensor[float32])
		if !ok {
			return nil, errors.New("an output is not a float32 tensor")
		}
		results = append(results, Tensor{Shape: t.GetShape(), Data: slices.Clone(t.GetData())})
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
