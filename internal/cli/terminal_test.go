package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"selfheal/internal/must"
)

// A tensor's name is anybody's: it must not steer the terminal.
func TestNamesDoNotSteerTheTerminal(t *testing.T) {
	model := must.Get(os.ReadFile("models/zoo/preact_standard.onnx"))(t)
	name, hostile := "/stem/Conv_output_0", "\x1b]0;owned\x07\x7f\xc2\x9b_outpu"
	if len(name) != len(hostile) || !bytes.Contains(model, []byte(name)) {
		t.Fatalf("%q does not stand in for %q", hostile, name)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hostile.onnx")
	put(t, path, bytes.ReplaceAll(model, []byte(name), []byte(hostile)))
	for _, args := range [][]string{
		{"inspect", path}, {"inspect", "--json", path},
		{"split", path, "--out", dir}, {"split", path, "--out", dir, "--at", "nowhere"},
	} {
		_, stdout, stderr := call(args...)
		if !strings.Contains(stdout+stderr, `\u001b]0;owned\u0007`) {
			t.Errorf("%s: the name is not there:\n%s%s", args, stdout, stderr)
		}
		if strings.ContainsFunc(stdout+stderr, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("%s: a control character in\n%q", args, stdout+stderr)
		}
	}
}
