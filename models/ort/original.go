package ort

import (
	"errors"
	"fmt"
	"math"
	"slices"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/models/onnx"
)

// Original runs a model file as it lies, one input at a time, in a session of its own: nothing that opening a model
// rewrites has a part in it. It is what an answer about the file is checked by.
type Original struct {
	session *Session
	shape   onnx.Shape // of the input, an open dimension being 1
}

// OpenOriginal makes the session. Output names the output that is read; "": the first. Close it when done.
func OpenOriginal(name string, f *onnx.File, output string) (*Original, error) {
	o := &Original{session: &Session{name: name}}
	if err := o.open(f, output); err != nil {
		return nil, o.error(err)
	}
	return o, nil
}

func (o *Original) open(f *onnx.File, output string) error {
	in, out, err := onnx.Ports(f.Data)
	if err != nil {
		return err
	}
	at := 0
	if output != "" {
		at = slices.IndexFunc(out, func(v onnx.Value) bool { return v.Name == output })
	}
	if len(in) != 1 || at < 0 || at >= len(out) {
		return fmt.Errorf("it has %d inputs and %d outputs", len(in), len(out))
	}
	out = out[at : at+1]
	for _, v := range slices.Concat(in, out) {
		if v.DType != onnx.Float && v.DType != onnx.Double {
			return fmt.Errorf("%q is neither float32 nor float64 (ONNX element type %d)", v.Name, v.DType)
		}
	}
	for _, d := range in[0].Shape {
		o.shape = append(o.shape, max(d, 1))
	}
	o.session.in, o.session.out = in, out
	o.session.session, err = newSession(f.Data, in, out, compileConfig{path: f.Path})
	return err
}

// error says which file has a fault.
func (o *Original) error(err error) error {
	return fmt.Errorf("%s as it lies: %s", o.session.name, oneLine(err))
}

// Inputs is the number of the input's values.
func (o *Original) Inputs() int { return int(o.shape.Items()) }

// Shape is the input's, an open dimension being 1.
func (o *Original) Shape() onnx.Shape { return o.shape }

// Run evaluates the file on an input in the file's own order. Any number of goroutines may call it at once.
func (o *Original) Run(x []float32) (y []float64, err error) {
	if len(x) != o.Inputs() {
		return nil, o.error(fmt.Errorf("it takes %d values, not %d", o.Inputs(), len(x)))
	}
	err = o.session.run([]Tensor{{o.shape, x}}, func(out rt.Value) error {
		switch t := out.(type) {
		case *rt.Tensor[float32]:
			for _, v := range t.GetData() {
				y = append(y, float64(v))
			}
		case *rt.Tensor[float64]:
			y = slices.Clone(t.GetData())
		default:
			return errors.New("its output is no tensor of floats")
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

// agreement is by how much outputs up to 1 may differ; beyond it is in proportion.
const agreement = 1e-4

// Agree is an error where the outputs of a file and of the network opened from it differ by more than rounding.
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
