package ort

/*
#include <malloc.h>

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
*/
import "C"

func init() { C.give_back_large_blocks() }

// trimHeap gives free memory of the C library's heap back to the system. Sessions leave holes in it, hundreds of
// megabytes after a network of tens of millions of weights.
func trimHeap() { C.trim_heap() }
