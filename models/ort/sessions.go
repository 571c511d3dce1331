package ort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	rt "github.com/yalue/onnxruntime_go"
	"golang.org/x/sync/errgroup"

	"selfheal/models/onnx"
)

// Tensor is a float32 tensor of one dimension or more; len(Data) is the product of Shape.
type Tensor struct {
	Shape []int64
	Data  []float32
}

// Session runs a graph on whole float32 tensors, each call on one thread: for what is no item of a batch that a [Pool]
// could put together, as gradients with respect to parameters, which sum over the batch.
type Session struct {
	name    string
	in, out []onnx.Value
	session *rt.DynamicAdvancedSession
}

// Open makes a session of a model's bytes.
func Open(name string, model []byte) (*Session, error) {
	in, out, err := declared(model)
	s := &Session{name: name, in: in, out: out}
	if err == nil {
		s.session, err = newSession(model, in, out, compileConfig{})
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %s", name, oneLine(err))
	}
	return s, nil
}

// Inputs names the inputs in the order that Run takes them.
func (s *Session) Inputs() []string { return names(s.in) }

// Outputs names the outputs in the order that Run gives them.
func (s *Session) Outputs() []string { return names(s.out) }

// Run evaluates the graph; the inputs are only read, the results the caller's own.
func (s *Session) Run(in []Tensor) (results []Tensor, err error) {
	err = s.run(in, func(out rt.Value) error {
		t, ok := out.(*rt.Tensor[float32])
		if !ok {
			return errors.New("an output is not a float32 tensor")
		}
		results = append(results, Tensor{Shape: t.GetShape(), Data: slices.Clone(t.GetData())})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: %s", s.name, oneLine(err))
	}
	return results, nil
}

// run evaluates the graph and has each output read before it is destroyed.
func (s *Session) run(in []Tensor, read func(out rt.Value) error) (err error) {
	if s.session == nil {
		return errors.New("the session is closed")
	}
	if len(in) != len(s.in) {
		return fmt.Errorf("%d inputs are given for %v", len(in), s.Inputs())
	}
	var pinner runtime.Pinner // the runtime keeps pointers into the inputs until it is done
	defer pinner.Unpin()
	bound, out := make([]rt.Value, len(in)), make([]rt.Value, len(s.out))
	defer func() {
		for _, v := range append(bound, out...) {
			if v != nil {
				v.Destroy()
			}
		}
	}()
	for i, t := range in {
		shape := rt.NewShape(t.Shape...)
		if len(t.Data) == 0 || shape.FlattenedSize() != int64(len(t.Data)) {
			return fmt.Errorf("input %q has %d values for the shape %v", s.in[i].Name, len(t.Data), t.Shape)
		}
		if s.in[i].DType == onnx.Double {
			wide := make([]float64, len(t.Data))
			for j, v := range t.Data {
				wide[j] = float64(v)
			}
			bound[i], err = tensor(&pinner, shape, wide)
		} else {
			bound[i], err = tensor(&pinner, shape, t.Data)
		}
		if err != nil {
			return fmt.Errorf("input %q: %w", s.in[i].Name, err)
		}
	}
	if err := s.session.Run(bound, out); err != nil {
		return err
	}
	for _, v := range out {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// tensor is one over data that stays in its place until the pinner lets it go.
func tensor[T rt.TensorData](pinner *runtime.Pinner, shape rt.Shape, data []T) (rt.Value, error) {
	pinner.Pin(&data[0])
	t, err := rt.NewTensor(shape, data)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Close frees the runtime's memory. A second Close does nothing.
func (s *Session) Close() {
	if s.session != nil {
		s.session.Destroy()
		s.session = nil
	}
}

// Sessions are one model opened several times, for runs side by side.
type Sessions []*Session

// OpenAll opens a graph n times. Close the sessions when done.
func OpenAll(name string, graph interface{ Encode() ([]byte, error) }, n int) (Sessions, error) {
	model, err := graph.Encode()
	if err != nil {
		return nil, err
	}
	var all Sessions
	for range n {
		s, err := Open(name, model)
		if err != nil {
			all.Close()
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Close frees the sessions.
func (all Sessions) Close() {
	for _, s := range all {
		s.Close()
	}
}

// InOrder runs the tasks 0 … tasks−1: workers compute side by side, and what they compute is added one at a time in the
// order of the tasks, so that sums do not depend on the workers. The first error, or ctx's, ends the rest.
func InOrder[T any](ctx context.Context, workers, tasks int, compute func(worker, task int) (T, error),
	add func(task int, v T)) error {
	turns := make([]chan struct{}, tasks+1) // closed when all tasks before have been added
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	close(turns[0])
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for w := range min(workers, tasks) {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < tasks; i = int(next.Add(1)) - 1 {
				v, err := compute(w, i)
				select {
				case <-ctx.Done():
				case <-turns[i]:
				}
				if err := cmp.Or(ctx.Err(), err); err != nil {
					return err
				}
				add(i, v)
				close(turns[i+1])
			}
			return nil
		})
	}
	return group.Wait()
}
