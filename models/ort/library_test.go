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
		for _, useEnv := range []bool{false, true} {
			o, origin := Options{Library: path}, "--onnxruntime: "
			if useEnv {
				t.Setenv(envLibrary, path)
				o, origin = Options{}, envLibrary+": "
			}
			_, err := findLibrary(context.Background(), o)
			must.Refuse(t, err, origin, want)
		}
		t.Setenv(envLibrary, "")
	}
	if runtime.GOOS == "linux" {
		whole := must.Get(os.ReadFile(LibraryPath()))(t)
		cut := filepath.Join(dir, "cut.so")
		must.Do(t, os.WriteFile(cut, whole[:len(whole)/2], 0o644))
		if _, err := findLibrary(context.Background(), Options{Library: cut}); err == nil {
			t.Error("took half a library")
		}
	}
	got, err := findLibrary(context.Background(), Options{Library: LibraryPath()})
	if err != nil || got != LibraryPath() {
		t.Errorf("%s, %v", got, err)
	}
}
