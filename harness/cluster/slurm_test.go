package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"selfheal/internal/must"
)

// scripts puts shell scripts of these names first in the path.
func scripts(t *testing.T, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// Any number of shards is cut into arrays that a cluster takes, and found again by its numbers.
func TestSlurmArrays(t *testing.T) {
	dir := scripts(t, map[string]string{
		"sbatch": `cat >> "$0.in"; echo "$@" >> "$0.args"; echo "$(wc -l < "$0.args");cluster"`,
		"squeue": `case "$*" in
*--jobs=1) printf '1 RUNNING\n3 COMPLETED\n10 REQUEUED\nN/A PENDING\n' ;;
*--jobs=2) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
*) printf '5 COMPLETING\n6 NODE_FAIL\n' ;;
esac`})
	s := Slurm{Options: "--time=5 --comment='a b'", block: 10, Parallelism: 4}
	j := Job{Command: []string{"/bin/selfheal", "run", "--set", "a='b c'"}, Shards: 40,
		Which: []int{1, 3, 10, 11, 36}, Dir: filepath.Join(dir, "out")}
	id := must.Get(s.Submit(context.Background(), j))(t)
	if id != "1+0,2+10,3+30" {
		t.Errorf("id %s", id)
	}
	args := string(must.Get(os.ReadFile(filepath.Join(dir, "sbatch.args")))(t))
	for _, want := range []string{"--array=1,3,10%4 --export=ALL,SELFHEAL_FIRST=0",
		"--array=1%4 --export=ALL,SELFHEAL_FIRST=10",
		"--parsable --array=6%4 --export=ALL,SELFHEAL_FIRST=30"} {
		must.Have(t, args, want)
	}
	must.Have(t, must.Get(s.Render(j))(t), "#SBATCH --time=5 --comment='a b'\n", "--array=1-40%4 THIS_FILE")
	for _, wrong := range []string{"--array=1-3%8", "--time=5\nrm"} {
		if _, err := (Slurm{Options: wrong}).Render(j); err == nil {
			t.Errorf("sbatch gets %q", wrong)
		}
	}
	if s.Cancelling(id) != "scancel 1 2 3" {
		t.Errorf("to cancel: %s", s.Cancelling(id))
	}
	states := must.Get(s.States(context.Background(), id))(t)
	if want := map[int]State{1: Running, 10: Waiting, 35: Running}; !maps.Equal(states, want) {
		t.Errorf("states %v, want %v", states, want)
	}
	scripts(t, map[string]string{
		"squeue": "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
		"sbatch": "echo 'sbatch: error: Invalid\n partition' >&2; exit 1"})
	_, err := s.States(context.Background(), id)
	must.Refuse(t, err, "squeue: slurm_load_jobs error: Unable to contact slurm controller")
	_, err = s.Submit(context.Background(), j)
	must.Refuse(t, err, "Invalid partition")
	j.Dir = "/a b"
	_, err = s.Render(j)
	must.Refuse(t, err, "blanks")
}

// Nodes counts each node of the wanted partitions once, without nodes that somebody has to repair.
func TestSlurmNodes(t *testing.T) {
	scripts(t, map[string]string{"sinfo": `cat <<'end'
n1 cpu* idle
n2 cpu* mixed
n3 cpu* drained*
n4 cpu* down*
n2 gpu allocated
n5 gpu idle~
n6 big planned
end`})
	for options, want := range map[string]int{"": 2, "--time=5 -p gpu": 2, "--partition=gpu,cpu": 3, "-pbig --mem=1": 1,
		"--partition none": 0} {
		if n, err := (Slurm{Options: options}).Nodes(t.Context()); n != want || err != nil {
			t.Errorf("%q: %d nodes, %v, want %d", options, n, err, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	_, err := Slurm{}.Nodes(t.Context())
	must.Refuse(t, err, "sinfo is not on this machine")
}

// The script of a task does its shard, passes a signal on, waits for what it saves, and requeues itself after it.
func TestSlurmTask(t *testing.T) {
	dir := scripts(t, map[string]string{
		"scontrol": `echo "$@" >> "$0.args"`,
		"selfheal": `printf '%s\n' "$@" > "$0.args"
case "$*" in
*waits*) trap 'echo saved > "$0.saved"; exit 143' TERM; echo up > "$0.up"; while :; do sleep 0.05; done ;;
*fails*) exit 1 ;;
esac`})
	program := filepath.Join(dir, "selfheal")
	run := func(word string) (code int, did string) {
		t.Helper()
		j := Job{Command: []string{program, "it's a $HOME\nword", word}, Shards: 40, Dir: dir}
		path := filepath.Join(dir, "task.sh")
		must.Do(t, os.WriteFile(path, []byte(must.Get(Slurm{}.Render(j))(t)), 0o755))
		code = task(t, path, filepath.Join(dir, "selfheal.up"), word == "waits", "SLURM_ARRAY_TASK_ID=5",
			"SELFHEAL_FIRST=30", "SLURM_ARRAY_JOB_ID=7")
		got, _ := os.ReadFile(program + ".args")
		if want := fmt.Sprintf("it's a $HOME\nword\n%s\n--shard\n35/40\n--attempt\n", word); string(got) != want {
			t.Errorf("arguments %q, want %q", got, want)
		}
		var files []string
		for _, name := range []string{"scontrol.args", "selfheal.saved"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				files = append(files, strings.TrimSpace(string(text)))
				must.Do(t, os.Remove(filepath.Join(dir, name)))
			}
		}
		slices.Sort(files)
		return code, strings.Join(files, ", ")
	}
	for word, want := range map[string]string{"works": "0 ", "fails": "1 ", "waits": "143 requeue 7_5, saved"} {
		code, did := run(word)
		if got := fmt.Sprint(code, " ", did); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// task runs a script, which gets TERM when a file is there, and returns its exit code.
func task(t *testing.T, path, up string, signalled bool, env ...string) int {
	t.Helper()
	c := exec.Command(path)
	c.Env = append(os.Environ(), env...)
	must.Do(t, c.Start())
	if signalled {
		for {
			if _, err := os.Stat(up); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		must.Do(t, c.Process.Signal(syscall.SIGTERM))
	}
	_ = c.Wait()
	return c.ProcessState.ExitCode()
}
