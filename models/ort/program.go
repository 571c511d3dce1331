package ort

import (
	"errors"
	"fmt"
	"sync/atomic"

	onnx "github.com/yalue/onnxruntime_go"
)

// Program is one compiled ONNX graph. Its inputs and outputs are float32 with a
// leading symbolic batch dimension.
type Program struct {
	pool            *Pool
	name            string
	inputs, outputs []Port
	mean            []float32 // subtracted from the first input, or nil
	session         *onnx.DynamicAdvancedSession
	items           atomic.Int64

	// Under pool.mu:
	queue    []*request // that wait, the first one longest
	inflight int        // batches being run
	closed   bool       // no more requests
	freed    bool       // the session is gone
	// kits[w] belongs to worker w while it runs a batch of this program, and
	// to the holder of pool.mu otherwise.
	kits [][]*kit
}

// Inputs are the program's inputs, in the order Run takes them.
func (p *Program) Inputs() []Port { return p.inputs }

// Outputs are the program's outputs, in the order Run takes them.
func (p *Program) Outputs() []Port { return p.outputs }

// Items is the number of items run without an error so far.
func (p *Program) Items() int64 { return p.items.Load() }

// CompileOption changes how a program is compiled.
type CompileOption func(*compileConfig)

// Unoptimized switches all graph optimisations off: operators run one by one as
// the file has them, so a network cut into segments gives the same bits.
func Unoptimized() CompileOption { return func(c *compileConfig) { c.unoptimized = true } }

// Centred subtracts a mean, of the first input's size, from that input of every item
// while it is copied to the batch.
func Centred(mean []float32) CompileOption {
	return func(c *compileConfig) { c.mean = mean }
}

// Compile makes a program of a model's bytes. The batch must be the first dimension of
// all its inputs and outputs, and the only open one.
func (p *Pool) Compile(name string, model []byte, opts ...CompileOption) (*Program, error) {
	prog, err := p.compile(name, model, opts)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %s", name, oneLine(err))
	}
	return prog, nil
}

func (p *Pool) compile(name string, model []byte, opts []CompileOption) (*Program, error) {
	cfg := compileConfig{threads: p.threads, cuda: p.cuda, device: p.device}
	for _, o := range opts {
		o(&cfg)
	}
	in, out, err := declared(model)
	if err != nil {
		return nil, err
	}
	prog := &Program{pool: p, name: name, mean: cfg.mean, kits: make([][]*kit, p.workers)}
	if prog.inputs, err = ports(in); err != nil {
		return nil, err
	}
	if prog.outputs, err = ports(out); err != nil {
		return nil, err
	}
	if len(prog.inputs) == 0 {
		return nil, errors.New("a program needs an input")
	}
	if x := prog.inputs[0]; cfg.mean != nil && len(cfg.mean) != x.Size {
		return nil, fmt.Errorf("a mean of %d values for input %q, which has %d", len(cfg.mean), x.Name, x.Size)
	}
	if prog.session, err = newSession(model, in, out, cfg); err != nil {
		if p.cuda {
			err = cudaError(p.device, err)
		}
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		prog.session.Destroy()
		return nil, errClosed
	}
	p.programs[prog] = struct{}{}
	return prog, nil
}

// Close frees the program once its running batches are done; waiting requests
// get an error. A second Close does nothing.
func (p *Program) Close() {
	pool := p.pool
	pool.mu.Lock()
	defer pool.mu.Unlock()
	p.closeLocked()
	for !p.freed {
		pool.idle.Wait()
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

// freeIfDone releases the runtime's memory when the program is closed and no
// batch of it runs.
func (p *Program) freeIfDone() {
	if !p.closed || p.freed || p.inflight > 0 {
		return
	}
	for w := range p.kits {
		p.dropKits(w)
	}
	p.session.Destroy()
	p.freed = true
	delete(p.pool.programs, p)
	p.pool.idle.Broadcast()
}

// dropKits forgets worker w's tensors.
func (p *Program) dropKits(w int) {
	for _, k := range p.kits[w] {
		if k != nil {
			k.destroy()
		}
	}
	p.kits[w] = nil
}
