// Package testinput is what tests of several packages share: the real networks
// and images, which lie outside the project, and the runtime.
package testinput

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/ort"
)

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

// Real returns the path of a file of real input: in $SELFHEAL_REAL, else in
// shared/real beside the repository. Where it is absent the test is skipped.
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

// Large reports whether SELFHEAL_TEST_LARGE asks for what takes minutes or many gigabytes.
func Large() bool { return os.Getenv("SELFHEAL_TEST_LARGE") != "" }

// Runtime loads ONNX Runtime, provisioning it where it is absent.
func Runtime(t testing.TB) {
	t.Helper()
	must.Do(t, ort.Init(context.Background(), ort.Options{Log: ort.Print(os.Stderr)}))
}

// RunMain is a TestMain for packages in which every test needs the runtime.
func RunMain(m *testing.M) {
	if err := ort.Init(context.Background(), ort.Options{Log: ort.Print(os.Stderr)}); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
