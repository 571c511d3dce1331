//go:build !linux

package ort

// checkDriver has nothing to say where CUDA is not provisioned: the runtime will.
func checkDriver() error { return nil }

func deviceMemory(int) (bytes int64, known bool) { return 0, false }

func loadCUDA() error { return nil }
