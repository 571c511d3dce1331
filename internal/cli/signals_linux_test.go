package cli

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// A program ends with its parent although another process holds its standard input open, as one does that was forked
// from the parent.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	p := program(t, endless(t)...)
	// The shell's last command would take its place.
	c := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `"$0" "$@"; true`, p.Path}, p.Args[1:]...)...)
	c.Env = append(p.Env, lifeline+"=1")
	reader, writer := must.Get2(os.Pipe())(t)
	defer writer.Close()
	c.Stdin = reader
	stderr := begun(t, c, "none")
	must.Do(t, reader.Close())
	must.Do(t, c.Process.Kill())
	said, err := io.ReadAll(stderr) // to the program's end, which has it too
	if err != nil || !strings.HasSuffix(string(said), stoppedKeeping) {
		t.Errorf("%v\n%s", err, said)
	}
	_ = c.Wait()
}
