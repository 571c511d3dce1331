package simplify

import (
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
)

// Every operator that is taken apart, or said to be, is in a
// golden, whose values and gradients are compared with PyTorch's.
func TestLoweringsHaveGoldens(t *testing.T) {
	files, err := filepath.Glob("../../grad/gradtest/testdata/*.onnx")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens", err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		g := must.Get(onnx.Decode(must.Get(os.ReadFile(f))(t)))(t)
		for _, n := range g.Nodes {
			seen[n.Op] = true
		}
	}
	seen["Dropout"] = true   // becomes an Identity, see TestSimplify
	seen["ScatterND"] = true // works on constants, which the runtime computes
	for _, op := range onnx.Operators() {
		if (lowerings[op] != nil || onnx.TraitsOf(op).Simplified) && !seen[op] {
			t.Errorf("no golden has a %s: add a case to scripts/goldens", op)
		}
	}
	if seen["NoSuchOperator"] {
		t.Error("sees what is not there")
	}
}
