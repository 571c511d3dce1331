package ort

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/internal/lists"
	"selfheal/models/onnx"
)

// A second process of this program computes the constants of a user's network. A division of integers by 0, which
// crashes the runtime, an endless Loop or a giant tensor then costs only an error.

// envConstants names the runtime's library in such a process.
const envConstants = "SELFHEAL_CONSTANTS_BY"

func init() {
	onnx.Evaluate = evaluate
	if library := os.Getenv(envConstants); library != "" { // before the program, or a test, does anything
		serve(library)
		os.Exit(0)
	}
}

// Later says how to find the runtime if a network's constants need it before it is loaded.
var Later Options

// ConstantsWithin is the time that constants may take to compute, apart from a second for every 4 MiB of them: a Loop
// may be endless. A test of that shortens it.
var ConstantsWithin = 4 * time.Second

const idle = 10 * time.Second // the process ends after this time without a question

type question struct {
	Model   []byte
	Outputs []string
	Memory  int64
}

type answer struct {
	Raw   []onnx.Raw
	Error string
}

// computer is the process, if it runs.
var computer struct {
	sync.Mutex
	ask    *gob.Encoder
	answer *gob.Decoder
	stdin  io.Closer
	kill   func() error
	rest   *time.Timer
}

// evaluate implements [onnx.Evaluate].
func evaluate(model []byte, outputs []string, memory int64) ([]onnx.Raw, error) {
	c := &computer
	c.Lock()
	defer c.Unlock()
	if c.stdin == nil {
		if err := startComputer(); err != nil {
			return nil, err
		}
	}
	c.rest.Stop()
	watch := time.AfterFunc(ConstantsWithin+time.Duration(len(model)>>22)*time.Second, func() { c.kill() })
	defer watch.Stop()
	a, err := put(question{model, outputs, memory})
	switch {
	case err != nil: // it has ended
		endComputer()
		return nil, onnx.ErrBound
	case exhausted.MatchString(a.Error):
		err = onnx.ErrBound
	case a.Error != "":
		_, reason, _ := strings.Cut(a.Error, "Status Message: ") // after the name of the operator
		err = errors.New(cmp.Or(reason, a.Error))
	}
	c.rest.Reset(idle)
	return a.Raw, err
}

func startComputer() error {
	if err := Init(context.Background(), Later); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), envConstants+"="+LibraryPath())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c := &computer
	c.ask, c.answer, c.stdin, c.kill = gob.NewEncoder(stdin), gob.NewDecoder(stdout), stdin, cmd.Process.Kill
	c.rest = time.AfterFunc(idle, func() {
		c.Lock()
		defer c.Unlock()
		if c.stdin == stdin {
			endComputer()
		}
	})
	go cmd.Wait()
	if _, err := put(question{}); err != nil { // the answer comes when the runtime is loaded
		endComputer()
		return errors.New("the process that computes constants does not start")
	}
	return nil
}

// put sends the process a question and reads its answer.
func put(q question) (a answer, err error) {
	if err = computer.ask.Encode(q); err == nil {
		err = computer.answer.Decode(&a)
	}
	return a, err
}

// endComputer ends the process: it closes its input.
func endComputer() {
	computer.rest.Stop()
	computer.stdin.Close()
	computer.kill()
	computer.stdin = nil
}

// serve answers questions until there are no more.
func serve(library string) {
	err := Init(context.Background(), Options{Library: library, Offline: true})
	ask, answers := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var q question
		if ask.Decode(&q) != nil {
			return
		}
		a := answer{}
		if err == nil && len(q.Outputs) > 0 {
			renewArena(q.Memory)
			var fault error
			if a.Raw, fault = compute(q); fault != nil {
				a.Error = oneLine(fault)
			}
		} else if err != nil {
			a.Error = oneLine(err)
		}
		if answers.Encode(a) != nil {
			return
		}
	}
}

// compute runs a model of constants, without the runtime's optimisation, which would compute them a second time.
func compute(q question) (raw []onnx.Raw, err error) {
	in := []onnx.Value{{Name: "selfheal/run"}}
	out := lists.Map(q.Outputs, func(name string) onnx.Value { return onnx.Value{Name: name} })
	session, err := newSession(q.Model, in, out, compileConfig{unoptimized: true})
	if err != nil {
		return nil, err
	}
	defer session.Destroy()
	one, err := rt.NewTensor(rt.NewShape(1), []float32{0})
	if err != nil {
		return nil, err
	}
	defer one.Destroy()
	values := make([]rt.Value, len(out))
	defer func() {
		for _, v := range values {
			if v != nil {
				v.Destroy()
			}
		}
	}()
	if err = session.Run([]rt.Value{one}, values); err == nil && cutHalves(values) {
		err = session.Run([]rt.Value{one}, values)
	}
	for i := 0; i < len(values) && err == nil; i++ {
		var r onnx.Raw
		r, err = rawOf(values[i])
		raw = append(raw, r)
	}
	return raw, err
}

// cutHalves replaces tensors of 16-bit floats, half of which the bindings have cut away, by tensors of their full
// sizes, and removes the others. It reports whether there are any.
func cutHalves(values []rt.Value) (found bool) {
	for _, v := range values {
		_, half := v.(*rt.CustomDataTensor)
		found = found || half
	}
	for i := 0; i < len(values) && found; i++ {
		v := values[i]
		values[i] = nil
		if _, half := v.(*rt.CustomDataTensor); half {
			whole := make([]byte, 2*v.GetShape().FlattenedSize())
			t, err := rt.NewCustomDataTensor(v.GetShape(), whole, rt.TensorElementDataType(v.DataType()))
			if err == nil {
				values[i] = t
			}
		}
		v.Destroy()
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
