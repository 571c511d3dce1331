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

// Memory is what a pool is told of the memory that there is.
type Memory struct {
	// Free is how many bytes can still be taken; known is false where nobody can tell.
	Free     func() (bytes int64, known bool)
	Resident func() int64   // how many bytes of its own the process holds already
	Lowered  func(Lowering) // is told whenever the batch gets smaller
}

// Lowering is a batch that got smaller.
type Lowering struct {
	To   int    `json:"batch"`
	From int    `json:"batch_before"`
	Why  string `json:"reason"`
}

// String says it in a line for people.
func (l Lowering) String() string {
	return fmt.Sprintf("batch %d instead of %d: %s", l.To, l.From, l.Why)
}

// Within keeps a pool on the CPU within the memory that there is. Before a program is compiled, the batch gets smaller,
// by powers of two and down to 1, if passes of it on all workers would take more than the pool's share. A pass that
// runs out of memory all the same is repeated in smaller batches, with this option or without.
func Within(m Memory) PoolOption { return func(p *Pool) { p.memory = m } }

// footprint is what a program holds, in bytes.
type footprint struct {
	weights int64
	item    int64 // in values of the graph, for each item of a batch
}

const (
	share = 3 // quarters of the memory that there is are the pool's; attacks and others have the rest
	// slack is by how much passes take more than their values, in halves: blocks of an arena that nothing fits into,
	// and kernels' own buffers. On eight networks passes took 0.89 to 1.57 times their values
	// (docs/measured/performance.md).
	slack = 3
	fresh = 32 << 20 // is what the process comes to hold besides, before its first pass
)

// arenaLimit is all the memory that there is, in bytes, so that the runtime says that it is short before the system
// ends the process; 0 where there is no telling.
func (p *Pool) arenaLimit() int64 {
	if free, known := p.unused(); known {
		return max(free+p.memory.Resident(), leastArena)
	}
	return 0
}

// leastArena is a limit that lets small networks run however little seems to be left.
const leastArena = 64 << 20

// unused is what can still be taken, where the pool is to know and runs in that memory.
func (p *Pool) unused() (bytes int64, known bool) {
	if p.OnDevice() || p.memory.Free == nil {
		return 0, false
	}
	return p.memory.Free()
}

// fit makes the batch smaller, if need be, so that passes of a program that is about to be compiled fit in. On the
// processor programs take turns in one arena. On a device each has its own, which keeps what passes have taken.
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

// shrink makes the batch so small that passes on all workers, which need so much, fit into the room.
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

// Fits is an error for a network of which not even a pass of one image fits into the memory that is free.
func Fits(g *onnx.Graph) error {
	weights, item := g.Memory()
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		item += 4 * v.Shape.Items()
	}
	if err := memory.Room(2*weights + item); err != nil { // weights are written for the runtime, which keeps a copy
		return fmt.Errorf("a pass of one image %w", err)
	}
	return nil
}

// goMemory is what Go holds of the process's memory, in bytes.
func goMemory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// below is the largest power of two below n, which is 2 or more.
func below(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// lower makes the batch smaller and says why; a batch that is no smaller changes nothing.
func (p *Pool) lower(batch int, why string) {
	for was := p.Batch(); batch < was; was = p.Batch() {
		if p.batch.CompareAndSwap(int64(was), int64(batch)) && p.memory.Lowered != nil {
			p.memory.Lowered(Lowering{batch, was, why})
		}
	}
}

// arena is held for reading while a session is made, which takes hold of the shared arena.
var arena sync.RWMutex

// shareArena makes one memory arena that all sessions from now on allocate from, weights included, of at most limit
// bytes; 0: of any size. Where many programs take turns, an arena for each would keep a multiple of the memory.
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

// arenaNextPowerOfTwo doubles what the arena asks the system for. The other strategy, as much as requested, keeps a
// block for every larger batch: 460 MB instead of 64 MB after the sizes 1 to 64 of a small ResNet-18.
const arenaNextPowerOfTwo = 0

// renewArena puts an empty arena in the place of the shared one, which keeps all that it ever had, and would grow with
// each network of a run. Its memory goes back to the system with its last session.
func renewArena(limit int64) {
	arena.Lock()
	defer arena.Unlock()
	info, err := rt.GetMemoryInfo()
	if err == nil {
		err = rt.UnregisterAllocator(info)
	}
	if err == nil {
		// Without a shared arena, sessions have one each: more memory, the same results.
		_ = shareArena(limit)
	}
	trimHeap()
}
