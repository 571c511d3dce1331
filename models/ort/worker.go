package ort

import (
	"fmt"
	"runtime"
	"unsafe"

	onnx "github.com/yalue/onnxruntime_go"
)

// worker runs one batch at a time. All programs share its scratch memory, which
// holds a batch's inputs and outputs.
type worker struct {
	pool    *Pool
	index   int
	scratch []float32
	pinner  runtime.Pinner
	kits    int // made and not destroyed
}

// maxKits bounds a worker's tensors, a few kilobytes of the runtime's each.
const maxKits = 2048

// align is the alignment of each tensor in the scratch, in values: 64 bytes.
const align = 16

// kit is what a worker needs to run n items of a program: the ports' views into
// its scratch, wrapped as tensors and bound to the session.
type kit struct {
	in, out [][]float32
	tensors []*onnx.Tensor[float32]
	binding *onnx.IoBinding
}

func (k *kit) destroy() {
	if k.binding != nil {
		k.binding.Destroy()
	}
	for _, t := range k.tensors {
		t.Destroy()
	}
}

func (w *worker) loop() {
	defer w.pool.done.Done()
	defer w.pinner.Unpin()
	var buf []*request
	for {
		prog, batch := w.pool.next(buf)
		if prog == nil {
			return
		}
		buf = batch
		w.pool.finished(prog, batch, w.run(prog, batch))
		clear(buf)
	}
}

// run evaluates a batch. Whatever goes wrong is an error with the program's
// name.
func (w *worker) run(prog *Program, batch []*request) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("run %s: %v", prog.name, r)
		}
	}()
	k, err := w.kit(prog, len(batch))
	if err != nil {
		return fmt.Errorf("run %s: %s", prog.name, oneLine(err))
	}
	for i, port := range prog.inputs {
		for j, r := range batch {
			copy(k.in[i][j*port.Size:], r.in[i])
		}
	}
	if err := prog.session.RunWithBinding(k.binding); err != nil {
		return fmt.Errorf("run %s on %d items: %s", prog.name, len(batch), oneLine(err))
	}
	for i, port := range prog.outputs {
		for j, r := range batch {
			if r.out[i] != nil {
				copy(r.out[i], k.out[i][j*port.Size:(j+1)*port.Size])
			}
		}
	}
	return nil
}

// kit returns the tensors for n items of a program, made at the first use.
func (w *worker) kit(prog *Program, n int) (*kit, error) {
	if k := prog.kits[w.index]; k != nil && k[n] != nil {
		return k[n], nil
	}
	w.reserve(prog)
	k, err := w.newKit(prog, n)
	if err != nil {
		k.destroy()
		return nil, err
	}
	if prog.kits[w.index] == nil {
		prog.kits[w.index] = make([]*kit, w.pool.batch+1)
	}
	prog.kits[w.index][n] = k
	w.kits++
	return k, nil
}

// reserve makes the scratch large enough for a full batch of the program. A new
// scratch, or too many kits, makes every kit of this worker void.
func (w *worker) reserve(prog *Program) {
	need := align
	for _, ports := range [][]Port{prog.inputs, prog.outputs} {
		for _, p := range ports {
			need += roundUp(p.Size * w.pool.batch)
		}
	}
	if need <= len(w.scratch) && w.kits < maxKits {
		return
	}
	w.pool.mu.Lock()
	for p := range w.pool.programs {
		p.dropKits(w.index)
	}
	w.pool.mu.Unlock()
	w.kits = 0
	if need > len(w.scratch) {
		// The runtime keeps pointers into the scratch, so it is pinned.
		w.pinner.Unpin()
		w.scratch = nil
		w.scratch = make([]float32, need)
		w.pinner.Pin(&w.scratch[0])
	}
}

func (w *worker) newKit(prog *Program, n int) (k *kit, err error) {
	k = &kit{}
	if k.binding, err = prog.session.CreateIoBinding(); err != nil {
		return k, err
	}
	at := 0
	for uintptr(unsafe.Pointer(&w.scratch[at]))%(4*align) != 0 {
		at++
	}
	view := func(p Port, bind func(string, onnx.Value) error) ([]float32, error) {
		data := w.scratch[at : at+n*p.Size]
		at += roundUp(n * p.Size)
		t, err := onnx.NewTensor(append(onnx.NewShape(int64(n)), p.Shape...), data)
		if err != nil {
			return nil, err
		}
		k.tensors = append(k.tensors, t)
		return data, bind(p.Name, t)
	}
	for _, p := range prog.inputs {
		data, err := view(p, k.binding.BindInput)
		if err != nil {
			return k, err
		}
		k.in = append(k.in, data)
	}
	for _, p := range prog.outputs {
		data, err := view(p, k.binding.BindOutput)
		if err != nil {
			return k, err
		}
		k.out = append(k.out, data)
	}
	return k, nil
}

func roundUp(n int) int { return (n + align - 1) / align * align }
