package terminal

import (
	"fmt"
	"strings"
	"testing"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"ℓ2 ≤ 0.5\tok\r\n":      "ℓ2 ≤ 0.5\tok\r\n",
		"conv\x1b]0;gone\x07_1": `conv\u001b]0;gone\u0007_1`,
		"a\x7fb\u009bc\u202ed":  `a\u007fb\u009bc\u202ed`,
		"a\x9bb\xff":            `a\ufffdb\ufffd`,
	} {
		for _, size := range []int{1, 2, 1000} { // characters are cut apart too
			var sb strings.Builder
			w := Escape(&sb)
			for rest := text; rest != ""; {
				part := rest[:min(size, len(rest))]
				if n, err := fmt.Fprint(w, part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
				rest = rest[len(part):]
			}
			if sb.String() != want {
				t.Errorf("%q in parts of %d: %q, want %q", text, size, sb.String(), want)
			}
		}
	}
	var sb strings.Builder
	if Raw(Escape(&sb)) != &sb || Raw(&sb) != &sb {
		t.Error("the raw writer is another")
	}
}
