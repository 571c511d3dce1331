package config

import "selfheal/models/ort"

// The execution providers of ONNX Runtime.
const (
	CPU      = ort.ProviderCPU
	CUDA     = ort.ProviderCUDA
	OpenVINO = ort.ProviderOpenVINO
)

// The precisions of attacks' passes: OpenVINO has the first two, CUDA the first and the last.
const (
	Float32       = ort.Float32
	BFloat16      = ort.BFloat16
	TensorFloat32 = ort.TensorFloat32
)

// Providers are the values of runtime.provider.
var Providers = []string{CPU, CUDA, OpenVINO}

// Runtime says how to compute. Only Provider and Winograd, and on CUDA Batch, have
// a say in how a result is rounded.
type Runtime struct {
	Provider  string // one of [Providers]
	Device    int    // of CUDA, from 0
	Workers   int    // runs side by side; 0: as many as keep all cores busy, two on CUDA
	Batch     int    // images in a run, at most; on CUDA exactly, and 0 is as many as fit, up to 256
	Threads   int    // that work on a run
	Winograd  bool   // rewrite convolutions for the CPU; false on CUDA
	Precision string // of attacks' passes; "" on the CPU
}

// Reduced is the precision of attacks' passes where it is less than the judge's, which is float32; "" otherwise.
func (r Runtime) Reduced() string {
	if r.Precision == Float32 {
		return ""
	}
	return r.Precision
}

// Target is what attacks compute on.
func (r Runtime) Target() ort.Target {
	return ort.Target{Provider: r.Provider, Device: r.Device, Precision: r.Precision}
}
