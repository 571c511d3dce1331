package doctor

import "selfheal/models/ort"

// CUDA says on one line whether ONNX Runtime, which must be loaded, computes on
// CUDA device 0, and otherwise why not.
func CUDA() string {
	if err := ort.CheckCUDA(0); err != nil {
		return "not available: " + err.Error()
	}
	return "device 0 computes"
}
