package ort

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
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
	made    int // number of buffers in use
}

// maxBuffers bounds the number of a worker's tensors; each takes a few kilobytes of the runtime.
const maxBuffers = 2048

// align is the alignment of each tensor in the scratch, in values: 64 bytes.
const align = 16

// buffers hold the tensors for n items of a program: views into a worker's scratch, one per port.
type buffers struct {
	session         *rt.DynamicAdvancedSession
	in, out         [][]float32
	inputs, outputs []rt.Value
	// binding saves a look-up of the tensors at each run; nil on a device, which would then copy the inputs only once.
	binding *rt.IoBinding
}

func (b *buffers) destroy() {
	if b.binding != nil {
		b.binding.Destroy()
	}
	for _, t := range append(b.inputs, b.outputs...) {
		t.Destroy()
	}
}

func (w *worker) loop() {
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

// exhausted matches how the runtime and its devices report that memory ran out.
var exhausted = regexp.MustCompile(`(?i)BFCArena|smaller than requested bytes|failed to allocate|` +
	`bad.?alloc(ation)?\b|out of memory|ALLOC_FAILED`)

// run evaluates a batch. If memory is short, it lowers the batch and repeats the pass while no other one runs.
func (w *worker) run(prog *Program, batch []*request) error {
	p := w.pool
	p.exclusive.RLock()
	err := w.once(prog, batch)
	p.exclusive.RUnlock()
	if err == nil || !exhausted.MatchString(err.Error()) {
		return err
	}
	p.exclusive.Lock()
	defer p.exclusive.Unlock()
	w.dropBuffers()
	w.pinner.Unpin()
	w.scratch = nil
	n := len(batch)
	if p.OnDevice() {
		n = p.Batch()
	}
	for {
		if n > 1 {
			was := n
			n = below(n)
			p.lower(n, fmt.Sprintf("the memory ended in a pass of %d images of %s", was, prog.name))
		}
		for part := range slices.Chunk(batch, n) {
			if err = w.once(prog, part); err != nil {
				break
			}
		}
		if err == nil || n == 1 || !exhausted.MatchString(err.Error()) {
			return err
		}
	}
}

// once evaluates a batch, in several runs if the program has no run for that many.
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

// one evaluates a batch in a run of n items. An error has the program's name.
func (w *worker) one(prog *Program, batch []*request, n int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("run %s: %v", prog.name, r)
		}
	}()
	if prog.answer != nil {
		return prog.answered(batch)
	}
	b, err := w.buffers(prog, n)
	if err != nil {
		return fmt.Errorf("run %s: %s", prog.name, oneLine(err))
	}
	for i, port := range prog.fed {
		for j := range n { // padding repeats the last item, whose values the graph can take
			r, to := batch[min(j, len(batch)-1)], b.in[i][j*port.Size:(j+1)*port.Size]
			high, low := to, to[len(to)-prog.inputs[i].Size:]
			if r.fill != nil {
				r.fill(low)
			} else {
				copy(low, r.in[i])
			}
			if i == 0 && prog.mean != nil {
				vector.Difference(low, prog.mean, low)
			}
			if i == 0 && prog.halves {
				vector.Halves(low, high[:len(low)], low)
			}
		}
	}
	if b.binding != nil {
		err = b.session.RunWithBinding(b.binding)
	} else {
		err = b.session.Run(b.inputs, b.outputs)
	}
	if err != nil {
		return fmt.Errorf("run %s on %d items: %s", prog.name, len(batch), oneLine(err))
	}
	for i, port := range prog.outputs {
		for j, r := range batch {
			if r.out[i] != nil {
				copy(r.out[i], b.out[i][j*port.Size:(j+1)*port.Size])
			}
		}
	}
	return nil
}

// buffers returns the tensors for n items of a program, made at the first use.
func (w *worker) buffers(prog *Program, n int) (*buffers, error) {
	if b := prog.buffers[w.index][n]; b != nil {
		return b, nil
	}
	w.reserve(prog, max(n, w.pool.Batch()))
	b, err := w.newBuffers(prog, n)
	if err != nil {
		b.destroy()
		return nil, err
	}
	if prog.buffers[w.index] == nil {
		prog.buffers[w.index] = map[int]*buffers{}
	}
	prog.buffers[w.index][n] = b
	w.made++
	return b, nil
}

// reserve makes the scratch large enough for n items. A new scratch, or too many buffers, invalidates all of this
// worker's buffers.
func (w *worker) reserve(prog *Program, n int) {
	need := align
	for _, p := range slices.Concat(prog.fed, prog.outputs) {
		need += roundUp(p.Size * n)
	}
	if need <= len(w.scratch) && w.made < maxBuffers {
		return
	}
	w.dropBuffers()
	if need > len(w.scratch) {
		w.pinner.Unpin()
		// The runtime keeps pointers into the scratch, so it is pinned.
		w.scratch = make([]float32, need)
		w.pinner.Pin(&w.scratch[0])
	}
}

func (w *worker) dropBuffers() {
	w.pool.mu.Lock()
	for p := range w.pool.programs {
		p.dropBuffers(w.index)
	}
	w.pool.mu.Unlock()
	w.made = 0
}

func (w *worker) newBuffers(prog *Program, n int) (b *buffers, err error) {
	b = &buffers{}
	if b.session, err = prog.session(n); err != nil {
		return b, err
	}
	if !w.pool.OnDevice() {
		if b.binding, err = b.session.CreateIoBinding(); err != nil {
			return b, err
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
			if b.binding != nil && !p.unread {
				if err := bind(b.binding, p.Name, t); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := add(prog.fed, &b.in, &b.inputs, (*rt.IoBinding).BindInput); err != nil {
		return b, err
	}
	return b, add(prog.outputs, &b.out, &b.outputs, (*rt.IoBinding).BindOutput)
}

func roundUp(n int) int { return (n + align - 1) / align * align }
