// Package testinput serves tests of several packages: it finds the real networks and images, which lie outside the
// project, and loads the runtime. A test that needs an absent file is skipped.
package testinput

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/ort"
)

// Tests keep little for long: collecting garbage rarely spares a tenth of their time.
func init() { debug.SetGCPercent(400) }

// Root returns the repository's folder: the nearest one above a test's own with go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir := must.Get(os.Getwd())(t)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	t.Fatal("no go.mod above the working folder")
	return ""
}

// Real returns the path of a file of real input: in $SELFHEAL_REAL, otherwise in shared/real beside the repository. If
// it is absent, the test is skipped.
func Real(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("SELFHEAL_REAL")
	if dir == "" {
		dir = filepath.Join(Root(t), "..", "shared", "real")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no real input: %v (set SELFHEAL_REAL to its folder)", err)
	}
	return path
}

// NumbersAlone skips, in short mode, which the race detector uses, a test that is long only to get precise numbers and
// shares no state of its own.
func NumbersAlone(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("short mode leaves numbers out")
	}
}

// Large reports whether SELFHEAL_TEST_LARGE asks for tests that take minutes or many gigabytes.
func Large() bool { return os.Getenv("SELFHEAL_TEST_LARGE") != "" }

// envProvider names the provider in a process of [WithOpenVINO].
const envProvider = "SELFHEAL_TEST_PROVIDER"

// load loads ONNX Runtime, and provisions it if it is absent.
func load() error {
	log := func(f ort.Fetch) { fmt.Fprintln(os.Stderr, f) }
	return ort.Init(context.Background(), ort.Options{Log: log, Provider: os.Getenv(envProvider)})
}

// Runtime loads ONNX Runtime, and provisions it if it is absent.
func Runtime(t testing.TB) {
	t.Helper()
	must.Do(t, load())
}

// WithOpenVINO runs the rest of a test in its own process, with the ONNX Runtime that has OpenVINO, because a process
// has one runtime. The test must not be a subtest. It is skipped if that runtime is not available.
func WithOpenVINO(t *testing.T, rest func()) {
	t.Helper()
	if os.Getenv(envProvider) != "" {
		if err := load(); err != nil {
			t.Skip(err)
		}
		rest()
		return
	}
	cmd := exec.Command(must.Get(os.Executable())(t), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envProvider+"="+ort.ProviderOpenVINO, "ONNXRUNTIME_SHARED_LIBRARY=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP: "+t.Name()+" ")) {
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
}

// RunMain is a TestMain for packages in which every test needs the runtime.
func RunMain(m *testing.M) {
	if err := load(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Pointer is the text that Git stores in place of a file kept by Git LFS.
const Pointer = "version https://git-lfs.github.com/spec/v1\n" +
	"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
