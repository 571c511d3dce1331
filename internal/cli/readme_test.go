package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"selfheal/harness/config"
)

// The README's console blocks show what the program prints ("…": and more), and
// its example config is one.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := fenced(string(text), "console")
	if len(blocks) == 0 {
		t.Error("no console block")
	}
	for _, block := range blocks {
		command, want, _ := strings.Cut(block, "\n")
		args, ok := strings.CutPrefix(command, "$ selfheal ")
		if !ok {
			t.Fatalf("console block begins with %q", command)
		}
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), repository, strings.Fields(args), &stdout, &stderr); code != 0 {
			t.Fatalf("%s: exit %d, %s", command, code, stderr.String())
		}
		got := stdout.String()
		if start, more := strings.CutSuffix(want, "…\n"); more {
			want, got = start, got[:min(len(start), len(got))]
		}
		if got != want {
			t.Errorf("%s prints\n%s\nREADME shows\n%s", command, got, want)
		}
	}
	for _, block := range fenced(string(text), "yaml") {
		if _, err := config.Parse("README.md", []byte(block), config.Folder(".")); err != nil {
			t.Error(err)
		}
	}
}

// fenced returns the contents of the code blocks of one language.
func fenced(text, language string) []string {
	var out []string
	for _, part := range strings.Split(text, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		out = append(out, block)
	}
	return out
}
