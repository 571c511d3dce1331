package terminal

import (
	"os"
	"strings"
	"testing"

	"selfheal/internal/must"
)

func TestColumns(t *testing.T) {
	rows := [][]string{{"model", "n", "who"}, {"日本", "1000", "a"}, {"ℓ∞ é", "7", ""}}
	got := strings.Join(Columns(rows, func(i int) bool { return i != 1 }), "\n")
	if want := "  model     n  who\n  日本   1000  a\n  ℓ∞ é      7"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestIs(t *testing.T) {
	r, w := must.Get2(os.Pipe())(t)
	defer r.Close()
	defer w.Close()
	if Is(w) || Is(&strings.Builder{}) {
		t.Error("a pipe is a terminal")
	}
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here")
	}
	defer pty.Close()
	if !Is(pty) || !Is(Escape(pty)) {
		t.Error("a terminal is none")
	}
}
