package ort

import (
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
	queue    queue
	inflight int  // batches being run
	closed   bool // no more requests
	freed    bool // the session is gone
	// kits[w] belongs to worker w while it runs a batch of this program, and
	// to the holder of pool.mu otherwise.
	kits [][]*kit
}

// Name is the name given to Compile.
func (p *Program) Name() string { return p.name }

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
func Unoptimized() CompileOption {
	return func(c *compileConfig) { c.level = onnx.GraphOptimizationLevelDisableAll }
}

// Centred subtracts mean from the first input of every item, of whose size it is, while
// it is copied to the batch.
func Centred(mean []float32) CompileOption {
	return func(c *compileConfig) { c.mean = mean }
}

// Compile makes a program of a model's bytes. The inputs must be all of the
// model's, the outputs any of them; nil takes the model's own.
func (p *Pool) Compile(name string, model []byte, inputs, outputs []Port, opts ...CompileOption) (*Program, error) {
	if !initialized() {
		return nil, fmt.Errorf("compile %s: %w", name, errNotLoaded)
	}
	prog, err := p.compile(name, model, inputs, outputs, opts)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %s", name, oneLine(err))
	}
	return prog, nil
}

func (p *Pool) compile(name string, model []byte, inputs, outputs []Port, opts []CompileOption) (*Program, error) {
	cfg := compileConfig{level: onnx.GraphOptimizationLevelEnableAll, threads: p.threads, cuda: p.cuda, device: p.device}
	for _, o := range opts {
		o(&cfg)
	}
	haveIn, haveOut, err := declaredPorts(model)
	if err != nil {
		return nil, err
	}
	prog := &Program{pool: p, name: name, kits: make([][]*kit, p.workers)}
	if prog.inputs, err = matchPorts("input", inputs, haveIn); err != nil {
		return nil, err
	}
	if prog.outputs, err = matchPorts("output", outputs, haveOut); err != nil {
		return nil, err
	}
	if len(prog.inputs) != len(haveIn) {
		return nil, fmt.Errorf("the model's inputs are %v, only %d of them are given", names(haveIn), len(prog.inputs))
	}
	if len(prog.inputs) == 0 || len(prog.outputs) == 0 {
		return nil, fmt.Errorf("a program needs at least one input and one output")
	}
	if prog.mean = cfg.mean; cfg.mean != nil && len(cfg.mean) != prog.inputs[0].Size {
		return nil, fmt.Errorf("a mean of %d values for input %q, which has %d", len(cfg.mean), prog.inputs[0].Name, prog.inputs[0].Size)
	}
	options, err := sessionOptions(cfg)
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	if prog.session, err = onnx.NewDynamicAdvancedSessionWithONNXData(model, portNames(prog.inputs), portNames(prog.outputs), options); err != nil {
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
		for _, r := range p.queue.take(p.queue.len()) {
			p.pool.waiting--
			r.finish(err)
		}
		p.pool.deactivate(p)
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
