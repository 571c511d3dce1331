package ort

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"selfheal/internal/must"
)

// A library that the user names is used or refused, never replaced.
func TestGivenLibrary(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	must.Do(t, os.WriteFile(text, []byte(fakeLibrary), 0o644))
	for path, want := range map[string]string{
		filepath.Join(dir, "none.so"): "there is no file",
		dir:                           "is not a file",
		text:                          "is not a shared library",
	} {
		if text == path && runtime.GOOS != "linux" {
			continue
		}
		_, _, err := findLibrary(context.Background(), Options{Library: path})
		must.Refuse(t, err, "--onnxruntime: ", want)
		for _, variable := range []string{envPackage, envLibrary} {
			t.Setenv(variable, path)
			_, _, err := findLibrary(context.Background(), Options{})
			must.Refuse(t, err, variable+": ", want)
		}
		t.Setenv(envLibrary, "")
	}
	t.Setenv("XDG_CACHE_HOME", dir)
	_, _, err := findLibrary(context.Background(), Options{Provider: ProviderOpenVINO, Offline: true})
	must.Refuse(t, err, "--offline forbids") // the package's library is the CPU provider's alone
	if runtime.GOOS == "linux" {
		whole := must.Get(os.ReadFile(LibraryPath()))(t)
		cut := filepath.Join(dir, "cut.so")
		must.Do(t, os.WriteFile(cut, whole[:len(whole)/2], 0o644))
		if _, _, err := findLibrary(context.Background(), Options{Library: cut}); err == nil {
			t.Error("took half a library")
		}
	}
	t.Setenv(envPackage, "")
	got, _, err := findLibrary(context.Background(), Options{Library: LibraryPath()})
	if err != nil || got != LibraryPath() {
		t.Errorf("%s, %v", got, err)
	}
}
