package ort

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

// NVIDIA's driver is loaded, not linked: most machines have none. Its functions return 0 where they succeed.
static void *open_driver(void) { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

#define CALL(name, types, ...) { \
	int (*f) types = (int (*) types)dlsym(driver, name); \
	int rc = f ? f(__VA_ARGS__) : -1; \
	if (rc) return rc; \
}

static int driver_says(void *driver, int *version, int *devices) {
	CALL("cuDriverGetVersion", (int *), version)
	CALL("cuInit", (unsigned), 0)
	CALL("cuDeviceGetCount", (int *), devices)
	return 0;
}

// free_memory asks in the context that the device's other users in the process share.
static int free_memory(void *driver, int number, size_t *left) {
	int device, rc;
	void *context;
	size_t total;
	CALL("cuInit", (unsigned), 0)
	CALL("cuDeviceGet", (int *, int), &device, number)
	CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, device)
	int (*push)(void *) = (int (*)(void *))dlsym(driver, "cuCtxPushCurrent_v2");
	int (*ask)(size_t *, size_t *) = (int (*)(size_t *, size_t *))dlsym(driver, "cuMemGetInfo_v2");
	int (*pop)(void **) = (int (*)(void **))dlsym(driver, "cuCtxPopCurrent_v2");
	int (*release)(int) = (int (*)(int))dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
	rc = push && ask && pop ? push(context) : -1;
	if (!rc) {
		rc = ask(left, &total);
		pop(&context);
	}
	if (release) release(device);
	return rc;
}

static void *load_library(const char *path, char **why) {
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!library) *why = dlerror();
	return library;
}

// glibc raises the size from which it maps a block of its own, and gives it back
// when freed, up to 32 MiB as such blocks are freed. ONNX Runtime frees many while
// it folds a model's constants, and what is then freed stays with the process.
static void give_back_large_blocks(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

static void trim_heap(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

static stack_t own_stack(void) {
	stack_t s;
	sigaltstack(0, &s);
	return s;
}

static void give_back_stack(stack_t s) { sigaltstack(&s, 0); }
*/
import "C"

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"
)

// leastCUDA is the CUDA version that a driver must support: all usable builds of ONNX Runtime are for CUDA 12 or newer,
// and one for 12.8 runs on every driver for 12.
const leastCUDA = 12000

// driver is NVIDIA's driver, nil if there is none. It stays loaded.
var driver = sync.OnceValue(func() unsafe.Pointer { return C.open_driver() })

// checkDriver returns an error of one line if NVIDIA's driver is not installed, is too old, or finds no device.
func checkDriver() error {
	if driver() == nil {
		return errNoDriver
	}
	var version, devices C.int
	rc := C.driver_says(driver(), &version, &devices)
	switch {
	case version > 0 && version < leastCUDA:
		return fmt.Errorf("NVIDIA's driver is for CUDA up to %d.%d; install version 525 or newer, for CUDA 12",
			version/1000, version%1000/10)
	case rc != 0:
		return fmt.Errorf("NVIDIA's driver is installed, but finds no device to use (CUDA error %d); nvidia-smi shows "+
			"the driver and the devices", rc)
	case devices == 0:
		return errors.New("NVIDIA's driver is installed, but there is no device")
	}
	return nil
}

// deviceMemory returns the free bytes of a device's memory; known is false if the driver does not say.
func deviceMemory(device int) (bytes int64, known bool) {
	if driver() == nil {
		return 0, false
	}
	var left C.size_t
	rc := C.free_memory(driver(), C.int(device), &left)
	return int64(left), rc == 0
}

// preload loads those libraries needed by a library that lie in some folders, each after the ones that it needs itself.
// The system's linker, which does not search these folders, then finds them loaded; libraries in none of the folders
// are left to it.
func preload(library string, folders []string, seen map[string]bool) error {
	f, err := elf.Open(library)
	if err != nil {
		return err
	}
	needs, err := f.ImportedLibraries()
	f.Close()
	for _, name := range needs {
		for _, folder := range folders {
			path := filepath.Join(folder, name)
			if _, missing := os.Stat(path); missing == nil && !seen[name] && err == nil {
				seen[name] = true
				err = loadLibrary(path, folders, seen)
			}
		}
	}
	return err
}

// loadLibrary loads a library permanently, after those that it needs.
func loadLibrary(path string, folders []string, seen map[string]bool) error {
	if err := preload(path, folders, seen); err != nil {
		return err
	}
	file := C.CString(path)
	defer C.free(unsafe.Pointer(file))
	var why *C.char
	if C.load_library(file, &why) == nil {
		return errors.New(C.GoString(why))
	}
	return nil
}

// lateLibraries are libraries that CUDA's load by name when they are first used.
var lateLibraries = []string{"libnvrtc.so.*", "libnvJitLink.so.*"}

// loadCUDA loads the libraries of CUDA and cuDNN that lie beside ONNX Runtime's, or in the folders of NVIDIA's pip
// packages beside those of a Python environment. The error is the linker's.
var loadCUDA = sync.OnceValue(func() error {
	beside := filepath.Dir(LibraryPath())
	provider := filepath.Join(beside, "libonnxruntime_providers_cuda.so")
	if _, err := os.Stat(provider); err != nil {
		return nil // the runtime will say so
	}
	packages, _ := filepath.Glob(filepath.Join(beside, "..", "..", "nvidia", "*", "lib"))
	folders := append([]string{beside}, packages...)
	seen := map[string]bool{}
	if err := preload(provider, folders, seen); err != nil {
		return err
	}
	for _, folder := range folders {
		for _, name := range lateLibraries {
			found, _ := filepath.Glob(filepath.Join(folder, name))
			for _, path := range found {
				if err := loadLibrary(path, folders, seen); err != nil {
					return err
				}
			}
		}
	}
	return nil
})

func init() { C.give_back_large_blocks() }

// trimHeap returns free memory of the C library's heap to the system: sessions leave holes of hundreds of megabytes.
func trimHeap() { C.trim_heap() }

// keepingSignalStack restores the thread's signal stack after do. OpenVINO, for AMX, installs its own and frees it from
// whichever thread ends its last session: a signal to the first thread would then crash the program.
func keepingSignalStack(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := C.own_stack()
	defer C.give_back_stack(own)
	do()
}
