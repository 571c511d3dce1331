package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A run's tables are aligned text on a terminal, Markdown elsewhere, and nothing with --quiet; the answer comes last.
func TestTables(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	out := t.TempDir()
	args := []string{"attack", robustModel, "--data", testImages, "--norm", "linf", "--epsilon", "8/255", "--attack",
		"fgsm", "--limit", "2", "--out", out}
	if said := done(t, append(args, "--quiet")...); said != "" {
		t.Errorf("--quiet prints %q", said)
	}
	end := "\nreport: " + out + "/report.html\nrobust accuracy 100.0 % [34.2, 100.0] under FGSM, ℓ∞ 8/255, 2 images\n"
	if got, want := done(t, args...), read(t, filepath.Join(out, "tables.md"))+end; got != want {
		t.Errorf("a pipe has\n%s\nnot\n%s", got, want)
	}
	if code, stdout, stderr := call(append(args, "--quiet", "--resume")...); code != exitOK || stdout+stderr != "" {
		t.Errorf("exit %d, and --quiet prints %s%s", code, stdout, stderr)
	}
	screen, terminal := pty(t)
	c := program(t, args...)
	c.Stdout = terminal
	must.Do(t, c.Run())
	must.Do(t, terminal.Close())
	shown, _ := io.ReadAll(screen) // it ends with an error when nothing has the terminal open any more
	want := read(t, filepath.Join(out, "tables.txt")) + end
	if got := strings.ReplaceAll(string(shown), "\r\n", "\n"); got != want || strings.Contains(got, "|") {
		t.Errorf("a terminal shows\n%s\nnot\n%s", got, want)
	}
}

// pty opens a terminal; the screen shows everything written to it.
func pty(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here")
	}
	t.Cleanup(func() { screen.Close() })
	var number, locked uint32
	for request, arg := range map[uintptr]*uint32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &locked} {
		if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(arg))); no != 0 {
			t.Fatal(no)
		}
	}
	return screen, must.Get(os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
}

// A full stdout costs the exit code and one line, in the help of every verb too.
func TestFullStdout(t *testing.T) {
	full := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	calls := [][]string{{"--help"}, {"--version"}, {"version"}, {"schema", "config"}, {"completion", "bash"},
		{"inspect", robustModel}}
	for _, verb := range (&globals{files: repository}).rootCommand().Commands() {
		calls = append(calls, []string{verb.Name(), "--help"}, []string{"help", verb.Name()})
	}
	for _, args := range calls {
		var stderr strings.Builder
		if code := whole(t.Context(), repository, args, full, &stderr); code != exitFailed ||
			stderr.String() != "selfheal: write /dev/full: no space left on device\n" {
			t.Errorf("%s: exit %d, %q", args, code, stderr.String())
		}
	}
}
