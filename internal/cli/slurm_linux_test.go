package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/sameend"
	"selfheal/internal/testinput"
)

// SELFHEAL_TEST_SLURM=1 runs shards on a real Slurm of two nodes on this machine, disturbs them, and compares their
// results with one run's. It needs root and the packages slurmctld, slurmd, slurm-client and munge.
func TestSlurm(t *testing.T) {
	if os.Getenv("SELFHEAL_TEST_SLURM") == "" {
		t.Skip("SELFHEAL_TEST_SLURM=1 starts a Slurm")
	}
	t.Chdir(testinput.Root(t))
	must.Do(t, disturbed(8))
}

// onSlurm is where the trials run.
type onSlurm struct {
	dir, binary string
	limit       string
}

func disturbed(limit int) (err error) {
	dir, err := os.MkdirTemp("", "selfheal-slurm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // Slurm's daemon has a user of its own
		return err
	}
	b := &onSlurm{dir: dir, binary: filepath.Join(dir, "selfheal"), limit: fmt.Sprint("--limit=", limit)}
	if out, err := exec.Command("go", "build", "-o", b.binary, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	start := time.Now()
	if err := b.selfheal("run", "--config", "config.yaml", "--out", b.path("whole"), b.limit, "--quiet"); err != nil {
		return err
	}
	fmt.Printf("one run: %v\n", time.Since(start).Round(time.Second))
	os.Setenv("SLURM_TEST_DIR", b.path("cluster"))
	os.Setenv("SLURM_CONF", b.path("cluster/slurm.conf"))
	if err := b.cluster("up"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster("down")) }()
	for _, t := range []struct {
		name    string
		shards  int
		args    []string
		disturb func(out string) error
	}{
		{"a node killed in the middle, four shards a node", 8, nil, b.killNode},
		{"a time limit that is shorter than the shard", 1,
			[]string{"--shards=1", "--sbatch=--time=1 --signal=B:TERM@50"}, b.outlast},
		{"a shard run twice at once", 3, []string{"--shards=3"}, b.runTwice},
	} {
		start, out := time.Now(), b.path(strings.ReplaceAll(strings.ReplaceAll(t.name, ",", ""), " ", "-"))
		waits := make(chan error, 1)
		go func() { waits <- t.disturb(out) }()
		err := b.selfheal(append([]string{"submit", "--engine=slurm", "--config=config.yaml", "--out", out, b.limit},
			t.args...)...)
		if err = errors.Join(err, <-waits); err == nil {
			err = sameend.Check(b.path("whole"), out)
		}
		if err != nil {
			b.tellLogs(out)
			return fmt.Errorf("%s: %w", t.name, err)
		}
		attempts, _ := filepath.Glob(filepath.Join(out, "shard-*", "attempt-*"))
		fmt.Printf("%s: equal, %d attempts, %v\n", t.name, len(attempts), time.Since(start).Round(time.Second))
		if len(attempts) <= t.shards {
			return fmt.Errorf("%s: nothing was disturbed", t.name)
		}
	}
	return nil
}

func (b *onSlurm) path(name string) string { return filepath.Join(b.dir, name) }

// selfheal runs the program to its end.
func (b *onSlurm) selfheal(args ...string) error {
	out, err := exec.Command(b.binary, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", args, err, out)
	}
	return nil
}

// cluster runs a verb of cluster.sh, whose daemons stay.
func (b *onSlurm) cluster(verb string) error {
	c := exec.Command("scripts/verify/slurm/cluster.sh", verb)
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("cluster.sh %s: %w", verb, err)
	}
	return nil
}

// killNode kills a node when a shard that runs there has done something, and starts it again.
func (b *onSlurm) killNode(out string) error {
	if err := b.wait(func() bool {
		task, _ := exec.Command("squeue", "-h", "-t", "R", "-w", "node2", "-o", "%K").Output()
		return len(task) > 0 && shardBegun(out, strings.TrimSpace(string(task)))
	}); err != nil {
		return err
	}
	if err := b.cluster("kill2"); err != nil {
		return err
	}
	time.Sleep(10 * time.Second)
	return b.cluster("start2")
}

// shardBegun says whether an attempt at a shard has done something.
func shardBegun(out, shard string) bool {
	name := filepath.Join(out, "shard-"+shard+"-*", "attempt-*", "selfheal-journal", "journal.jsonl")
	journals, _ := filepath.Glob(name)
	if len(journals) == 0 {
		return false
	}
	info, err := os.Stat(journals[0])
	return err == nil && info.Size() > 2000
}

// outlast holds a shard up until Slurm's signal waits for it, however fast the machine.
func (b *onSlurm) outlast(out string) error {
	if err := b.wait(func() bool { return shardBegun(out, "1") }); err != nil {
		return err
	}
	found, err := exec.Command("pgrep", "-f", "^"+b.binary+" run .*--shard 1/1").Output()
	if err != nil {
		return fmt.Errorf("pgrep: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(found)))
	if err != nil {
		return fmt.Errorf("pgrep: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	waited := b.wait(func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err != nil || pendingTERM.Match(status)
	})
	return errors.Join(waited, syscall.Kill(pid, syscall.SIGCONT))
}

// pendingTERM matches Linux's status of a process for which SIGTERM, signal 15, waits.
var pendingTERM = regexp.MustCompile(`(?m)^ShdPnd:\s*[0-9a-f]*[4-7c-f][0-9a-f]{3}$`)

// runTwice does by hand a shard that a node does at the same time.
func (b *onSlurm) runTwice(out string) error {
	if err := b.wait(func() bool {
		busy, _ := filepath.Glob(filepath.Join(out, "shard-2-*", "attempt-*"))
		return len(busy) > 0
	}); err != nil {
		return err
	}
	return b.selfheal("run", "--config=config.yaml", "--out", out, b.limit, "--shard=2/3", "--attempt", "--quiet")
}

// wait waits until something holds.
func (b *onSlurm) wait(holds func() bool) error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if holds() {
			return nil
		}
	}
	return errors.New("nothing happens")
}

// tellLogs prints what the tasks of a run have said.
func (b *onSlurm) tellLogs(out string) {
	names, _ := filepath.Glob(filepath.Join(out, "logs", "*"))
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil {
			fmt.Fprintf(os.Stderr, "%s:\n%s\n", name, text[max(0, len(text)-2000):])
		}
	}
}
