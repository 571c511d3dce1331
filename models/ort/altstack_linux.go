package ort

/*
#include <signal.h>

static stack_t own_stack(void) {
	stack_t s;
	sigaltstack(0, &s);
	return s;
}

static void give_back_stack(stack_t s) { sigaltstack(&s, 0); }
*/
import "C"

import "runtime"

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
