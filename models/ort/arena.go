package ort

import (
	"sync"

	rt "github.com/yalue/onnxruntime_go"
)

// arena is held for reading while a session is made, which takes hold of the shared arena.
var arena sync.RWMutex

// shareArena makes one memory arena that all sessions from now on allocate from, of at most limit bytes, weights
// included; 0: of any size. With an arena for each session, the memory kept would be a multiple where many programs
// take turns.
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
// block for every batch size that is larger than those before: 460 MB instead of 64 MB after the sizes 1 to 64 of a
// small ResNet-18.
const arenaNextPowerOfTwo = 0

// renewArena puts an empty arena in the place of the shared one. An arena keeps all that it ever had, so that one for
// all networks of a run would grow with each of them. Memory of the old one goes back to the system with its last
// session, and so does what sessions have left behind in the C library.
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
