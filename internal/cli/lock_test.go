package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A second run into a folder is refused and leaves the first one's results alone. What a dead run held is free.
func TestTwoRunsInOneFolder(t *testing.T) {
	testinput.Runtime(t)
	out := filepath.Join(t.TempDir(), "out")
	short := []string{"run", "--out", out, "--limit", "1", "--set", "suites.bundled.attacks=[]", "--force", "--quiet"}
	first := program(t, "run", "--out", out, "--quiet")
	must.Do(t, first.Start())
	defer first.Process.Kill()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := resultsOf(out); err == nil { // the first cell is done
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the first run has written nothing")
		}
	}
	refused(t, exitFailed, "another run is writing to this folder", short...)
	if f, err := resultsOf(out); err != nil || strings.Join(f.Command, " ") != "selfheal run --out "+out+" --quiet" {
		t.Errorf("the first run's results are not there: %v", err)
	}
	must.Do(t, first.Process.Kill())
	_ = first.Wait()
	done(t, short...)
}
