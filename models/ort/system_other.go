//go:build !linux

package ort

// CUDA is not provisioned here; the runtime reports what is missing.
func checkDriver() error { return nil }

func deviceMemory(int) (bytes int64, known bool) { return 0, false }

func loadCUDA() error { return nil }

// trimHeap does nothing: the C libraries of other systems return memory by themselves.
func trimHeap() {}

func keepingSignalStack(do func()) { do() }
