package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"selfheal/internal/atomicfile"
)

// Slurm runs shards as the tasks of job arrays. The shell gets TERM a minute before its time limit and passes it on:
// the shard saves its work and the task queues itself again.
type Slurm struct {
	// Options are sbatch's, as on its command line: partition, time, memory, gres.
	Options string
	// Parallelism is how many tasks of an array run at once; 0: all.
	Parallelism int
	// block bounds the tasks of an array, as their numbers must stay below MaxArraySize; 0: 1000.
	block int
}

// warning is how many seconds before its time limit a task gets TERM.
const warning = 60

var slurmScript = template.Must(template.New("").Funcs(template.FuncMap{"quoted": quoted}).Parse(`#!/bin/sh
#SBATCH --job-name=selfheal
#SBATCH --output={{.Dir}}/logs/slurm-%A_%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@{{.Warning}}
{{with .Options}}#SBATCH {{.}}
{{end}}# Submitted by hand: mkdir -p {{.Dir}}/logs && sbatch --array=1-{{.Shards}}{{.AtOnce}} THIS_FILE
# Task k does shard k + SELFHEAL_FIRST of {{.Shards}}.
shard=$((SLURM_ARRAY_TASK_ID + ${SELFHEAL_FIRST:-0}))
ended=
run=
trap 'ended=yes; [ -z "$run" ] || kill -TERM "$run"' TERM
{{range .Command}}{{quoted .}} {{end}}--shard "$shard/{{.Shards}}" --attempt &
run=$!
[ -z "$ended" ] || kill -TERM "$run"
wait "$run"
code=$?
if [ -n "$ended" ]; then # the signal has ended the wait: the shard is saving what it has
    wait "$run"
    code=$?
    [ "$code" -ne 143 ] || scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$code"
`))

func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func (s Slurm) Render(j Job) (string, error) {
	if strings.ContainsAny(j.Dir, " \t\n%\\\"'") {
		return "", fmt.Errorf("%s: sbatch takes no folder with blanks, quotes, %% or \\ in its name", j.Dir)
	}
	if strings.ContainsAny(s.Options, "\r\n") {
		return "", errors.New("--sbatch: options must stand in one line")
	}
	if strings.Contains(s.Options, "--array") {
		return "", errors.New("--sbatch: the array is made here; --parallelism says how many tasks run at once")
	}
	var b bytes.Buffer
	err := slurmScript.Execute(&b, struct {
		Job
		Slurm
		Warning int
		AtOnce  string
	}{j, s, warning, s.atOnce()})
	return b.String(), err
}

// atOnce returns the suffix of a list of tasks that limits how many run at once.
func (s Slurm) atOnce() string {
	if s.Parallelism == 0 {
		return ""
	}
	return fmt.Sprintf("%%%d", s.Parallelism)
}

func (s Slurm) Ready() error {
	if _, err := exec.LookPath("sbatch"); err != nil {
		return errors.New("sbatch is not on this machine; --print writes what it takes")
	}
	return nil
}

// Submit gives sbatch an array for each block of shards. The id joins theirs with commas.
func (s Slurm) Submit(ctx context.Context, j Job) (string, error) {
	script, err := s.Render(j)
	if err != nil {
		return "", err
	}
	if err := atomicfile.In(j.Dir).Make("logs"); err != nil {
		return "", err
	}
	var ids []string
	for first, tasks := range s.blocks(j.Which) {
		out, err := output(ctx, script, "sbatch", "--parsable", "--array="+strings.Join(tasks, ",")+s.atOnce(),
			fmt.Sprintf("--export=ALL,SELFHEAL_FIRST=%d", first))
		if err != nil {
			return strings.Join(ids, ","), err
		}
		id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // the cluster's name may follow
		ids = append(ids, fmt.Sprintf("%s+%d", id, first))
	}
	return strings.Join(ids, ","), nil
}

// blocks yields the numbers of an array's tasks, by the number of shards before its first.
func (s Slurm) blocks(which []int) iter.Seq2[int, []string] {
	most := cmp.Or(s.block, 1000)
	return func(yield func(int, []string) bool) {
		for from := 0; from < len(which); {
			first := (which[from] - 1) / most * most
			var tasks []string
			for ; from < len(which) && which[from] <= first+most; from++ {
				tasks = append(tasks, strconv.Itoa(which[from]-first))
			}
			if !yield(first, tasks) {
				return
			}
		}
	}
}

// ended are Slurm's states for a task that will not run any more.
var ended = []string{"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
	"PREEMPTED", "REVOKED", "TIMEOUT"}

func (s Slurm) States(ctx context.Context, id string) (map[int]State, error) {
	states := map[int]State{}
	for array := range strings.SplitSeq(id, ",") {
		number, text, _ := strings.Cut(array, "+")
		first, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no job of Slurm's", id)
		}
		out, err := output(ctx, "", "squeue", "--noheader", "--array", "--states=all", "--format=%K %T",
			"--jobs="+number)
		if err != nil && !strings.Contains(err.Error(), "Invalid job id") { // the queue has forgotten the job
			return nil, err
		}
		for line := range strings.Lines(out) {
			task, word, _ := strings.Cut(strings.TrimSpace(line), " ")
			k, err := strconv.Atoi(task)
			switch {
			case err != nil || slices.Contains(ended, word):
			case word == "RUNNING" || word == "COMPLETING":
				states[first+k] = Running
			default:
				states[first+k] = Waiting
			}
		}
	}
	return states, nil
}

// asked matches the partition among sbatch's options.
var asked = regexp.MustCompile(`(?:^|\s)(?:--partition[= ]|-p[= ]?)\s*(\S+)`)

// lost matches Slurm's states for nodes that take no jobs until somebody repairs them.
var lost = regexp.MustCompile(`^(DOWN|DRAIN|DRNG|FAIL|FUTURE|INVAL|MAINT|UNKNOWN)`)

// Nodes counts the nodes of the partitions that the options name, or else of the default one.
func (s Slurm) Nodes(ctx context.Context) (int, error) {
	var partitions []string
	if found := asked.FindStringSubmatch(s.Options); found != nil {
		partitions = strings.Split(found[1], ",")
	}
	out, err := output(ctx, "", "sinfo", "--noheader", "--Node", "--format=%N %P %T")
	nodes := map[string]bool{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 3 || lost.MatchString(strings.ToUpper(words[2])) {
			continue
		}
		name, standard := strings.CutSuffix(words[1], "*")
		if partitions == nil && standard || slices.Contains(partitions, name) {
			nodes[words[0]] = true
		}
	}
	return len(nodes), err
}

// Logs returns the folder of the logs in the run's folder.
func (s Slurm) Logs(_, dir string) string { return filepath.Join(dir, "logs") }

func (s Slurm) Cancelling(id string) string {
	text := "scancel"
	for array := range strings.SplitSeq(id, ",") {
		number, _, _ := strings.Cut(array, "+")
		text += " " + number
	}
	return text
}
