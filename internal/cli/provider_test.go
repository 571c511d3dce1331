package cli

import (
	"os"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/ort"
)

// Without a driver for CUDA, every command that should use it says so in one line before anything is fetched.
func TestCUDAWithoutDriver(t *testing.T) {
	if (ort.Target{Provider: ort.ProviderCUDA}).Ready() == nil {
		t.Skip("there is a driver")
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("ONNXRUNTIME_SHARED_LIBRARY", "")
	attack := "attack " + robustModel + " --norm linf --epsilon 8/255 --data " + testImages
	for _, line := range []string{"run --quiet --out " + t.TempDir(), attack + " --out " + t.TempDir(), "doctor"} {
		code, _, stderr := call(append(strings.Fields(line), "--provider", "cuda")...)
		if code != exitUsage || strings.Count(stderr, "\n") != 1 ||
			!strings.HasPrefix(stderr, "selfheal: runtime.provider cuda: NVIDIA's driver ") {
			t.Errorf("%s: exit code %d, %q", line, code, stderr)
		}
	}
	if left := must.Get(os.ReadDir(cache))(t); len(left) > 0 {
		t.Errorf("the cache holds %v", left)
	}
}
