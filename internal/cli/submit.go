package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"selfheal/control/pca"
	"selfheal/harness/cluster"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/run"
	"selfheal/harness/shard"
)

type submitFlags struct {
	planFlags
	out, engine string
	shards      int
	print       bool
	sbatch      string
	kubernetes  cluster.Kubernetes
}

const (
	slurm      = "slurm"
	kubernetes = "kubernetes"
)

func submitCommand(g *globals) *cobra.Command {
	f := &submitFlags{}
	c := &cobra.Command{
		Use:   "submit --engine ENGINE --config FILE --out DIR",
		Short: "Run a config as a job of Slurm, or write it as a Job for Kubernetes",
		Long: `Runs the suites of a config in shards, as a job array of Slurm, follows them, submits
again what has failed, and merges what they come to in --out, which must be a folder that
all machines have under the same name. Ctrl-C ends the following, not the job: the same
command goes on following it.

For Kubernetes it prints the manifest of an indexed Job (--print). kubectl create -f
submits it, and selfheal report DIR --out DIR merges its shards.`,
		Example: `  selfheal submit --engine slurm --config my.yaml --out /shared/out \
    --sbatch "--partition=gpu --time=4:00:00"
  selfheal submit --engine slurm --shards 32 --config my.yaml --out /shared/out --print
  selfheal submit --engine kubernetes --shards 32 --config /shared/my.yaml --out /shared/out \
    --image registry.example/selfheal:1 --claim shared --mount /shared --print > job.yaml`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, g) },
	}
	to := flags{c}
	to.text(&f.engine, "engine", "", "slurm or kubernetes", words(slurm, kubernetes))
	to.whole(&f.shards, "shards", 0, "how many parts to make of the work (default: four for each node that the "+
		"engine can use)")
	to.output(&f.out, "out", "", "output folder, which all machines have", folders)
	f.planFlags.add(to, g)
	to.on(&f.print, "print", "print what the engine would be given, and submit nothing")
	to.text(&f.sbatch, "sbatch", "", "options for sbatch: \"--partition=gpu --time=4:00:00 --gres=gpu:1\"", noFiles)
	k := &f.kubernetes
	to.text(&k.Image, "image", "", "Kubernetes: the image with selfheal", noFiles)
	to.text(&k.Claim, "claim", "", "Kubernetes: the PersistentVolumeClaim with models, data and results", noFiles)
	to.text(&k.Mount, "mount", "",
		"where its volume is mounted, here and in pods (default: the folder that holds --out)", folders)
	to.text(&k.Namespace, "namespace", "", "Kubernetes: the namespace (default: kubectl's)", noFiles)
	to.text(&k.CPU, "cpu", "", "Kubernetes: cores that a pod asks for", noFiles)
	to.text(&k.Memory, "memory", "", "Kubernetes: memory that a pod asks for and may use, such as 8Gi", noFiles)
	to.whole(&k.GPUs, "gpus", 0, "Kubernetes: GPUs of a pod")
	to.whole(&k.Parallelism, "parallelism", 0, "how many shards run at once (default: all)")
	to.whole(&k.User, "user", 0, "Kubernetes: user id of the pods (default: yours; 1000 for root)")
	to.whole(&k.Group, "group", 0, "Kubernetes: group id, likewise")
	to.quiet(g)
	to.logFormat(g)
	to.only(beside("engine", slurm), "sbatch")
	to.only(beside("engine", kubernetes), "image", "claim", "mount", "namespace", "cpu", "memory", "gpus", "user",
		"group")
	to.only(without("print"), "quiet")
	return c
}

func (f *submitFlags) run(c *cobra.Command, g *globals) error {
	err := cmp.Or(needed(c, "engine", f.engine, ", slurm or kubernetes"), needed(c, "out", f.out, ""),
		needed(c, "config", f.config, ", for example --config config.yaml"))
	if err != nil {
		return err
	}
	if c.Flag("shards").Changed && !(plan.Shard{I: 1, N: f.shards}).Valid() {
		return usage("--shards N: N must be from 1 to %d, got %d", plan.MaxShards, f.shards)
	}
	cfg, p, err := f.load(c, g)
	if err != nil {
		return err
	}
	if err := f.missing(c, p); err != nil {
		return err
	}
	if f.out, err = filepath.Abs(f.out); err != nil {
		return err
	}
	for _, id := range []string{"user", "group"} {
		if flag := c.Flag(id); flag.Changed && flag.Value.String() == "0" {
			return usage("--%s 0: the pods do not run as root; leave it out for 1000, or name another", id)
		}
	}
	engine := cluster.Slurm{Options: f.sbatch, Parallelism: f.kubernetes.Parallelism}
	program, write := "selfheal", engine.Render
	switch f.engine {
	case slurm:
		program, err = os.Executable()
	case kubernetes:
		switch {
		case !f.print:
			return usage("submit --engine kubernetes needs --print, which writes the Job: kubectl create -f submits "+
				"it, and selfheal report %s --out %s merges its shards", f.out, f.out)
		case f.shards == 0:
			return usage("submit --engine kubernetes needs --shards N")
		}
		f.kubernetes.Folder, err = os.Getwd()
		write = f.kubernetes.Render
	default:
		return notOneOf("engine", f.engine, []string{slurm, kubernetes})
	}
	if err != nil {
		return err
	}
	if f.shards == 0 {
		if f.shards, err = shard.DefaultShards(c.Context(), f.out, engine); err != nil {
			return usage("submit needs --shards N, as the number of nodes can't be told: %w", err)
		}
	}
	command, err := f.command(c, program)
	if err != nil {
		return err
	}
	text, err := write(cluster.Job{Command: command, Shards: f.shards, Which: cluster.All(f.shards), Dir: f.out})
	if err != nil {
		return usage("%w", err)
	}
	if f.print {
		_, err = fmt.Fprint(c.OutOrStdout(), text)
		return err
	}
	if err := g.readsData(p.Config, f.out); err != nil {
		return err
	}
	if err := g.runtime(c, cfg.Runtime); err != nil {
		return err
	}
	_, err = shard.Submit(c.Context(), p, shard.SubmitOptions{Engine: engine, EngineName: f.engine,
		Shards: f.shards, ProgramCommand: command, Options: run.Options{Out: f.out, Rule: g.rule,
			Progress: g.progress(c), Cache: pca.UserCache(), Command: commandLine(c),
			Report: g.render(c, f.out, f.out)}})
	if err == nil {
		g.printTables(c, f.out)
	}
	return err
}

// command returns the command that runs a shard, except the shard's number.
func (f *submitFlags) command(c *cobra.Command, program string) ([]string, error) {
	path, err := filepath.Abs(f.config)
	if err != nil {
		return nil, err
	}
	words := []string{program, "run", "--config", path, "--out", f.out, "--log-format", progress.JSONLog}
	for _, name := range []string{"limit", "workers", "batch", "onnxruntime", "offline"} {
		if flag := c.Flag(name); flag.Changed {
			words = append(words, "--"+name+"="+flag.Value.String())
		}
	}
	for _, s := range f.suites {
		words = append(words, "--suite", s)
	}
	for _, s := range f.sets {
		words = append(words, "--set", s)
	}
	return words, nil
}
