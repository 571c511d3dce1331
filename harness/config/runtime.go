package config

// The execution providers of ONNX Runtime.
const (
	CPU  = "cpu"
	CUDA = "cuda"
)

// Providers are the values of runtime.provider.
var Providers = []string{CPU, CUDA}

// Runtime says how to compute. Only Provider and Winograd, and on CUDA Batch, have
// a say in how a result is rounded.
type Runtime struct {
	Provider string // one of [Providers]
	Device   int    // of CUDA, from 0
	Workers  int    // runs side by side; 0: as many as keep all cores busy, one on CUDA
	Batch    int    // images in a run, at most; on CUDA exactly
	Threads  int    // that work on a run
	Winograd bool   // rewrite convolutions for the CPU; false on CUDA
}
