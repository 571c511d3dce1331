package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"selfheal/harness/cluster"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/lists"
)

// SubmitOptions choose the engine, and say how to run a plan's shards on it.
type SubmitOptions struct {
	run.Options    // of the merge; all machines share the folder Out
	Engine         cluster.Engine
	EngineName     string
	Shards         int
	ProgramCommand []string      // runs a shard; --shard is added
	Every          time.Duration // interval of looking at the shards; 0: 15 s
}

// submitFolder, in the output folder, has jobFile with the jobs that [Submit] has made.
const (
	submitFolder = "submit"
	jobFile      = "job.json"
)

// submitted is the work that an engine was given.
type submitted struct {
	Engine       string   `json:"engine"`
	Shards       int      `json:"shards"`
	ConfigSHA256 string   `json:"config_sha256"`
	Jobs         []string `json:"jobs"` // ids; the last one runs the shards that failed before
	Tries        []int    `json:"tries"`
}

// mostTries is how often a shard is submitted that ends unfinished.
const mostTries = 3

// Submit runs a plan's shards as a job of an engine, or follows a job that was submitted before. It submits failed
// shards again, and merges in o.Out. If ctx is cancelled the job goes on; the error is then [folder.Unfinished].
func Submit(ctx context.Context, p *plan.Plan, o SubmitOptions) (*result.File, error) {
	if err := atomicfile.In(o.Out).Make(submitFolder); err != nil {
		return nil, fmt.Errorf("output folder %s: %w", o.Out, err)
	}
	lock, err := folder.LockFolder(filepath.Join(o.Out, submitFolder), "submit")
	if err != nil {
		return nil, err
	}
	defer lock.Free()
	s := &submission{o: o, path: filepath.Join(o.Out, submitFolder, jobFile),
		finished: make([]bool, o.Shards), gone: make([]int, o.Shards)}
	err = s.begin(ctx, p)
	if err == nil {
		err = s.follow(ctx)
	}
	if err != nil {
		if ctx.Err() != nil && len(s.Jobs) > 0 {
			o.Progress.Report(progress.JobGoesOn{Engine: o.EngineName, Jobs: s.Jobs,
				Cancel: strings.Join(lists.Map(s.Jobs, o.Engine.Cancelling), "; ")})
			return nil, folder.NewUnfinished(err)
		}
		return nil, err
	}
	own := fmt.Sprintf("-of-%d", o.Shards)
	shards := lists.Only(Find(o.Out), func(dir string) bool { return strings.HasSuffix(shardFolder(dir), own) })
	return Merge(ctx, shards, o.Options)
}

type submission struct {
	o SubmitOptions
	submitted
	path     string
	finished []bool
	gone     []int // in how many looks in a row the engine did not know a shard
}

func (s *submission) last() string { return s.Jobs[len(s.Jobs)-1] }

// readSubmitted reads the work that was submitted for an output folder, or returns nil.
func readSubmitted(dir string) (*submitted, error) {
	path := filepath.Join(dir, submitFolder, jobFile)
	data, err := input.Read(path, mostJobs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	var s submitted
	if err := json.Unmarshal(data, &s); err != nil || len(s.Tries) != s.Shards || len(s.Jobs) == 0 ||
		slices.Contains(s.Jobs, "") {
		return nil, fmt.Errorf("%s is damaged: choose another --out, or remove it", path)
	}
	return &s, nil
}

// shardsPerNode is the default number of shards for each node. Shards take different times: the more there are, the
// shorter the last one keeps the others waiting.
const shardsPerNode = 4

// DefaultShards returns the number of shards of the job submitted for a folder before or, if there is none, four for
// each node on which the engine may run a shard.
func DefaultShards(ctx context.Context, dir string, engine cluster.Engine) (int, error) {
	if before, err := readSubmitted(dir); err != nil || before != nil {
		if err != nil {
			return 0, err
		}
		return before.Shards, nil
	}
	nodes, err := engine.Nodes(ctx)
	if err == nil && nodes == 0 {
		err = errors.New("the engine has no node that takes jobs")
	}
	return min(shardsPerNode*nodes, plan.MaxShards), err
}

// begin finds the job that was submitted before, or submits one.
func (s *submission) begin(ctx context.Context, p *plan.Plan) error {
	before, err := readSubmitted(s.o.Out)
	if before != nil {
		s.submitted = *before
	}
	switch hash := p.Config.Hash(); {
	case err != nil:
		return err
	case before == nil:
		s.submitted = submitted{Engine: s.o.EngineName, Shards: s.o.Shards, ConfigSHA256: hash,
			Tries: make([]int, s.o.Shards)}
	case s.Shards != s.o.Shards || s.Engine != s.o.EngineName:
		return open.Wrong(fmt.Errorf("%s is that of another job, of %s in %d shards: choose another --out", s.o.Out,
			s.Engine, s.Shards))
	case s.ConfigSHA256 != hash:
		return open.Wrong(fmt.Errorf("%s is that of another job: another config, --suite, --limit or --set; choose "+
			"another --out", s.o.Out))
	default:
		clear(s.Tries) // a caller who tries again has removed the cause
		s.o.Progress.Report(progress.JobFound{Engine: s.o.EngineName, Job: s.last()})
		return nil
	}
	if err := s.o.Engine.Ready(); err != nil {
		return err
	}
	// Checks that the results fit and all files are there, and reads the data sets' digests for all shards.
	of := s.o.Options
	of.Force = false
	if of.Part, err = partOf(p, plan.Shard{}, of.Out, of); err == nil {
		err = run.Prepare(ctx, p, of)
	}
	if err != nil {
		if errors.Is(err, folder.ErrOtherRun) || errors.As(err, new(atomicfile.Refused)) { // submit has no --force
			what, _, _ := strings.Cut(err.Error(), "; choose another ")
			err = open.Wrong(errors.New(what + "; choose another --out"))
		}
		return err
	}
	return s.submit(ctx, cluster.All(s.Shards))
}

const mostJobs = 64 << 20

func (s *submission) submit(ctx context.Context, which []int) error {
	// Notes a job that the engine has taken, even if this program is ended meanwhile.
	id, err := s.o.Engine.Submit(context.WithoutCancel(ctx), cluster.Job{Command: s.o.ProgramCommand, Shards: s.Shards,
		Which: which, Dir: s.o.Out})
	if id == "" {
		return err
	}
	s.Jobs = append(s.Jobs, id) // after an error too, as a part may have been submitted
	for _, i := range which {
		s.Tries[i-1]++
		s.gone[i-1] = 0
	}
	data, merr := json.Marshal(s.submitted)
	if merr == nil {
		dir, name := atomicfile.At(s.path)
		merr = dir.WriteSynced(name, data)
	}
	if merr != nil {
		merr = fmt.Errorf("%s has job %s, which can't be noted in %s: %w; %s ends it", s.o.EngineName, id, s.path,
			fault.Reason(merr), s.o.Engine.Cancelling(id))
	}
	if err = cmp.Or(err, merr); err == nil {
		s.o.Progress.Report(progress.JobSubmitted{Engine: s.o.EngineName, Job: id, Shards: len(which)})
	}
	return err
}

// follow looks at the shards until all are finished.
func (s *submission) follow(ctx context.Context) error {
	every := s.o.Every
	if every == 0 {
		every = 15 * time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		failed, all, err := s.look(ctx)
		if err != nil || all {
			return err
		}
		if len(failed) > 0 {
			if err := s.again(ctx, failed); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (s *submission) again(ctx context.Context, failed []int) error {
	for _, i := range failed {
		if s.Tries[i-1] >= mostTries {
			return fmt.Errorf("shard %d has ended %d times without being finished: %s says why; the same command "+
				"tries again", i, s.Tries[i-1], s.o.Engine.Logs(s.last(), s.o.Out))
		}
	}
	s.o.Progress.Report(progress.ShardsFailed{Which: failed})
	return s.submit(ctx, failed)
}

// look asks shards and engine. failed are the shards that the engine did not know in two looks, as files may appear
// late.
func (s *submission) look(ctx context.Context) (failed []int, all bool, err error) {
	states, silent := map[int]cluster.State{}, false
	for _, id := range s.Jobs {
		some, err := s.o.Engine.States(ctx, id)
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		if err != nil {
			silent = true
			s.o.Progress.Report(progress.EngineSilent{Error: err.Error()})
			break
		}
		for shard, state := range some {
			states[shard] = max(states[shard], state)
		}
	}
	now := progress.JobFollowed{Shards: s.Shards}
	for i := range s.finished {
		status := statusOf(s.o.Out, plan.Shard{I: i + 1, N: s.Shards})
		if status != nil {
			now.Images += status.Images
			now.ImagesDone += status.Done
			now.Robust += status.Robust
			s.finished[i] = status.Finished
		}
		switch {
		case s.finished[i]:
			now.ShardsFinished++
			continue
		case states[i+1] == cluster.Running:
			now.ShardsRunning++
		case states[i+1] == cluster.Waiting:
			now.ShardsWaiting++
		}
		if s.gone[i]++; silent || states[i+1] != cluster.Gone {
			s.gone[i] = 0
		}
		if s.gone[i] > 1 {
			failed = append(failed, i+1)
		}
	}
	if !silent {
		s.o.Progress.Report(now)
	}
	return failed, now.ShardsFinished == now.Shards, nil
}
