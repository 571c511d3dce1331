// Package cluster runs the shards of a plan on a cluster. [Slurm] is an [Engine]: a caller checks Ready, calls
// Submit, follows States until no shard is waiting, and submits again the shards that failed; the shards' own files
// tell what is done. [Kubernetes] only writes the manifest of a Job, which kubectl then follows. Errors carry the
// message of the cluster's program in one line.
package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"selfheal/internal/lists"
)

// Job is a command to run for each of several shards.
type Job struct {
	Command []string // the program and its arguments, without the shard's
	Shards  int      // how many there are
	Which   []int    // those to run, from 1, ascending
	Dir     string   // the run's folder, an absolute path that is the same on all machines
}

// All returns the numbers of n shards.
func All(n int) []int { return lists.To(n + 1)[1:] }

// State is the state of a shard on an engine.
type State int

// The states of a shard.
const (
	Gone    State = iota // the engine does not run it and will not
	Waiting              // it will run
	Running
)

// Engine is a scheduler.
type Engine interface {
	// Ready returns an error that says what the engine lacks on this machine.
	Ready() error
	// Nodes returns how many machines may run a job's shards, busy ones included. It returns an error if the engine
	// can't tell.
	Nodes(ctx context.Context) (int, error)
	// Submit gives a job to the engine and returns the id that finds it again.
	Submit(ctx context.Context, j Job) (id string, err error)
	// States returns the states of a submitted job's shards. An absent shard is gone.
	States(ctx context.Context, id string) (map[int]State, error)
	// Logs returns the place of the shards' logs, or the command that shows them.
	Logs(id, dir string) string
	// Cancelling returns the command, for people, that ends a job.
	Cancelling(id string) string
}

// output runs an engine's program and returns its output. The error has one line, with the program's message.
func output(ctx context.Context, input, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = strings.NewReader(input)
	apart(c)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not on this machine", name)
	case err != nil:
		return out.String(), fmt.Errorf("%s: %s (%w)", name, strings.Join(strings.Fields(said.String()), " "), err)
	}
	return out.String(), nil
}

// Spans writes ascending numbers as Slurm does: "1,3-5,7".
func Spans(all []int) string {
	var b strings.Builder
	for i := 0; i < len(all); i++ {
		first := all[i]
		for i+1 < len(all) && all[i+1] == all[i]+1 {
			i++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if all[i] > first {
			fmt.Fprintf(&b, "-%d", all[i])
		}
	}
	return b.String()
}
