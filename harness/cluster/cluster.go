// Package cluster runs the shards of a plan on an engine that a lab has: it writes what the engine takes, submits it to
// Slurm and asks Slurm how it goes.
package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Job is what an engine runs: a command for each of several shards.
type Job struct {
	Command []string // the program and its arguments, but for the shard's
	Shards  int      // all there are
	Which   []int    // those to run, from 1, ascending
	Dir     string   // the run's folder, an absolute path that is the same on all machines
}

// State is what an engine says of a shard.
type State int

// The states of a shard.
const (
	Gone    State = iota // the engine does not run it, and won't
	Waiting              // it will run
	Running
)

// Engine is a scheduler that a lab has.
type Engine interface {
	// Ready says what of the engine is not on this machine.
	Ready() error
	// Nodes is how many machines may run a job's shards, busy ones included; an error where the engine can't tell.
	Nodes(ctx context.Context) (int, error)
	// Submit gives a job to the engine, and returns by what it is found again.
	Submit(ctx context.Context, j Job) (id string, err error)
	// States are those of the shards that a job was submitted for; what is absent is gone.
	States(ctx context.Context, id string) (map[int]State, error)
	// Logs is where, or by what command, one sees what the shards of a job in a folder have said.
	Logs(id, dir string) string
	// Cancelling is the command that ends a job, for people.
	Cancelling(id string) string
}

// output runs an engine's program and returns what it prints. Its error is in one line, with what the program says.
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
