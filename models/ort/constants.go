package ort

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/internal/lists"
	"selfheal/models/onnx"
)

func init() { onnx.Evaluate = evaluate }

// Later is how the runtime is loaded where a network's constants need it and nothing has loaded it before.
var Later Options

// longest bounds how long a network's constants take to compute: a Loop of theirs may have no end.
const longest = 20 * time.Second

// evaluate is [onnx.Evaluate]. The runtime does not optimise the model: it would compute constants, with no end in
// sight, as it makes the session.
func evaluate(model []byte, outputs []string, memory int64) (raw []onnx.Raw, err error) {
	if err := Init(context.Background(), Later); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && exhausted.MatchString(err.Error()) {
			err = onnx.ErrBound
		}
	}()
	in := []onnx.Value{{Name: "selfheal/run"}}
	out := lists.Map(outputs, func(name string) onnx.Value { return onnx.Value{Name: name} })
	session, err := within(memory, func() (*rt.DynamicAdvancedSession, error) {
		return sessionInArena(model, in, out, compileConfig{unoptimized: true})
	})
	if err != nil {
		return nil, err
	}
	defer session.Destroy()
	options, err := rt.NewRunOptions()
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	var late atomic.Bool
	watch := time.AfterFunc(longest, func() {
		late.Store(true)
		options.Terminate()
	})
	defer watch.Stop()
	one, err := rt.NewTensor(rt.NewShape(1), []float32{0})
	if err != nil {
		return nil, err
	}
	defer one.Destroy()
	values := make([]rt.Value, len(outputs))
	defer func() {
		for _, v := range values {
			if v != nil {
				v.Destroy()
			}
		}
	}()
	run := func() error { return session.RunWithOptions([]rt.Value{one}, values, options) }
	if err = run(); err == nil && cutHalves(values) {
		err = run()
	}
	if late.Load() {
		return nil, onnx.ErrBound
	}
	for i := 0; i < len(values) && err == nil; i++ {
		var r onnx.Raw
		r, err = rawOf(values[i])
		raw = append(raw, r)
	}
	return raw, err
}

// cutHalves puts tensors of their sizes in the place of those of 16-bit floats, half of which the bindings have cut
// away, and clears the others; it reports whether there are any.
func cutHalves(values []rt.Value) (found bool) {
	half := func(v rt.Value) (*rt.CustomDataTensor, bool) { t, ok := v.(*rt.CustomDataTensor); return t, ok }
	for _, v := range values {
		_, is := half(v)
		found = found || is
	}
	for i := 0; i < len(values) && found; i++ {
		t, is := half(values[i])
		values[i].Destroy()
		values[i] = nil
		if is {
			whole := make([]byte, 2*t.GetShape().FlattenedSize())
			if w, err := rt.NewCustomDataTensor(t.GetShape(), whole, rt.TensorElementDataType(t.DataType())); err == nil {
				values[i] = w
			}
		}
	}
	return found
}

// rawOf copies a tensor. Element types have the same numbers in the file format and in the runtime.
func rawOf(v rt.Value) (r onnx.Raw, err error) {
	var data any
	switch t := v.(type) {
	case *rt.CustomDataTensor:
		data = t.GetData()
	case *rt.Tensor[float32]:
		data = t.GetData()
	case *rt.Tensor[float64]:
		data = t.GetData()
	case *rt.Tensor[int64]:
		data = t.GetData()
	case *rt.Tensor[int32]:
		data = t.GetData()
	case *rt.Tensor[int16]:
		data = t.GetData()
	case *rt.Tensor[uint16]:
		data = t.GetData()
	case *rt.Tensor[int8]:
		data = t.GetData()
	case *rt.Tensor[uint8]:
		data = t.GetData()
	case *rt.Tensor[bool]:
		data = t.GetData()
	default:
		return r, errors.New("a constant has an element type that is not supported")
	}
	r = onnx.Raw{DType: onnx.DType(v.DataType()), Shape: onnx.Shape(v.GetShape())}
	r.Data, err = binary.Append(nil, binary.LittleEndian, data)
	return r, err
}
