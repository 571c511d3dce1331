// Package ort runs ONNX graphs on ONNX Runtime: it finds or provisions the
// runtime's shared library, compiles models into programs and evaluates single
// items in batches, in runs side by side, on the CPU or a CUDA device.
//
// It is the only importer of onnxruntime_go.
package ort

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	onnx "github.com/yalue/onnxruntime_go"
)

// Options says where the runtime's library is and whether it may be fetched.
type Options struct {
	// Library is the path given with --onnxruntime; empty: search.
	Library string
	// Offline forbids downloading.
	Offline bool
	// Log gets a line for each download; nil: no log.
	Log io.Writer
}

var runtimeState struct {
	sync.Mutex
	library, version string // empty before Init
}

// Init finds ONNX Runtime's library and loads it. The order is o.Library, the
// environment variable ONNXRUNTIME_SHARED_LIBRARY, selfheal's own cache, and
// otherwise a pinned copy is provisioned. Once it has succeeded, later calls do
// nothing; after an error it may be tried again.
func Init(ctx context.Context, o Options) error {
	runtimeState.Lock()
	defer runtimeState.Unlock()
	if runtimeState.library != "" {
		return nil
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	lib, err := findLibrary(ctx, o)
	if err != nil {
		return err
	}
	if err := load(lib); err != nil {
		return err
	}
	runtimeState.library, runtimeState.version = lib, onnx.GetVersion()
	return nil
}

// Version is the loaded runtime's version, empty before Init.
func Version() string {
	runtimeState.Lock()
	defer runtimeState.Unlock()
	return runtimeState.version
}

// LibraryPath is the loaded library's path, empty before Init.
func LibraryPath() string {
	runtimeState.Lock()
	defer runtimeState.Unlock()
	return runtimeState.library
}

// load opens the library at an absolute path and makes the environment. The
// environment logs errors only.
func load(lib string) error {
	onnx.SetSharedLibraryPath(lib)
	err := onnx.InitializeEnvironment(onnx.WithLogLevelFatal())
	if err == nil {
		err = shareArena()
	}
	if err == nil {
		return nil
	}
	msg := oneLine(err)
	if strings.HasSuffix(msg, "ORT API base: 2") {
		msg = "it is older than ONNX Runtime " + minVersion
	}
	return fmt.Errorf("cannot load ONNX Runtime from %s: %s; give another library with --onnxruntime PATH or %s",
		filepath.Clean(lib), msg, envLibrary)
}

// shareArena makes one memory arena that all sessions allocate from. With an
// arena for each session, the memory kept would be a multiple where many
// programs take turns.
func shareArena() error {
	info, err := onnx.GetMemoryInfo()
	if err != nil {
		return err
	}
	cfg, err := onnx.NewArenaCfg(0, arenaNextPowerOfTwo, -1, -1)
	if err != nil {
		return err
	}
	defer cfg.Destroy()
	return onnx.CreateAndRegisterAllocator(info, cfg)
}

// arenaNextPowerOfTwo doubles what the arena asks the system for. The other
// strategy, as much as requested, keeps a block for every batch size that is
// larger than those before: 460 MB instead of 64 MB after the sizes 1 to 64 of a
// small ResNet-18.
const arenaNextPowerOfTwo = 0

var errNotLoaded = errors.New("ONNX Runtime is not loaded: ort.Init comes first")

// oneLine puts a runtime error, which may span lines, on one.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
