package ort

import (
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/internal/memory"
	"selfheal/internal/number"
	"selfheal/models/onnx"
)

// Memory tells a pool how much memory there is.
type Memory struct {
	// Free returns the bytes that can still be taken; known is false if that can't be told.
	Free     func() (bytes int64, known bool)
	Resident func() int64   // bytes of its own that the process holds already
	Lowered  func(Lowering) // called whenever the batch gets smaller
}

// Lowering reports that the batch got smaller.
type Lowering struct {
	To   int    `json:"batch"`
	From int    `json:"batch_before"`
	Why  string `json:"reason"`
}

// String returns a line for people.
func (l Lowering) String() string {
	return fmt.Sprintf("batch %d instead of %d: %s", l.To, l.From, l.Why)
}

// Within keeps a pool on the CPU within the memory that there is. If passes of a full batch on all workers would take
// more than the pool's share, the batch is lowered before a program is compiled, by powers of two and down to 1. A pass
// that still runs out of memory is repeated in smaller batches, with or without this option.
func Within(m Memory) PoolOption { return func(p *Pool) { p.memory = m } }

// footprint counts the bytes that a program holds.
type footprint struct {
	weights int64
	item    int64 // values of the graph, for each item of a batch
}

const (
	share = 3 // quarters of the memory for the pool; attacks and others have the rest
	// slack is the ratio of the memory of passes to their values, in halves: an arena has blocks that nothing fits
	// into, and kernels have their own buffers. On eight networks the ratio was 0.89 to 1.57
	// (docs/measured/performance.md).
	slack = 3
	fresh = 32 << 20 // what the process additionally takes before its first pass
)

// arenaLimit returns all the memory that there is, in bytes, so that the runtime reports a shortage before the system
// ends the process; 0 if it is unknown.
func (p *Pool) arenaLimit() int64 {
	if free, known := p.unused(); known {
		return max(free+p.memory.Resident(), leastArena)
	}
	return 0
}

// leastArena is a limit with which small networks run even if little memory seems to be left.
const leastArena = 64 << 20

// unused returns the bytes that can still be taken; known is false if the pool does not know or runs on a device.
func (p *Pool) unused() (bytes int64, known bool) {
	if p.OnDevice() || p.memory.Free == nil {
		return 0, false
	}
	return p.memory.Free()
}

// fit lowers the batch, if need be, so that passes of a program that is about to be compiled fit into memory. On the
// processor programs take turns in one arena. On a device each has its own, which keeps the memory that passes have
// taken.
func (p *Pool) fit(prog *Program, own footprint) {
	own.item = own.item * slack / 2
	for _, port := range slices.Concat(prog.inputs, prog.outputs) {
		own.item += 4 * int64(port.Size)
	}
	prog.footprint = own
	p.mu.Lock()
	all, first := own, len(p.programs) == 0
	for other := range p.programs {
		all.weights += other.footprint.weights
		if p.estimated {
			all.item += other.footprint.item
		} else {
			all.item = max(all.item, other.footprint.item)
		}
	}
	p.mu.Unlock()
	if p.estimated && first {
		p.deviceFree, _ = p.on.Row().free(p.on.Device)
	}
	free, known := p.unused()
	switch {
	case p.estimated && p.deviceFree > 0:
		p.shrink(prog.name, p.deviceFree, share*p.deviceFree/4, all)
	case known:
		room := share*(free+p.memory.Resident())/4 - goMemory() - fresh
		if first {
			renewArena(p.arenaLimit())
		}
		p.shrink(prog.name, free, room, all)
	}
}

// shrink lowers the batch until passes on all workers fit into room.
func (p *Pool) shrink(name string, free, room int64, n footprint) {
	was := p.Batch()
	take := func(batch int) int64 { return n.weights + int64(p.workers)*int64(batch)*n.item }
	batch := was
	for batch > 1 && take(batch) > room {
		batch = below(batch)
	}
	p.lower(batch, fmt.Sprintf("%s are free, %s of them for networks, and %s would take %s with %d × %d images",
		number.Bytes(free), number.Bytes(max(room, 0)), name, number.Bytes(take(was)), p.workers, was))
}

// Fits returns an error if not even a pass of one image fits into the free memory.
func Fits(g *onnx.Graph) error {
	weights, item := g.Memory()
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		item += 4 * v.Shape.Items()
	}
	if err := memory.Room(2*weights + item); err != nil { // the runtime keeps a copy of the weights written for it
		return fmt.Errorf("a pass of one image %w", err)
	}
	return nil
}

// goMemory returns the bytes of the process's memory that Go holds.
func goMemory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// below returns the largest power of two below n, which is at least 2.
func below(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// lower lowers the batch and reports why, unless the batch is not smaller.
func (p *Pool) lower(batch int, why string) {
	for was := p.Batch(); batch < was; was = p.Batch() {
		if p.batch.CompareAndSwap(int64(was), int64(batch)) && p.memory.Lowered != nil {
			p.memory.Lowered(Lowering{batch, was, why})
		}
	}
}

// arena is held for reading while a session is made, because the session takes the shared arena.
var arena sync.RWMutex

// shareArena makes one memory arena of at most limit bytes (0: any size), from which all new sessions allocate, weights
// included. If many programs take turns, an arena for each would hold several times the memory.
func shareArena(limit int64) error {
	info, err := rt.GetMemoryInfo()
	if err != nil {
		return err
	}
	cfg, err := rt.NewArenaCfg(int(limit), arenaNextPowerOfTwo, -1, -1)
	if err != nil {
		return err
	}
	defer cfg.Destroy()
	return rt.CreateAndRegisterAllocator(info, cfg)
}

// arenaNextPowerOfTwo doubles each of the arena's requests to the system. The other strategy, exactly the needed size,
// keeps a block for every larger batch: 460 MB instead of 64 MB after the sizes 1 to 64 of a small ResNet-18.
const arenaNextPowerOfTwo = 0

// renewArena replaces the shared arena by an empty one: the old one keeps all memory that it ever had and would grow
// with each network of a run. Its memory returns to the system with its last session.
func renewArena(limit int64) {
	arena.Lock()
	defer arena.Unlock()
	info, err := rt.GetMemoryInfo()
	if err == nil {
		err = rt.UnregisterAllocator(info)
	}
	if err == nil {
		// Without a shared arena, each session has its own: more memory, the same results.
		_ = shareArena(limit)
	}
	trimHeap()
}
