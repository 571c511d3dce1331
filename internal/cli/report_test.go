package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The paper's numbers are rendered without a run's folder.
func TestReportPublished(t *testing.T) {
	out := filepath.Join(t.TempDir(), "paper")
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), repository, []string{"report", "--published", "--out", out}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	if want := "report: " + filepath.Join(out, "report.html") + "\n"; stdout.String() != want {
		t.Errorf("printed %q, want %q", stdout.String(), want)
	}
	for name, holds := range map[string]string{
		"report.html": "Published numbers", "tables.md": "94.71", "tables.tex": "94.71", "tables.csv": "0.9471",
		"radar-RN-18.svg": "RN-18", "radar-WRN-76-10.svg": "WRN-76-10", "radar-EfficientNet-b0.png": "PNG",
	} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || !strings.Contains(string(text), holds) {
			t.Errorf("%s: %v, or without %q", name, err, holds)
		}
	}
	for _, wrong := range [][]string{{"report", "--published"}, {"report", "--published", "results", "--out", out}, {"report", "--out", out}} {
		stderr.Reset()
		if code := run(context.Background(), repository, wrong, &stdout, &stderr); code != exitUsage || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%v: exit %d, %q", wrong, code, stderr.String())
		}
	}
}
