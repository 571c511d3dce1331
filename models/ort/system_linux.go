package ort

/*
#include <malloc.h>
#include <signal.h>

// glibc raises the size from which it maps a block of its own, and gives it back
// when freed, up to 32 MiB as such blocks are freed. ONNX Runtime frees many while
// it folds a model's constants, and what is then freed stays with the process.
static void give_back_large_blocks(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

static void trim_heap(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

static stack_t own_stack(void) {
	stack_t s;
	sigaltstack(0, &s);
	return s;
}

static void give_back_stack(stack_t s) { sigaltstack(&s, 0); }
*/
import "C"

import "runtime"

func init() { C.give_back_large_blocks() }

// trimHeap gives free memory of the C library's heap back to the system. Sessions leave holes in it, hundreds of
// megabytes after a network of tens of millions of weights.
func trimHeap() { C.trim_heap() }

// keepingSignalStack runs what may give its thread another stack for signals. OpenVINO does, since AMX takes a larger
// one than most programs have (Go's is large enough), and frees it from whatever thread ends its last session: a signal
// to the first one would then end the program.
func keepingSignalStack(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := C.own_stack()
	defer C.give_back_stack(own)
	do()
}
