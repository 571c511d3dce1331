package ort

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/x448/float16"
	rt "github.com/yalue/onnxruntime_go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/cpu"

	"selfheal/models/onnx"
)

// Tensor is a float32 tensor of one dimension or more; len(Data) is the product of Shape.
type Tensor struct {
	Shape []int64
	Data  []float32
}

// Session runs a graph on whole float32 tensors, each call on one thread. It is for graphs that do not work item by
// item, such as gradients with respect to parameters, which sum over the batch; those can't run in a [Pool].
type Session struct {
	name         string
	on           Target
	in, fed, out []onnx.Value // fed are the inputs that the sessions have
	sessions     sessions
	// exactly opens a session of the same graph whose masks select, at the first run in which this one, whose masks
	// multiply, returns NaN: see [onnx.Graph.Unguarded]. nil: this session is exact itself.
	exactly func() (*Session, error)
	exact   *Session // once opened
}

// Open makes a session of a model's bytes.
func Open(name string, model []byte) (*Session, error) {
	return open(name, model, compileConfig{})
}

func open(name string, model []byte, cfg compileConfig) (*Session, error) {
	in, out, err := declared(model)
	s := &Session{name: name, on: cfg.on, in: in, fed: in, out: out}
	switch {
	case err != nil:
	case cfg.on.Row().sizes != nil: // sessions are opened for the sizes of runs as they come
		var g *onnx.Graph
		if g, err = forOpenVINO(model); err == nil {
			s.fed = g.Inputs
			s.sessions.open = func(items int) (*rt.DynamicAdvancedSession, error) { return openFixed(g, items, cfg) }
		}
	default:
		s.sessions.open = func(int) (*rt.DynamicAdvancedSession, error) { return newSession(model, in, out, cfg) }
		_, err = s.sessions.of(cfg.on, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %s", name, oneLine(err))
	}
	return s, nil
}

// sessions opens a session for each number of items that runs have, if the provider's runs have fixed sizes, or one for
// any number.
type sessions struct {
	open    func(items int) (*rt.DynamicAdvancedSession, error)
	opening sync.Mutex
	all     map[int]*rt.DynamicAdvancedSession // by the number of items; 0: any number
}

// of returns the session for runs of this many items, which it opens on first use.
func (s *sessions) of(on Target, items int) (session *rt.DynamicAdvancedSession, err error) {
	if on.Row().sizes == nil {
		items = 0
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if session = s.all[items]; session != nil {
		return session, nil
	}
	if s.open == nil {
		return nil, errors.New("the session is closed")
	}
	if session, err = s.open(items); err != nil {
		return nil, on.explain(err)
	}
	if s.all == nil {
		s.all = map[int]*rt.DynamicAdvancedSession{}
	}
	if s.all[items] = session; items == 0 {
		s.open = nil // frees the model too
	}
	return session, nil
}

func (s *sessions) close() {
	for _, session := range s.all {
		session.Destroy()
	}
	s.open, s.all = nil, nil
}

// Inputs returns the names of the inputs in the order in which Run takes them.
func (s *Session) Inputs() []string { return names(s.in) }

// Outputs returns the names of the outputs in the order in which Run returns them.
func (s *Session) Outputs() []string { return names(s.out) }

// Run evaluates the graph. It only reads the inputs; the results belong to the caller.
func (s *Session) Run(in []Tensor) (results []Tensor, err error) {
	err = s.run(in, func(out rt.Value) error {
		t, ok := out.(*rt.Tensor[float32])
		if !ok {
			return errors.New("an output is not a float32 tensor")
		}
		results = append(results, Tensor{Shape: t.GetShape(), Data: t.GetData()}) // a copy in Go's memory
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: %s", s.name, oneLine(err))
	}
	if s.exactly != nil && slices.ContainsFunc(results, func(t Tensor) bool { return anyNaN(t.Data) }) {
		exact, err := s.exactly()
		if err != nil {
			return nil, err
		}
		return exact.Run(in)
	}
	return results, nil
}

// run evaluates the graph and calls read for each output before destroying it.
func (s *Session) run(in []Tensor, read func(out rt.Value) error) (err error) {
	if len(in) != len(s.in) {
		return fmt.Errorf("%d inputs are given for %v", len(in), s.Inputs())
	}
	items := 0
	if len(in) > 0 {
		items = int(in[0].Shape[0])
	}
	session, err := s.sessions.of(s.on, items)
	if err != nil {
		return err
	}
	var pinner runtime.Pinner // the runtime keeps pointers into the inputs until it is done
	defer pinner.Unpin()
	bound, out := make([]rt.Value, 0, len(in)), make([]rt.Value, len(s.out))
	defer func() {
		for _, v := range append(bound, out...) {
			if v != nil && !reflect.ValueOf(v).IsNil() { // the bindings leave nil pointers when they fail
				v.Destroy()
			}
		}
	}()
	for i, t := range in {
		shape := rt.NewShape(t.Shape...)
		if len(t.Data) == 0 || shape.FlattenedSize() != int64(len(t.Data)) {
			return fmt.Errorf("input %q has %d values for the shape %v", s.in[i].Name, len(t.Data), t.Shape)
		}
		if len(s.fed) == len(bound) || s.fed[len(bound)].Name != s.in[i].Name { // nothing reads it
			continue
		}
		var v rt.Value
		switch s.in[i].DType {
		case onnx.Double:
			v, err = tensor(&pinner, shape, onnx.Each(t.Data, func(v float32) float64 { return float64(v) }))
		case onnx.Float16:
			v, err = halves(shape, t.Data)
		case onnx.Uint8:
			level := func(v float32) uint8 { return uint8(math.Round(float64(min(max(v, 0), 255)))) }
			v, err = tensor(&pinner, shape, onnx.Each(t.Data, level))
		default:
			v, err = tensor(&pinner, shape, t.Data)
		}
		if err != nil {
			return fmt.Errorf("input %q: %w", s.in[i].Name, err)
		}
		bound = append(bound, v)
	}
	for i, o := range s.out {
		if o.DType != onnx.Float16 { // the bindings can't make a float16 output
			continue
		}
		shape := o.Shape.Single()
		if len(shape) == 0 {
			return fmt.Errorf("output %q is float16, and the file does not say its shape", o.Name)
		}
		if out[i], err = halves(rt.NewShape(shape...), make([]float32, shape.Items())); err != nil {
			return err
		}
	}
	if err := session.Run(bound, out); err != nil {
		return err
	}
	for _, v := range out {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// tensor wraps data, which the pinner keeps in place.
func tensor[T rt.TensorData](pinner *runtime.Pinner, shape rt.Shape, data []T) (rt.Value, error) {
	pinner.Pin(&data[0])
	t, err := rt.NewTensor(shape, data)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// halves makes a tensor of the nearest float16 values.
func halves(shape rt.Shape, data []float32) (rt.Value, error) {
	raw := make([]byte, 0, 2*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint16(raw, float16.Fromfloat32(v).Bits())
	}
	t, err := rt.NewCustomDataTensor(shape, raw, rt.TensorElementDataTypeFloat16)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Close frees the runtime's memory. Closing it again, or a nil session, does nothing.
func (s *Session) Close() {
	if s != nil {
		s.sessions.close()
		s.exact.Close()
	}
}

// Original runs a model file unchanged, one item at a time, in a session of its own, without any of the rewriting done
// when a model is opened. Answers about the file are checked by it.
type Original struct {
	session *Session
	shapes  []onnx.Shape // of the inputs, with 1 for open dimensions
}

// OpenOriginal makes the session. outputs are the outputs to read, in order; "" is the first. Close the session when
// done.
func OpenOriginal(name string, f *onnx.File, outputs ...string) (*Original, error) {
	return openOriginal(name, f, f.Data, outputs...)
}

// OpenLabelled makes the session of a file's [onnx.File.Labelled], to read its label.
func OpenLabelled(name string, f *onnx.File, label string) (*Original, error) {
	return openOriginal(name, f, f.Labelled, label)
}

// openOriginal makes the session of data, whose inputs and outputs the file has.
func openOriginal(name string, f *onnx.File, data []byte, outputs ...string) (_ *Original, err error) {
	o := &Original{session: &Session{name: name}}
	defer func() {
		if err != nil {
			err = o.error(err)
		}
	}()
	in, all, err := onnx.Ports(f.Data)
	if err != nil {
		return nil, err
	}
	path, named := f.Path, func(v onnx.Value) bool { return v.Name == outputs[0] || outputs[0] == "" }
	if len(outputs) == 1 && !slices.ContainsFunc(all, named) {
		if inner, ok := onnx.EndingAt(data, outputs[0]); ok {
			data, path = inner, ""
			_, all, err = onnx.Ports(data)
		}
	}
	var out []onnx.Value
	for _, name := range outputs {
		at := slices.IndexFunc(all, func(v onnx.Value) bool { return v.Name == name || name == "" })
		if at < 0 {
			return nil, fmt.Errorf("it has %d outputs, and none is called %.80q", len(all), name)
		}
		out = append(out, all[at])
	}
	for i, v := range slices.Concat(in, out) {
		known := []onnx.DType{onnx.Float, onnx.Float16, onnx.Double, onnx.Uint8}
		if i >= len(in) {
			known = append(known[:3], onnx.Int64, onnx.Int32) // labels
		}
		if !slices.Contains(known, v.DType) {
			return nil, fmt.Errorf("%q is of ONNX's element type %d, which is not read", v.Name, v.DType)
		}
	}
	o.shapes = make([]onnx.Shape, len(in))
	for i, v := range in {
		o.shapes[i] = v.Shape.Single()
	}
	o.session.in, o.session.fed, o.session.out = in, in, out
	o.session.sessions.open = func(int) (*rt.DynamicAdvancedSession, error) {
		return newSession(data, in, out, compileConfig{path: path})
	}
	_, err = o.session.sessions.of(Target{}, 0)
	return o, err
}

func (o *Original) error(err error) error {
	return fmt.Errorf("%s as it lies: %s", o.session.name, oneLine(err))
}

// Inputs returns the number of values of all inputs.
func (o *Original) Inputs() (n int) {
	for _, shape := range o.shapes {
		n += int(shape.Items())
	}
	return n
}

// Shape returns the first input's shape, with 1 for open dimensions.
func (o *Original) Shape() onnx.Shape { return o.shapes[0] }

// Take gives the first input another shape, if the file leaves it open.
func (o *Original) Take(shape onnx.Shape) { o.shapes[0] = shape.Single() }

// Run evaluates the file on its inputs' values, one input after the other, each in the file's own order, and returns
// its outputs' values. An input of uint8 gets the values rounded. Any number of goroutines may call it at once.
func (o *Original) Run(x []float32) (y []float64, err error) {
	if len(x) != o.Inputs() {
		return nil, o.error(fmt.Errorf("it takes %d values, not %d", o.Inputs(), len(x)))
	}
	var in []Tensor
	for _, shape := range o.shapes {
		n := shape.Items()
		in, x = append(in, Tensor{shape, x[:n]}), x[n:]
	}
	err = o.session.run(in, func(out rt.Value) error {
		switch t := out.(type) {
		case *rt.Tensor[float32]:
			for _, v := range t.GetData() {
				y = append(y, float64(v))
			}
		case *rt.Tensor[float64]:
			y = append(y, t.GetData()...)
		case *rt.Tensor[int64]:
			y = append(y, onnx.Each(t.GetData(), func(v int64) float64 { return float64(v) })...)
		case *rt.Tensor[int32]:
			y = append(y, onnx.Each(t.GetData(), func(v int32) float64 { return float64(v) })...)
		case *rt.CustomDataTensor: // other custom types were refused before
			for raw := t.GetData(); len(raw) > 1; raw = raw[2:] {
				y = append(y, float64(float16.Frombits(binary.LittleEndian.Uint16(raw)).Float32()))
			}
		default:
			return errors.New("its output is no tensor of numbers")
		}
		return nil
	})
	if err != nil {
		return nil, o.error(err)
	}
	return y, nil
}

// Close frees the runtime's memory.
func (o *Original) Close() { o.session.Close() }

// agreement is the allowed difference of outputs up to 1; for larger ones it grows in proportion.
const agreement = 1e-4

// Agree returns an error if the outputs of a file and of the network opened from it differ by more than rounding.
func Agree(file []float64, opened []float32) error {
	if len(file) != len(opened) {
		return fmt.Errorf("the file gives %d outputs, the opened network %d", len(file), len(opened))
	}
	for i, y := range file {
		if !(math.Abs(y-float64(opened[i])) <= agreement*max(1, math.Abs(y))) {
			return fmt.Errorf("output %d of the file is %.9g, that of the opened network %.9g", i, y, opened[i])
		}
	}
	return nil
}

// OpenGraph opens a graph for any number of concurrent runs.
func OpenGraph(graph *onnx.Graph) (*Session, error) { return OpenGraphOn(graph, Target{}, 1) }

// OpenGraphOn opens a graph on a target, for so many runs side by side. A provider whose runs have fixed sizes gets a
// session for each number of items that comes: the first input's first dimension.
func OpenGraphOn(graph *onnx.Graph, on Target, runs int) (*Session, error) {
	of := func(g *onnx.Graph) (*Session, error) {
		model, err := g.Encode()
		if err != nil {
			return nil, err
		}
		return open(g.Name, model, compileConfig{on: on, runs: runs})
	}
	fast := graph.Unguarded()
	s, err := of(fast)
	if err == nil && fast != graph {
		s.exactly = sync.OnceValues(func() (_ *Session, err error) {
			s.exact, err = of(graph)
			return s.exact, err
		})
	}
	return s, err
}

// InOrder runs the tasks 0 … tasks−1. Workers compute in parallel; their results are added one at a time in the order
// of the tasks, so that sums do not depend on the workers. The first error, or ctx's, ends the rest.
func InOrder[T any](ctx context.Context, workers, tasks int, compute func(task int) (T, error),
	add func(task int, v T)) error {
	turns := make([]chan struct{}, tasks+1) // closed when all tasks before have been added
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	close(turns[0])
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(AtMost(workers), tasks) {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < tasks; i = int(next.Add(1)) - 1 {
				v, err := compute(i)
				select {
				case <-ctx.Done():
				case <-turns[i]:
				}
				if err := cmp.Or(context.Cause(ctx), err); err != nil {
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

// Saturates reports whether sums of products of 8-bit integers may saturate on this processor: on x86 without VNNI
// instructions ONNX Runtime adds them up in 16 bits.
func Saturates() bool {
	return runtime.GOARCH == "amd64" && !cpu.X86.HasAVX512VNNI && !cpu.X86.HasAVXVNNI
}
