package ort

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rt "github.com/yalue/onnxruntime_go"

	"selfheal/internal/must"
)

// fakeDriver is C code of a driver whose answers the environment gives.
const fakeDriver = `
#include <stddef.h>
#include <stdlib.h>
static int set(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
static void *current;
int cuDriverGetVersion(int *v) { *v = set("FAKE_VERSION"); return 0; }
int cuInit(unsigned flags) { return flags ? 1 : set("FAKE_INIT"); }
int cuDeviceGetCount(int *n) { *n = set("FAKE_DEVICES"); return 0; }
int cuDeviceGet(int *d, int n) { *d = 7 + n; return n < set("FAKE_DEVICES") ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &current; return d != 8; }
int cuCtxPushCurrent_v2(void *c) { current = c; return 0; }
int cuMemGetInfo_v2(size_t *left, size_t *total) {
	if (current != &current) return 201;
	*left = (size_t)3 << 32; *total = (size_t)5 << 32; return 0;
}
int cuCtxPopCurrent_v2(void **c) { *c = current; current = 0; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { return d != 8; }
`

// library makes a shared library of C code that needs others.
func library(t *testing.T, folder, name, code string, needs ...string) (file string) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip(err)
	}
	must.Do(t, os.MkdirAll(folder, 0o755))
	file = filepath.Join(folder, name)
	must.Do(t, os.WriteFile(file+".c", []byte(code), 0o644))
	args := append([]string{"-shared", "-fPIC", "-Wl,-soname," + name, "-o", file, file + ".c"}, needs...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// child runs this test in its own process with more in its environment, and returns the output.
func child(t *testing.T, env ...string) string {
	t.Helper()
	cmd := exec.Command(must.Get(os.Executable())(t), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), "SELFHEAL_TEST_CHILD=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The driver is asked first, and its answers become a line.
func TestDriver(t *testing.T) {
	if os.Getenv("SELFHEAL_TEST_CHILD") != "" {
		bytes, known := deviceMemory(1)
		fmt.Printf("driver: %v; memory: %d %v\n", checkDriver(), bytes, known)
		return
	}
	dir := t.TempDir()
	library(t, dir, "libcuda.so.1", fakeDriver)
	for _, c := range []struct{ version, init, devices, want string }{
		{"12020", "0", "2", "driver: <nil>; memory: 12884901888 true"},
		{"12020", "0", "1", "driver: <nil>; memory: 0 false"},
		{"11080", "0", "2", "driver: NVIDIA's driver is for CUDA up to 11.8; install version 525 or newer"},
		{"13000", "100", "0", "driver: NVIDIA's driver is installed, but finds no device to use (CUDA error 100); "},
		{"13000", "0", "0", "driver: NVIDIA's driver is installed, but there is no device; memory: 0 false"},
	} {
		said := child(t, "LD_LIBRARY_PATH="+dir, "FAKE_VERSION="+c.version, "FAKE_INIT="+c.init,
			"FAKE_DEVICES="+c.devices)
		if !strings.Contains(said, c.want) {
			t.Errorf("%+v: it said\n%s", c, said)
		}
	}
}

// Libraries are loaded from folders that the linker does not search, each after the libraries that it needs. If a
// needed library is nowhere, the error names it.
func TestPreload(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	inner := library(t, two, "libselfhealinner.so.1", "int inner(void) { return 1; }")
	outer := library(t, one, "libselfhealouter.so.1", "int inner(void); int outer(void) { return inner(); }", inner)
	top := library(t, dir, "libselfhealtop.so", "int outer(void); int top(void) { return outer(); }", outer)
	must.Refuse(t, loadLibrary(top, nil, map[string]bool{}), "libselfhealouter.so.1: cannot open shared object file")
	must.Refuse(t, preload(top, []string{one}, map[string]bool{}), "libselfhealinner.so.1: cannot open shared object")
	must.Do(t, preload(top, []string{one, two}, map[string]bool{}))
	must.Do(t, loadLibrary(top, nil, map[string]bool{}))
}

// TestRealCUDA provisions the library with the CUDA provider, as if there were a driver, and loads the provider with
// all that it needs. Without a driver it fails only when it asks for the devices.
func TestRealCUDA(t *testing.T) {
	if os.Getenv("SELFHEAL_TEST_DOWNLOAD") != "1" {
		t.Skip("SELFHEAL_TEST_DOWNLOAD is not 1")
	}
	if os.Getenv(envProvider) == "" {
		t.Log(child(t, envProvider+"="+ProviderCUDA, envLibrary+"="))
		return
	}
	must.Do(t, loadCUDA())
	o := must.Get(rt.NewSessionOptions())(t)
	defer o.Destroy()
	err := appendCUDA(o, Target{ProviderCUDA, 0, Float32})
	if checkDriver() == nil {
		must.Do(t, err)
		return
	}
	must.Refuse(t, err, "CUDA failure ", "driver")
	for _, name := range []string{"libcublasLt.so.12", "libcudnn.so.9", "libnvrtc.so.12"} { // by name alone: loaded
		must.Do(t, loadLibrary(name, nil, nil))
	}
	t.Log(err)
}
