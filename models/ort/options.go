package ort

import (
	onnx "github.com/yalue/onnxruntime_go"

	pb "selfheal/models/onnx/onnxpb"
)

// The execution providers that a pool can run on.
const (
	ProviderCPU  = "cpu"
	ProviderCUDA = "cuda"
)

// PoolOption changes how a pool runs its programs.
type PoolOption func(*Pool)

// Threads lets n threads work on each run (default, and least: 1). On the CPU
// they change no bit of a result. Runs side by side use the cores better; more
// threads are for fewer images than cores, down to a single one, and for networks
// of which one batch a core does not fit into memory.
//
// A program's n − 1 additional threads are shared by all its runs.
func Threads(n int) PoolOption { return func(p *Pool) { p.threads = max(1, n) } }

// CUDA runs programs on a CUDA device (an index from 0 up) in float32, without
// TF32. [CheckCUDA] tells beforehand whether that is possible; if it is not,
// Compile fails with the same words.
//
// Weights and all values between a program's inputs and outputs stay on the device, so
// a gradient, which is one program, is one pass there. Each run copies the inputs to the
// device and the outputs back, from and to ordinary memory: onnxruntime_go makes tensors
// neither in device memory nor page-locked, and an IoBinding copies an input only once,
// when it is bound.
//
// Each run has the pool's full batch: cuDNN chooses and prepares its kernels by
// shape. So one shape is prepared once, and an item's result does not depend on its
// neighbours. A smaller batch is filled up with repetitions.
func CUDA(device int) PoolOption {
	return func(p *Pool) { p.cuda, p.device = true, device }
}

// compileConfig is what sessions differ in. Its zero value is a session on one
// thread of the CPU.
type compileConfig struct {
	unoptimized bool
	threads     int // 0: 1
	cuda        bool
	device      int       // of cuda
	mean        []float32 // subtracted from the first input, or nil
}

// newSession makes a session of a model with the declared inputs and outputs.
func newSession(model []byte, in, out []*pb.ValueInfoProto, cfg compileConfig) (*onnx.DynamicAdvancedSession, error) {
	if LibraryPath() == "" {
		return nil, errNotLoaded
	}
	o, err := sessionOptions(cfg)
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	return onnx.NewDynamicAdvancedSessionWithONNXData(model, names(in), names(out), o)
}

// sessionOptions are those of every session. The default is one thread a run,
// because two one-thread runs side by side beat one two-thread run.
func sessionOptions(cfg compileConfig) (*onnx.SessionOptions, error) {
	o, err := onnx.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	entry := o.AddSessionConfigEntry
	var level onnx.GraphOptimizationLevel = onnx.GraphOptimizationLevelEnableAll
	if cfg.unoptimized {
		level = onnx.GraphOptimizationLevelDisableAll
	}
	sets := []func() error{
		func() error { return o.SetIntraOpNumThreads(max(1, cfg.threads)) },
		func() error { return o.SetInterOpNumThreads(1) },
		func() error { return o.SetExecutionMode(onnx.ExecutionModeSequential) },
		func() error { return o.SetGraphOptimizationLevel(level) },
		func() error { return o.SetLogSeverityLevel(onnx.LoggingLevelFatal) },
		// A memory pattern per batch size takes one block for a whole run, which
		// fits badly into a shared arena and is no faster.
		func() error { return o.SetMemPattern(false) },
		func() error { return entry("session.use_env_allocators", "1") },
		// Weights outside the shared arena go back to the system on Close.
		func() error { return entry("session.use_device_allocator_for_initializers", "1") },
	}
	if cfg.threads > 1 {
		// Threads belong to a session and by default wait for its next operator by
		// spinning, on cores that another session or program could use: with one of
		// two cores taken, a gradient on two threads was twice as slow that way.
		sets = append(sets, func() error { return entry("session.intra_op.allow_spinning", "0") })
	}
	if cfg.cuda {
		sets = append(sets, func() error { return useCUDA(o, cfg.device) })
	}
	for _, set := range sets {
		if err := set(); err != nil {
			o.Destroy()
			return nil, err
		}
	}
	return o, nil
}
