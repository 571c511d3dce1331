package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"selfheal/harness"
	"selfheal/harness/doctor"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// bundledModel is what doctor tries when nothing is asked for, and first.
const bundledModel = "models/zoo/preact_standard.onnx"

func doctorCommand(g *globals) *cobra.Command {
	p := &preprocessFlags{}
	c := &cobra.Command{
		Use:   "doctor [MODEL...]",
		Short: "Check the installation and models: do they run, are their gradients right, does a second engine agree?",
		Long: `Prints what is installed, then checks a bundled model and each MODEL, a line a
check: ok, FAIL with what is wrong, or skip with the reason. The exit code is 1
when a check fails. --mean and --std are for the given models.`,
		Example: "  selfheal doctor\n  selfheal doctor model.onnx --mean 0.4914,0.4822,0.4465 --std 0.2471,0.2435,0.2616",
		RunE: func(c *cobra.Command, args []string) error {
			o, err := p.options()
			if err != nil {
				return err
			}
			d := &examination{c: c, w: tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)}
			if err := d.installation(g); err != nil {
				return err
			}
			data, err := bundled.ReadFile(bundledModel)
			if err := d.model("bundled "+filepath.Base(bundledModel), data, err, doctor.Options{}); err != nil {
				return err
			}
			for _, path := range args {
				_, data, err := onnx.Load(path, nil, nil)
				if err := d.model(path, data, err, o); err != nil {
					return err
				}
			}
			return d.verdict()
		},
	}
	p.add(c)
	return c
}

func (p *preprocessFlags) options() (o doctor.Options, err error) {
	if o.Mean, err = parseFloats("--mean", p.mean); err != nil {
		return o, err
	}
	o.Std, err = parseFloats("--std", p.std)
	return o, err
}

// examination prints and counts checks.
type examination struct {
	c             *cobra.Command
	w             *tabwriter.Writer
	checks, fails int
	first         string // failure: where and what
}

func (d *examination) row(name, value string) { fmt.Fprintf(d.w, "%s\t%s\n", name, value) }

// installation prints what is installed. Without ONNX Runtime nothing can be
// checked: that is an error.
func (d *examination) installation(g *globals) error {
	d.row("selfheal", harness.Version)
	d.row("Go", fmt.Sprintf("%s %s/%s, %d CPUs", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU()))
	err := g.runtime(d.c)
	if err == nil {
		d.row("ONNX Runtime", fmt.Sprintf("%s, %s", ort.Version(), g.origin()))
		d.row("  library", ort.LibraryPath())
	} else {
		d.row("ONNX Runtime", "FAIL: it can't be loaded")
	}
	for _, tool := range [][]string{{"npm"}, {"pip3", "pip"}} {
		name := tool[len(tool)-1]
		d.row(name, found(d.c.Context(), tool))
	}
	cache := "none: the user has no cache folder"
	if dir, err := os.UserCacheDir(); err == nil {
		cache = filepath.Join(dir, "selfheal")
	}
	d.row("cache", cache)
	d.w.Flush()
	return err
}

// origin says how ONNX Runtime's library was found, in the order that ort.Init looks.
func (g *globals) origin() string {
	const variable = "ONNXRUNTIME_SHARED_LIBRARY"
	switch {
	case g.library != "":
		return "from --onnxruntime"
	case os.Getenv(variable) != "":
		return "from $" + variable
	}
	return "the pinned copy in the cache"
}

// found tells where a program that could fetch ONNX Runtime is.
func found(ctx context.Context, names []string) string {
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	if names[0] == "pip3" {
		for _, python := range []string{"python3", "python"} {
			if path, err := exec.LookPath(python); err == nil && exec.CommandContext(ctx, path, "-m", "pip", "--version").Run() == nil {
				return path + " -m pip"
			}
		}
	}
	return "not installed (it could fetch ONNX Runtime)"
}

// model prints the checks of one model; broken is the error of reading it. The
// error is the context's.
func (d *examination) model(name string, data []byte, broken error, o doctor.Options) error {
	checks := []doctor.Check{{Name: doctor.Runs, State: doctor.Failed}}
	if broken == nil {
		var err error
		if checks, err = doctor.Model(d.c.Context(), data, o); err != nil {
			return err
		}
	} else {
		checks[0].Detail = broken.Error()
	}
	fmt.Fprintf(d.c.OutOrStdout(), "\n%s\n", name)
	for _, k := range checks {
		detail := strings.Join(strings.Fields(k.Detail), " ")
		if k.State == doctor.Skipped {
			detail = "(" + detail + ")"
		}
		fmt.Fprintf(d.w, "  %s\t%s\t%s\n", k.Name, k.State, detail)
		d.checks++
		if k.State == doctor.Failed {
			d.fails++
			d.first = cmp.Or(d.first, fmt.Sprintf("%s: %s", name, k.Name))
		}
	}
	return d.w.Flush()
}

func (d *examination) verdict() error {
	if d.fails == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed, the first is %s; the lines with FAIL say why", d.fails, d.checks, d.first)
}
