package repository

import (
	"strings"
	"testing"

	"selfheal/models/onnx"
)

// docs/onnx.md lists the operators that are known; -update rewrites the list.
func TestOperatorsDocumented(t *testing.T) {
	const begin, end = "<!-- operators -->\n", "<!-- /operators -->"
	path := "docs/onnx.md"
	before, rest, ok := strings.Cut(read(t, path), begin)
	list, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("no list of operators")
	}
	var want strings.Builder
	width := 0
	for i, op := range onnx.Operators() {
		switch {
		case i == 0:
		case width+len(op)+2 > 88:
			want.WriteString(",\n")
			width = 0
		default:
			want.WriteString(", ")
			width += 2
		}
		want.WriteString(op)
		width += len(op)
	}
	want.WriteString(".\n")
	switch {
	case *update:
		put(t, path, before+begin+want.String()+end+after)
	case list != want.String():
		t.Errorf("the list of operators differs (go test -update rewrites it):\n%swant\n%s", list, want.String())
	}
}
