package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

// begun starts a program and waits until it has written a text to stderr. The reader has what follows.
func begun(t *testing.T, c *exec.Cmd, when string) *bufio.Reader {
	t.Helper()
	stderr := bufio.NewReader(must.Get(c.StderrPipe())(t))
	must.Do(t, c.Start())
	for said := ""; !strings.Contains(said, when); {
		line, err := stderr.ReadString('\n')
		if said += line; err != nil {
			t.Fatalf("%v said no %q:\n%s", c.Args, when, said)
		}
	}
	return stderr
}

// ended returns the rest of a program's output and its exit code, -1 if a signal ended it.
func ended(c *exec.Cmd, stderr io.Reader) (said string, code int) {
	text, _ := io.ReadAll(stderr)
	_ = c.Wait() // its error is the exit code
	return string(text), c.ProcessState.ExitCode()
}

// hearsHangup skips a test that sends a hangup where the tests themselves run under nohup: programs inherit that.
func hearsHangup(t *testing.T) {
	t.Helper()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("hangups are ignored: the tests run under nohup")
	}
}

// A signal ends the program with an exit code of its own, in one line.
func TestSignals(t *testing.T) {
	t.Parallel()
	hearsHangup(t)
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		c := program(t, "theory", "--out", t.TempDir())
		stderr := begun(t, c, "theory: ")
		must.Do(t, c.Process.Signal(sig))
		said, code := ended(c, stderr)
		if code != want || !strings.HasSuffix("\n"+said, "\nselfheal: stopped\n") {
			t.Errorf("%v: exit %d, want %d\n%s", sig, code, want, said)
		}
	}
}

// slowText is a config whose only network takes many seconds for a pass.
const slowText = `version: 1
datasets: {test: {format: cifar10-bin, path: ZOO/shapes10/test.bin, limit: 64}}
models: {slow: {path: slow.onnx}}
runtime: {batch: 64, winograd: false}
controls: {linear: {layers: [{at: last, embedding: {kind: linear, fit: test, rank: 2}}]}}
attacks: {}
suites: {slow: {dataset: test, models: [slow], controls: [linear], attacks: [], mode: oblivious}}
`

// slowFit makes a call of the program with such a network, whose weights it writes to a folder.
func slowFit(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	testinput.Runtime(t)
	f := onnxtest.New(13, -1, 3, 32, 32).Floats("v", []int64{256, 3, 3, 3}, 0.01).
		Floats("w", []int64{256, 256, 3, 3}, 0.0004).Floats("m", []int64{256, 10}, 0.01).
		Node("Conv x v → c0 pads=1,1,1,1")
	const layers = 40
	for i := range layers {
		f.Node(fmt.Sprintf("Conv c%d w → c%d pads=1,1,1,1", i, i+1))
	}
	f.Node(fmt.Sprintf("GlobalAveragePool c%d → p; Flatten p → q; MatMul q m → y", layers))
	put(t, filepath.Join(dir, "slow.onnx"), f.Bytes(-1, 10))
	c := program(t, "fit", "--config", written(t, dir, slowText), "--control", "linear")
	c.Env = append(c.Env, "XDG_CACHE_HOME="+dir, "ONNXRUNTIME_SHARED_LIBRARY="+ort.LibraryPath())
	return c
}

// The second signal ends the program at once, with the exit code of the first, in the middle of a pass of ONNX
// Runtime, and without the last line: that comes when the pass is over.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	hearsHangup(t)
	dir := t.TempDir()
	for _, two := range []struct {
		first, second syscall.Signal
		between       time.Duration
	}{
		{syscall.SIGTERM, syscall.SIGINT, 200 * time.Millisecond},
		{syscall.SIGHUP, syscall.SIGINT, 0}, // either may be delivered first
	} {
		c := slowFit(t, dir)
		stderr := begun(t, c, "fitting a linear embedding")
		time.Sleep(300 * time.Millisecond) // it makes a session; then the pass begins
		must.Do(t, c.Process.Signal(two.first))
		time.Sleep(two.between)
		must.Do(t, c.Process.Signal(two.second))
		start := time.Now()
		said, code := ended(c, stderr)
		took := time.Since(start)
		right := code == stopped{two.first}.code() || two.between == 0 && code == stopped{two.second}.code()
		if !right || said != "" || took > time.Second {
			t.Errorf("%v: exit %d after %v, want the code of the first in a second\n%s", two, code, took, said)
		}
	}
}

// A program that was told so ends when its parent closes its standard input, in order if it can: during a pass of ONNX
// Runtime it waits only for savingTime. Other programs ignore the standard input.
func TestLifeline(t *testing.T) {
	t.Parallel()
	c := program(t, endless(t)...)
	c.Env = append(c.Env, lifeline+"=1")
	pipe := must.Get(c.StdinPipe())(t)
	stderr := begun(t, c, "none")
	must.Do(t, pipe.Close())
	if said, code := ended(c, stderr); code != 143 || !strings.HasSuffix(said, stoppedKeeping) {
		t.Errorf("exit %d\n%s", code, said)
	}
	c = slowFit(t, t.TempDir())
	c.Env = append(c.Env, lifeline+"=1")
	pipe = must.Get(c.StdinPipe())(t)
	stderr = begun(t, c, "fitting a linear embedding")
	time.Sleep(300 * time.Millisecond) // then the pass begins
	must.Do(t, pipe.Close())
	start := time.Now()
	if said, code := ended(c, stderr); code != 143 || said != "" || time.Since(start) > savingTime+time.Second {
		t.Errorf("exit %d after %v\n%s", code, time.Since(start), said)
	}
	c = program(t, shortFit(t, t.TempDir())...)
	must.Do(t, must.Get(c.StdinPipe())(t).Close())
	if said, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// Under nohup a closed terminal ends nothing.
func TestNohup(t *testing.T) {
	t.Parallel()
	p := program(t, shortFit(t, t.TempDir())...)
	c := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, p.Path},
		p.Args[1:]...)...)
	c.Env = p.Env
	stderr := begun(t, c, "fitting")
	must.Do(t, c.Process.Signal(syscall.SIGHUP))
	if said, code := ended(c, stderr); code != exitOK {
		t.Errorf("exit %d\n%s", code, said)
	}
}

// If nobody reads progress, the work goes on; if nobody reads the answer, the program ends silently.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := program(t, shortFit(t, dir)...)
	progress := must.Get(c.StderrPipe())(t)
	must.Do(t, c.Start())
	must.Do(t, progress.Close())
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	read(t, filepath.Join(dir, "made/last.onnx"))

	c = program(t, "version", "--json")
	reader, writer := must.Get2(os.Pipe())(t)
	must.Do(t, reader.Close())
	c.Stdout = writer
	stderr := must.Get(c.StderrPipe())(t)
	must.Do(t, c.Start())
	must.Do(t, writer.Close())
	if said, code := ended(c, stderr); said != "" || code != 141 {
		t.Errorf("exit %d, said %q", code, said)
	}
}

// endless returns the arguments of a run that takes hours; the last one is its folder.
func endless(t *testing.T) []string {
	t.Helper()
	testinput.Runtime(t)
	return []string{"attack", robustModel, "--data", testImages, "--limit", "8", "--norm", "linf", "--epsilon",
		"1/1000", "--attack", "pgd", "--param", "steps=1000000", "--out", t.TempDir()}
}

const stoppedKeeping = "selfheal: stopped; what was finished is kept: the same command continues\n"

// A run that is stopped amid an attack keeps its finished cells and says how to continue.
func TestStoppedRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal syscall.Signal
		code   int
		last   string
		args   []string
	}{
		{syscall.SIGTERM, 143, stoppedKeeping, nil},
		{syscall.SIGINT, 130, `"stopped","signal":"interrupt","exit_code":130,` +
			`"continue":"the same command, without --force, continues"}` + "\n",
			[]string{"--force", "--log-format", "json"}},
	} {
		args := endless(t)
		out := args[len(args)-1]
		p := program(t, append(args, c.args...)...)
		stderr := begun(t, p, "none")
		must.Do(t, p.Process.Signal(c.signal))
		said, code := ended(p, stderr)
		if file, _ := results(t, out); code != c.code || !strings.HasSuffix(said, c.last) || len(file.Cells) != 1 {
			t.Errorf("%v: exit %d, %d cells\n%s", c.signal, code, len(file.Cells), said)
		}
	}
}
