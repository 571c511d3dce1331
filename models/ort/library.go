package ort

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// envLibrary names the environment variable with the library's path.
const envLibrary = "ONNXRUNTIME_SHARED_LIBRARY"

const giveLibrary = "give the library with --onnxruntime PATH or " + envLibrary

// findLibrary returns an absolute path, after looking in the order that Init
// describes.
func findLibrary(ctx context.Context, o Options) (string, error) {
	if o.Library != "" {
		return given("--onnxruntime", o.Library)
	}
	if path := os.Getenv(envLibrary); path != "" {
		return given(envLibrary, path)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory to keep ONNX Runtime in: %w; set HOME, or %s", err, giveLibrary)
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	known, ok := pins[platform]
	if !ok {
		return "", fmt.Errorf("no ONNX Runtime is pinned for %s: install version %s or newer and %s",
			platform, minVersion, giveLibrary)
	}
	p := provisioner{
		platform: platform,
		pin:      known,
		dir:      filepath.Join(cache, "selfheal", "onnxruntime", pinned, platform),
		offline:  o.Offline,
		log:      o.Log,
	}
	return p.library(ctx)
}

// given checks a library that the user named.
func given(origin, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", origin, err)
	}
	info, err := os.Stat(abs)
	switch {
	case os.IsNotExist(err):
		return "", fmt.Errorf("%s: there is no file %s; name ONNX Runtime's shared library", origin, path)
	case err != nil:
		return "", fmt.Errorf("%s: %w", origin, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: %s is not a file; name ONNX Runtime's shared library itself", origin, path)
	}
	if runtime.GOOS == "linux" {
		// Loading a truncated library would end the process with SIGBUS. Its
		// section table is at the end, so reading that finds most cuts.
		f, err := elf.Open(abs)
		if err != nil {
			return "", fmt.Errorf("%s: %s is not a shared library: %v", origin, path, err)
		}
		defer f.Close()
		if f.Type != elf.ET_DYN {
			return "", fmt.Errorf("%s: %s is not a shared library", origin, path)
		}
	}
	return abs, nil
}

// sum is the SHA-256 of a file, in hexadecimal.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
