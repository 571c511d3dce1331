package doctor

import (
	"strings"
	"testing"

	"selfheal/models/ort"
)

func TestCUDA(t *testing.T) {
	want := "device 0 computes"
	if err := ort.CheckCUDA(0); err != nil {
		want = "not available: " + err.Error()
	}
	if got := CUDA(); got != want || strings.Contains(got, "\n") {
		t.Errorf("%q, not %q", got, want)
	}
}
