package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

const tinyRun = "run --quiet --config DIR/c.yaml --suite healed --limit 2 --out DIR/out --force"

// doneIn runs a command, which must succeed.
func doneIn(t *testing.T, d place, line string) {
	t.Helper()
	done(t, strings.Fields(strings.ReplaceAll(line, "DIR", d.dir))...)
}

// Commands neither wait for what lies in an output folder nor read it without end, be it a pipe, a device or a link to
// one.
func TestPipesAndDevicesAreNotWaitedFor(t *testing.T) {
	testinput.Runtime(t)
	w := newWorld(t)
	type reading struct{ path, line string }
	const run = "run --quiet --config c.yaml --out "
	readings := []reading{{"shards/datasets.json", run + "shards --shard 1/1"},
		{"net.onnx", "run --dry-run --config c.yaml"}, {"net.onnx", run + "new"},
		{"net.onnx", "vnnlib net.onnx no.vnnlib"}, {"no.vnnlib", "vnnlib three.onnx no.vnnlib"},
		{"net.onnx", "inspect net.onnx"}, {"net.onnx", "doctor net.onnx"},
		{"baseline.json", "check --baseline baseline.json run"}}
	for folder, lines := range map[string][]string{"shards": {"report shards --out merged", run + "shards --shard 1/1"},
		"run": {"report run --out merged", "compare run held --out merged", "check --baseline baseline.json run",
			run + "run"}} {
		for _, name := range walked(t, filepath.Join(w.dir, folder)) {
			path := filepath.Join(folder, name)
			if info := must.Get(os.Stat(filepath.Join(w.dir, path)))(t); info.IsDir() {
				continue
			}
			for _, line := range lines {
				readings = append(readings, reading{path, line})
			}
		}
	}
	for _, r := range readings {
		for kind, make := range map[string]func(path string) error{
			"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		} {
			args := strings.Fields(r.line)
			dir := w.folder(t, args)
			must.Do(t, os.Remove(filepath.Join(dir, r.path)))
			must.Do(t, make(filepath.Join(dir, r.path)))
			began := time.Now()
			code, stderr := w.in(t, dir, args...)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s as %s: %s takes %s", r.path, kind, r.line, took)
			}
			if code != exitOK && strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s as %s: %s: exit %d\n%s", r.path, kind, r.line, code, stderr)
			}
		}
	}
}
