package ort

import (
	"fmt"
	"runtime"
	"unsafe"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/internal/vector"
)

// worker runs one batch at a time. All programs share its scratch memory, which holds a batch's inputs and outputs.
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

// kit is what a worker needs to run n items of a program: the ports' views into its scratch, wrapped as tensors.
type kit struct {
	session         *rt.DynamicAdvancedSession
	in, out         [][]float32
	inputs, outputs []rt.Value
	// binding has the tensors bound, which saves looking them up at each run. It is nil where the device is not the
	// CPU: binding would copy the inputs there once and for all.
	binding *rt.IoBinding
}

// run evaluates what is in the scratch.
func (k *kit) run() error {
	if k.binding != nil {
		return k.session.RunWithBinding(k.binding)
	}
	return k.session.Run(k.inputs, k.outputs)
}

func (k *kit) destroy() {
	if k.binding != nil {
		k.binding.Destroy()
	}
	for _, t := range append(k.inputs, k.outputs...) {
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

// once evaluates a batch, in several runs where the program has none for so many.
func (w *worker) once(prog *Program, batch []*request) error {
	for len(batch) > 0 {
		size := prog.size(len(batch))
		n := min(size, len(batch))
		if err := w.one(prog, batch[:n], size); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// one evaluates a batch in a run of n items. Whatever goes wrong is an error with the program's name.
func (w *worker) one(prog *Program, batch []*request, n int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("run %s: %v", prog.name, r)
		}
	}()
	k, err := w.kit(prog, n)
	if err != nil {
		return fmt.Errorf("run %s: %s", prog.name, oneLine(err))
	}
	for i, port := range prog.fed {
		for j := range n { // beyond the batch its last item again: values that the graph can take
			r, to := batch[min(j, len(batch)-1)], k.in[i][j*port.Size:(j+1)*port.Size]
			high, low := to, to[len(to)-prog.inputs[i].Size:]
			item := low
			if r.fill != nil {
				r.fill(low)
			} else {
				item = r.in[i]
			}
			if i == 0 && prog.mean != nil {
				vector.Difference(item, prog.mean, low)
			} else {
				copy(low, item)
			}
			if i == 0 && prog.halves {
				vector.Halves(low, high[:len(low)], low)
			}
		}
	}
	if err := k.run(); err != nil {
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
	if k := prog.kits[w.index][n]; k != nil {
		return k, nil
	}
	w.reserve(prog, max(n, w.pool.Batch()))
	k, err := w.newKit(prog, n)
	if err != nil {
		k.destroy()
		return nil, err
	}
	if prog.kits[w.index] == nil {
		prog.kits[w.index] = map[int]*kit{}
	}
	prog.kits[w.index][n] = k
	w.kits++
	return k, nil
}

// reserve makes the scratch large enough for n items of the program. A new scratch, or too many kits, makes every kit
// of this worker void.
func (w *worker) reserve(prog *Program, n int) {
	need := align
	for _, ports := range [][]Port{prog.fed, prog.outputs} {
		for _, p := range ports {
			need += roundUp(p.Size * n)
		}
	}
	if need <= len(w.scratch) && w.kits < maxKits {
		return
	}
	w.dropKits()
	if need > len(w.scratch) {
		w.dropScratch()
		// The runtime keeps pointers into the scratch, so it is pinned.
		w.scratch = make([]float32, need)
		w.pinner.Pin(&w.scratch[0])
	}
}

// dropKits forgets this worker's tensors.
func (w *worker) dropKits() {
	w.pool.mu.Lock()
	for p := range w.pool.programs {
		p.dropKits(w.index)
	}
	w.pool.mu.Unlock()
	w.kits = 0
}

// dropScratch gives up the scratch, to which no tensor points any more.
func (w *worker) dropScratch() {
	w.pinner.Unpin()
	w.scratch = nil
}

func (w *worker) newKit(prog *Program, n int) (k *kit, err error) {
	k = &kit{}
	if k.session, err = prog.session(n); err != nil {
		return k, err
	}
	if !w.pool.OnDevice() {
		if k.binding, err = k.session.CreateIoBinding(); err != nil {
			return k, err
		}
	}
	at := 0
	for uintptr(unsafe.Pointer(&w.scratch[at]))%(4*align) != 0 {
		at++
	}
	add := func(ports []Port, views *[][]float32, tensors *[]rt.Value,
		bind func(*rt.IoBinding, string, rt.Value) error) error {
		for _, p := range ports {
			data := w.scratch[at : at+n*p.Size]
			at += roundUp(n * p.Size)
			t, err := rt.NewTensor(append(rt.NewShape(int64(n)), p.Shape...), data)
			if err != nil {
				return err
			}
			*views, *tensors = append(*views, data), append(*tensors, t)
			if k.binding != nil && !p.unread {
				if err := bind(k.binding, p.Name, t); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := add(prog.fed, &k.in, &k.inputs, (*rt.IoBinding).BindInput); err != nil {
		return k, err
	}
	return k, add(prog.outputs, &k.out, &k.outputs, (*rt.IoBinding).BindOutput)
}

func roundUp(n int) int { return (n + align - 1) / align * align }
