// Package ort runs ONNX graphs on ONNX Runtime. [Init] finds the runtime's shared library, or fetches it, and loads it.
// [NewPool] makes a pool, [Pool.Compile] compiles models into programs, and [Pool.Run] evaluates single items, which
// the pool puts together into batches and runs side by side on the chosen provider. A [Session] runs whole tensors
// without a pool. On the CPU an item's result does not depend on its batch, the workers or the threads.
//
// It is the only importer of onnxruntime_go.
package ort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/internal/memory"
	"selfheal/internal/number"
	"selfheal/models/onnx"
)

// Options says where the runtime's library is and whether it may be fetched.
type Options struct {
	Library  string      // the path given with --onnxruntime; empty: search
	Provider string      // the provider whose library is searched; "": the CPU's
	Offline  bool        // no downloads
	Log      func(Fetch) // called at each step of a download; nil: no log
}

var runtimeState struct {
	sync.Mutex
	library, origin, version string // empty before Init
}

// Init finds ONNX Runtime's library and loads it, once. It takes the first of: o.Library; the environment variable
// ONNXRUNTIME_SHARED_LIBRARY; for the CPU provider SELFHEAL_ONNXRUNTIME, which selfheal's Python package sets;
// selfheal's own cache; a pinned copy, which it fetches. After an error it may be called again.
func Init(ctx context.Context, o Options) error {
	runtimeState.Lock()
	defer runtimeState.Unlock()
	if runtimeState.library != "" {
		return nil
	}
	if o.Log == nil {
		o.Log = func(Fetch) {}
	}
	lib, origin, err := findLibrary(ctx, o)
	if err == nil {
		err = load(lib)
	}
	if err == nil {
		runtimeState.library, runtimeState.origin, runtimeState.version = lib, origin, rt.GetVersion()
	}
	return err
}

// Version, LibraryPath and Origin return the loaded runtime's version, its library's path and how that was found; ""
// before Init.
func Version() string     { return loaded(&runtimeState.version) }
func LibraryPath() string { return loaded(&runtimeState.library) }
func Origin() string      { return loaded(&runtimeState.origin) }

func loaded(what *string) string {
	runtimeState.Lock()
	defer runtimeState.Unlock()
	return *what
}

// load opens the library at an absolute path and makes the environment. The environment logs only errors. Builds from
// 1.32 on can send telemetry, and leave a file for it in the temporary folder; load turns that off.
func load(lib string) error {
	err := os.Setenv("ORT_DISABLE_TELEMETRY", "1")
	if err == nil {
		rt.SetSharedLibraryPath(lib)
		err = rt.InitializeEnvironment(rt.WithLogLevelFatal())
	}
	if err == nil {
		err = shareArena(0)
	}
	if err == nil {
		return nil
	}
	msg := oneLine(err)
	if limit, limited := memory.AddressSpace(); limited && limit < leastSpace {
		return fmt.Errorf("cannot load ONNX Runtime from %s: the address space is limited to %s (ulimit -v), and it "+
			"takes about %s", filepath.Clean(lib), number.Bytes(limit), number.Bytes(int64(leastSpace)))
	}
	if strings.HasSuffix(msg, "ORT API base: 2") {
		msg = "it is older than ONNX Runtime " + minVersion
	}
	return fmt.Errorf("cannot load ONNX Runtime from %s: %s; give another library with --onnxruntime PATH or %s",
		filepath.Clean(lib), msg, envLibrary)
}

// leastSpace is roughly the address space that the program takes before any network.
const leastSpace = 5 << 29

// oneLine puts a runtime error, which may have several lines, on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// PoolOption changes how a pool runs its programs.
type PoolOption func(*Pool)

// On runs programs on a target. [Target.Check] says beforehand whether that is possible. Otherwise Compile fails with
// the same message, or, for a provider whose runs have fixed sizes, the first run fails.
//
// On a device each run copies its inputs and outputs from and to ordinary memory, because onnxruntime_go makes no other
// tensors. A run always has the pool's full batch, padded with repetitions: cuDNN chooses and prepares its kernels by
// shape, so only one shape is prepared, and an item's result does not depend on its neighbours. By default one run
// copies its items while another one computes, each in its own stream.
func On(t Target) PoolOption {
	return func(p *Pool) {
		row := t.Row()
		if row.use != nil {
			p.attack = t
		}
		if row.All {
			p.on = Target{t.Provider, t.Device, Float32}
		}
	}
}

// Threads makes n threads work on each run (default and minimum: 1; maximum: four per core). On the CPU they change no
// bit of a result. Runs side by side use the cores better; more threads help with fewer images than cores, and with
// networks of which one batch per core does not fit into memory. All runs of a program share its n − 1 additional
// threads.
func Threads(n int) PoolOption { return func(p *Pool) { p.threads = max(1, n) } }

// compileConfig holds the differences between sessions. Its zero value is a session on one thread of the CPU.
type compileConfig struct {
	path        string // of the model, if its weights lie beside it; "": the model contains them
	unoptimized bool
	threads     int // for a run; 0: 1
	runs        int // number of runs side by side
	on          Target
	attacks     bool      // run on the pool's target for attacks
	mean        []float32 // subtracted from the first input, or nil
	footprint   footprint
	exactly     func() (*Program, error)
}

// newSession makes a session of a model with the declared inputs and outputs.
func newSession(model []byte, in, out []onnx.Value, cfg compileConfig) (*rt.DynamicAdvancedSession, error) {
	if LibraryPath() == "" {
		return nil, errors.New("ONNX Runtime is not loaded: ort.Init comes first")
	}
	o, err := sessionOptions(cfg)
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	arena.RLock()
	defer arena.RUnlock()
	if cfg.path != "" {
		return rt.NewDynamicAdvancedSession(cfg.path, names(in), names(out), o)
	}
	return rt.NewDynamicAdvancedSessionWithONNXData(model, names(in), names(out), o)
}

// sessionOptions sets one thread per run by default: two one-thread runs side by side are faster than one two-thread
// run.
func sessionOptions(cfg compileConfig) (*rt.SessionOptions, error) {
	o, err := rt.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	var level rt.GraphOptimizationLevel = rt.GraphOptimizationLevelEnableAll
	if cfg.unoptimized {
		level = rt.GraphOptimizationLevelDisableAll
	}
	err = cmp.Or(
		o.SetIntraOpNumThreads(max(1, cfg.threads)),
		o.SetInterOpNumThreads(1),
		o.SetExecutionMode(rt.ExecutionModeSequential),
		o.SetGraphOptimizationLevel(level),
		o.SetLogSeverityLevel(rt.LoggingLevelFatal),
		// A memory pattern takes one block for a whole run, which fits badly into a shared arena and is no faster.
		o.SetMemPattern(false),
		o.AddSessionConfigEntry("session.use_env_allocators", "1"),
		// Weights outside the shared arena return to the system on Close.
		o.AddSessionConfigEntry("session.use_device_allocator_for_initializers", "1"))
	if cfg.threads > 1 && err == nil {
		// By default a session's threads wait for its next operator by spinning, on cores that others could use: with
		// one of two cores taken, a gradient on two threads was twice as slow that way.
		err = o.AddSessionConfigEntry("session.intra_op.allow_spinning", "0")
	}
	if use := cfg.on.Row().use; use != nil && err == nil {
		err = use(o, cfg)
	}
	if err != nil {
		o.Destroy()
		return nil, err
	}
	return o, nil
}
