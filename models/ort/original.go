package ort

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/models/onnx"
)

// Original runs a model file as it lies, one input at a time, in a session of its own: nothing that opening a model
// rewrites has a part in it. It is what an answer about the file is checked by.
type Original struct {
	name    string
	session *rt.DynamicAdvancedSession
	in, out onnx.Value
	shape   []int64 // of the input, an open dimension being 1
}

// OpenOriginal makes the session. Output names the output that is read; "": the first. Close it when done.
func OpenOriginal(name string, f *onnx.File, output string) (*Original, error) {
	o, err := openOriginal(f, output)
	if err != nil {
		return nil, fmt.Errorf("%s as it lies: %s", name, oneLine(err))
	}
	o.name = name
	return o, nil
}

func openOriginal(f *onnx.File, output string) (o *Original, err error) {
	if LibraryPath() == "" {
		return nil, errNotLoaded
	}
	in, out, err := onnx.Ports(f.Data)
	if err != nil {
		return nil, err
	}
	at := 0
	if output != "" {
		at = slices.IndexFunc(out, func(v onnx.Value) bool { return v.Name == output })
	}
	if len(in) != 1 || at < 0 || at >= len(out) {
		return nil, fmt.Errorf("it has %d inputs and %d outputs", len(in), len(out))
	}
	o = &Original{in: in[0], out: out[at]}
	for _, v := range []onnx.Value{o.in, o.out} {
		if v.DType != onnx.Float && v.DType != onnx.Double {
			return nil, fmt.Errorf("%q is neither float32 nor float64 (ONNX element type %d)", v.Name, v.DType)
		}
	}
	for _, d := range o.in.Shape {
		o.shape = append(o.shape, max(d, 1))
	}
	options, err := sessionOptions(compileConfig{})
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	arena.RLock()
	defer arena.RUnlock()
	inputs, outputs := []string{o.in.Name}, []string{o.out.Name}
	if f.Path != "" { // the runtime finds the weights beside it by itself
		o.session, err = rt.NewDynamicAdvancedSession(f.Path, inputs, outputs, options)
	} else {
		o.session, err = rt.NewDynamicAdvancedSessionWithONNXData(f.Data, inputs, outputs, options)
	}
	return o, err
}

// Inputs is the number of the input's values.
func (o *Original) Inputs() int { return int(onnx.Shape(o.shape).Items()) }

// Shape is the input's, an open dimension being 1.
func (o *Original) Shape() onnx.Shape { return o.shape }

// Run evaluates the file on an input in the file's own order. Any number of goroutines may call it at once.
func (o *Original) Run(x []float32) ([]float64, error) {
	y, err := o.run(x)
	if err != nil {
		return nil, fmt.Errorf("%s as it lies: %s", o.name, oneLine(err))
	}
	return y, nil
}

func (o *Original) run(x []float32) (y []float64, err error) {
	if len(x) != o.Inputs() {
		return nil, fmt.Errorf("it takes %d values, not %d", o.Inputs(), len(x))
	}
	var pinner runtime.Pinner // the runtime keeps a pointer into the input until it is done
	defer pinner.Unpin()
	var in rt.Value
	shape := rt.NewShape(o.shape...)
	if o.in.DType == onnx.Double {
		wide := make([]float64, len(x))
		for i, v := range x {
			wide[i] = float64(v)
		}
		pinner.Pin(&wide[0])
		in, err = rt.NewTensor(shape, wide)
	} else {
		pinner.Pin(&x[0])
		in, err = rt.NewTensor(shape, x)
	}
	if err != nil {
		return nil, err
	}
	defer in.Destroy()
	out := []rt.Value{nil}
	if err := o.session.Run([]rt.Value{in}, out); err != nil {
		return nil, err
	}
	defer out[0].Destroy()
	switch t := out[0].(type) {
	case *rt.Tensor[float32]:
		for _, v := range t.GetData() {
			y = append(y, float64(v))
		}
	case *rt.Tensor[float64]:
		y = slices.Clone(t.GetData())
	default:
		return nil, errors.New("its output is no tensor of floats")
	}
	return y, nil
}

// Close frees the runtime's memory.
func (o *Original) Close() { o.session.Destroy() }

// agreement is by how much a file's outputs and an opened network's may differ, for outputs up to 1; beyond in
// proportion.
const agreement = 1e-4

// Agree is an error where a file's outputs and those of the network that was opened from it differ by more than
// rounding.
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
