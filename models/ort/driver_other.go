//go:build !linux

package ort

// CheckDriver has nothing to say where CUDA is not provisioned: the runtime will.
func CheckDriver() error { return nil }

func deviceMemory(int) (bytes int64, known bool) { return 0, false }

func loadCUDA() error { return nil }
