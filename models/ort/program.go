package ort

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/models/onnx"
)

// Program is one compiled ONNX graph. Its inputs and outputs are float32 with a leading symbolic batch dimension.
type Program struct {
	pool            *Pool
	name            string
	inputs, outputs []Port
	fed             []Port // the inputs of the sessions
	halves          bool   // the first input is fed in two halves, see [inHalves]
	on              Target
	mean            []float32 // subtracted from the first input, or nil
	items           atomic.Int64
	footprint       footprint
	exactly         func() (*Program, error)          // nil: the program is exact itself, see [Exactly]
	exact           atomic.Pointer[Program]           // its result
	answer          func(x, y []float32, n int) error // computes it instead of sessions, see [Pool.Function]; or nil
	sessions        sessions

	// Under pool.mu:
	queue    []*request // waiting requests, the oldest first
	inflight int        // batches that run
	closed   bool       // it takes no more requests
	freed    bool       // the sessions are gone
	// buffers[w] belong to worker w while it runs a batch of this program, and to the holder of pool.mu otherwise.
	buffers []map[int]*buffers
}

// Outputs returns the outputs in the order in which Run takes them.
func (p *Program) Outputs() []Port { return p.outputs }

// Items returns the number of items run without an error so far.
func (p *Program) Items() int64 { return p.items.Load() }

// CompileOption changes how a program is compiled.
type CompileOption func(*compileConfig)

// Unoptimized runs operators one by one as in the file: a network cut into segments then gives the same bits.
func Unoptimized() CompileOption { return func(c *compileConfig) { c.unoptimized = true } }

// Centred subtracts a mean, of the first input's size, from that input of every item when it is copied to the batch.
func Centred(mean []float32) CompileOption { return func(c *compileConfig) { c.mean = mean } }

// ForAttacks runs the program on the pool's target for attacks: see [On].
func ForAttacks() CompileOption { return func(c *compileConfig) { c.attacks = true } }

// Footprint states the program's memory in bytes: its weights, and the values of one item of a batch; see [Within].
func Footprint(weights, item int64) CompileOption {
	return func(c *compileConfig) { c.footprint = footprint{weights, item} }
}

// Exactly gives the program a second one for items for which it returns NaN; that is made for the first such item. This
// program's masks multiply, which is faster; the second one's select. See [onnx.Graph.Unguarded].
func Exactly(program func() (*Program, error)) CompileOption {
	return func(c *compileConfig) { c.exactly = program }
}

// Compile makes a program from a model whose inputs and outputs have the batch as their first and only open dimension.
func (p *Pool) Compile(name string, model []byte, opts ...CompileOption) (_ *Program, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("compile %s: %s", name, oneLine(err))
		}
	}()
	cfg := compileConfig{threads: p.threads, runs: p.workers}
	for _, o := range opts {
		o(&cfg)
	}
	cfg.on = p.Target(cfg.attacks)
	in, out, err := declared(model)
	if err != nil {
		return nil, err
	}
	prog := &Program{pool: p, name: name, on: cfg.on, mean: cfg.mean, buffers: make([]map[int]*buffers, p.workers)}
	if prog.inputs, err = ports(in); err == nil {
		prog.outputs, err = ports(out)
	}
	switch {
	case err != nil:
		return nil, err
	case len(in) == 0:
		return nil, errors.New("a program needs an input")
	}
	if x := prog.inputs[0]; cfg.mean != nil && len(cfg.mean) != x.Size {
		return nil, fmt.Errorf("a mean of %d values for input %q, which has %d", len(cfg.mean), x.Name, x.Size)
	}
	prog.fed = slices.Clone(prog.inputs)
	prog.sessions.open = func(int) (*rt.DynamicAdvancedSession, error) { return newSession(model, in, out, cfg) }
	if cfg.exactly != nil {
		prog.exactly = sync.OnceValues(func() (*Program, error) {
			exact, err := cfg.exactly()
			prog.exact.Store(exact)
			return exact, err
		})
	}
	row := cfg.on.Row()
	if row.adapt != nil {
		if err := row.adapt(prog, model, cfg); err != nil {
			return nil, err
		}
	}
	cfg.footprint.weights *= int64(max(1, len(row.sizes)))
	p.fit(prog, cfg.footprint)
	if row.sizes == nil { // otherwise sessions are opened for the sizes of runs as they come
		if _, err = prog.session(0); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		prog.destroy()
		return nil, errClosed
	}
	p.programs[prog] = struct{}{}
	return prog, nil
}

// size returns the number of items in the next run if this many wait; if fewer wait, the last one is repeated.
func (p *Program) size(waiting int) int {
	switch row := p.on.Row(); {
	case row.Device():
		return p.pool.Batch()
	case row.sizes != nil:
		return row.size(waiting)
	case runtime.GOARCH == "arm64": // ONNX Runtime sums a matrix of one row in another order there than several rows
		return max(2, waiting)
	}
	return waiting
}

// session returns the session for runs of this many items.
func (p *Program) session(items int) (*rt.DynamicAdvancedSession, error) {
	return p.sessions.of(p.on, items)
}

func (p *Program) destroy() { p.sessions.close() }

// Close frees the program once its running batches are done; waiting requests get an error. A second Close does
// nothing. When the pool's last program closes, the memory used by passes is freed too.
func (p *Program) Close() {
	if exact := p.exact.Load(); exact != nil {
		exact.Close()
	}
	pool := p.pool
	pool.mu.Lock()
	again := p.freed
	p.closeLocked()
	for !p.freed {
		pool.idle.Wait()
	}
	last := len(pool.programs) == 0
	pool.mu.Unlock()
	if last && !again {
		renewArena(pool.arenaLimit())
	}
}

// closeLocked stops the program and frees it now or when its last batch ends.
func (p *Program) closeLocked() {
	if !p.closed {
		p.closed = true
		err := fmt.Errorf("run %s: the program is closed", p.name)
		for _, r := range p.queue {
			r.done <- err
		}
		p.pool.dequeue(p, 0, len(p.queue))
	}
	p.freeIfDone()
}

// freeIfDone releases the runtime's memory when the program is closed and no batch of it runs.
func (p *Program) freeIfDone() {
	if !p.closed || p.freed || p.inflight > 0 {
		return
	}
	for w := range p.buffers {
		p.dropBuffers(w)
	}
	p.destroy()
	p.freed = true
	delete(p.pool.programs, p)
	p.pool.idle.Broadcast()
}

func (p *Program) dropBuffers(w int) {
	for _, k := range p.buffers[w] {
		k.destroy()
	}
	p.buffers[w] = nil
}

// Port is an input or output of a program, for a single item.
type Port struct {
	Name   string
	Shape  []int64 // without the batch dimension; empty for one number per item
	Size   int     // number of values of one item, the product of Shape
	unread bool    // the session does not have this input any more
}

// declared reads the graph's inputs and outputs, which are float32; asking the runtime would take a second session.
func declared(model []byte) (inputs, outputs []onnx.Value, err error) {
	inputs, outputs, err = onnx.Ports(model)
	if err == nil && len(outputs) == 0 {
		err = errors.New("not an ONNX model: it has no output")
	}
	for _, v := range slices.Concat(inputs, outputs) {
		if v.DType != onnx.Float && err == nil {
			err = fmt.Errorf("%q is not float32 (ONNX element type %d)", v.Name, v.DType)
		}
	}
	return inputs, outputs, err
}

// ports returns the declared values as ports for a single item.
func ports(values []onnx.Value) (all []Port, err error) {
	for _, v := range values {
		if len(v.Shape) == 0 || v.Shape[0] != onnx.Batch {
			return nil, fmt.Errorf("%q has no symbolic batch dimension in front", v.Name)
		}
		item := v.Shape[1:]
		if len(item) > 0 && slices.Min(item) <= 0 {
			return nil, fmt.Errorf("%q has an item whose shape is not known and positive", v.Name)
		}
		all = append(all, Port{Name: v.Name, Shape: item, Size: int(item.Items())})
	}
	return all, nil
}

func names(values []onnx.Value) []string {
	return onnx.Each(values, func(v onnx.Value) string { return v.Name })
}
