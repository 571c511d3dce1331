package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"selfheal/attacks"
	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/doctor"
	"selfheal/harness/open"
	"selfheal/harness/planted"
	"selfheal/internal/number"
	"selfheal/models/grad"
	"selfheal/models/heads"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
	"selfheal/models/ort"
)

// bundledModel is the model that doctor checks first, and the only one if no other is given.
const bundledModel = "models/zoo/preact_standard.onnx"

func doctorCommand(g *globals) *cobra.Command {
	p, where, on, test := &preprocessFlags{}, &providerFlags{}, &labelledFlags{}, &plantedFlags{}
	asks := &taskFlags{}
	c := &cobra.Command{
		Use:   "doctor [MODEL...]",
		Short: "Check the installation and models: do they run, are their gradients right, does a second engine agree?",
		Long: `Prints what is installed, then checks a bundled model and each MODEL, a line a
check: ok, FAIL with what is wrong, or skip with the reason. The exit code is 1
when a check fails, and 2 for wrong usage.
With --provider ` + strings.Join(ort.Names()[1:], " or ") + ` that is the second engine, and the gradients that
attacks would take from it are compared with the CPU provider's.
--mean, --std and the like are for the given models. With --data each is asked about its
first --limit images, taken as these flags say, and in the usual other ways.`,
		Example: `  selfheal doctor
  selfheal doctor model.onnx --mean 0.4914,0.4822,0.4465 --std 0.2471,0.2435,0.2616
  selfheal doctor model.onnx --data test.npz`,
		ValidArgsFunction: filesWith("onnx"),
		RunE: func(c *cobra.Command, args []string) error {
			o, err := p.options()
			if err == nil {
				err = test.parse()
			}
			var task heads.Task
			if err == nil {
				task, err = asks.read()
			}
			if err != nil {
				return err
			}
			cfg, err := g.bundled(where.sets())
			if err != nil {
				return usage("%w", err)
			}
			d := &examination{c: c, w: columns(c.OutOrStdout()), runtime: cfg.Runtime}
			if err := d.installation(g); err != nil {
				return err
			}
			m := examined{name: "bundled " + filepath.Base(bundledModel)}
			m.data, m.broken = fs.ReadFile(g.files, bundledModel)
			if err := d.model(m); err != nil {
				return err
			}
			for _, path := range args {
				graph, data, err := opened.Load(path,
					simplify.Options{Layout: o.Layout, Output: o.Output, Size: o.Size}, nil)
				m := examined{path, data, err, nil, errors.As(err, new(*onnx.UnsupportedError)), o, task}
				if err == nil {
					for _, notice := range graph.Notices {
						if strings.HasSuffix(notice, simplify.NoticeLong) { // before it does so
							fmt.Fprintf(c.ErrOrStderr(), "selfheal: model %s: %s\n", path, notice)
						}
					}
					m.notices, m.unsupported = graph.Notices, grad.Check(graph) != nil // its check will report it
					if likely := likelyTask(graph, path); likely != "" && task.Classifies() {
						m.notices = append(m.notices, likely)
					}
				}
				if err := d.model(m); err != nil {
					return err
				}
				if on.data != "" && m.broken == nil {
					cfg, err := on.asked(path, p, asks)
					if err == nil {
						err = d.labelled(cfg)
					}
					if err == nil && test.on {
						err = d.planted(cfg, test)
					}
					if err != nil {
						return err
					}
				}
			}
			return d.verdict()
		},
	}
	p.add(flags{c})
	p.addSize(flags{c})
	where.add(flags{c}, config.CPU)
	asks.add(flags{c})
	on.add(flags{c}, "images of --data that a model is asked about")
	test.add(flags{c})
	flags{c}.only(beside("data"), "planted", "classes", "resize", "crop", "limit", "probabilities", "label")
	flags{c}.only(ofModels, "data", "scale", "mean", "std", "layout", "output-name", "size", "task")
	return c
}

// plantedFlags say which perturbations are planted and looked for.
type plantedFlags struct {
	on            bool
	norm, epsilon string
	setup         attacks.Setup
	size          float64 // epsilon
}

// plantedImages is how many images get a planted perturbation.
const plantedImages = 16

func (f *plantedFlags) add(to flags) {
	to.on(&f.on, "planted", fmt.Sprintf("plant a perturbation in each of %d images of --data; does AutoAttack find it?",
		plantedImages))
	to.text(&f.norm, "norm", attacks.Linf.String(), "norm of the planted perturbations: "+
		strings.Join(plantedNorms, ", "), words(plantedNorms...))
	to.text(&f.epsilon, "epsilon", "8/255", "their bound, a number or a fraction", noFiles)
	to.only(beside("planted"), "norm", "epsilon")
}

var plantedNorms = []string{attacks.Linf.String(), attacks.L2.String(), attacks.L1.String()}

func (f *plantedFlags) parse() (err error) {
	f.setup.Kind = "autoattack"
	if f.setup.Norm, err = attacks.ParseNorm(f.norm); err != nil || !slices.Contains(plantedNorms, f.norm) {
		return usage("--norm must be one of %s, not %q", strings.Join(plantedNorms, ", "), f.norm)
	}
	var ok bool
	if f.size, ok = number.Parse(f.epsilon); !ok || !(f.size > 0) {
		return usage("--epsilon must be a number above 0, such as 8/255, not %q", f.epsilon)
	}
	return nil
}

// planted prints how many planted perturbations AutoAttack finds.
func (d *examination) planted(cfg *config.Config, f *plantedFlags) error {
	found, err := planted.Model(d.c.Context(), cfg, f.setup, f.size, plantedImages, planted.Options{})
	state, line := doctor.OK, fmt.Sprintf("AutoAttack finds %d of %d, as many random points %d, in %s %s",
		found.Found, found.N, found.Random, f.norm, f.epsilon)
	switch {
	case d.c.Context().Err() != nil:
		return err
	case err != nil:
		state, line = doctor.Skipped, err.Error()
	case found.N == 0:
		state, line = doctor.Skipped, "no point of the ball can be told from the others by the network's features"
	case found.Missed():
		state, line = doctor.Warned, line+": robust accuracy under it is not to be trusted"
	}
	fmt.Fprintf(d.w, "  planted perturbations\t%s\t%s\n", state, line)
	return d.w.Flush()
}

// labelledFlags give labelled images for a model, and how to read its answers.
type labelledFlags struct {
	dataFlags
	limit int
	form  outputForm
}

func (f *labelledFlags) add(to flags, limit string) {
	f.dataFlags.add(to)
	to.whole(&f.limit, "limit", 1000, limit)
	f.form.add(to)
}

// keys returns the config's keys for a model and for the images, the last of which is the limit.
func (f *labelledFlags) keys(model string, p *preprocessFlags) (network, images config.Keys, err error) {
	if f.limit < 1 {
		return nil, nil, usage("--limit must be a whole number from 1 up, not %d", f.limit)
	}
	if images, err = f.images(); err == nil {
		network, err = p.network(model, f.form)
	}
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	return network, append(images, key("limit", f.limit, "--limit")), nil
}

// asked returns the config of a model and the images.
func (f *labelledFlags) asked(model string, p *preprocessFlags, t *taskFlags) (*config.Config, error) {
	network, images, err := f.keys(model, p)
	if err == nil {
		network, images, err = t.tasked(network, images)
	}
	if err != nil {
		return nil, err
	}
	return asked(network, images)
}

// labelled prints how a model answers on labelled images.
func (d *examination) labelled(cfg *config.Config) error {
	got, advice, err := open.Examine(d.c.Context(), cfg, cfg.Models[0].Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.w, "  labelled images\t%s\tright on %d of %d (%.1f %%), taken %s\n", doctor.OK, got.Right, got.Of,
		100*float64(got.Right)/float64(got.Of), got.Name)
	if got.Labels != "" {
		fmt.Fprintf(d.w, "  classes\t\t%s\n", got.Labels)
	}
	state := doctor.OK
	if advice != "" {
		state = doctor.Warned
	}
	fmt.Fprintf(d.w, "  preprocessing\t%s\t%s\n", state, cmp.Or(advice, "no usual one is better"))
	return d.w.Flush()
}

// examination prints and counts checks.
type examination struct {
	c             *cobra.Command
	w             *tabwriter.Writer
	checks, fails int
	first         string // the first failure: where and what
	runtime       config.Runtime
}

func (d *examination) row(name, value string) { fmt.Fprintf(d.w, "%s\t%s\n", name, value) }

// installation prints what is installed. Without ONNX Runtime nothing can be checked, which is an error.
func (d *examination) installation(g *globals) error {
	d.row("selfheal", harness.Version)
	d.row("Go", fmt.Sprintf("%s %s/%s, %d CPUs", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU()))
	err := g.runtime(d.c, d.runtime)
	if err == nil {
		d.row("ONNX Runtime", fmt.Sprintf("%s, %s", ort.Version(), ort.Origin()))
		d.row("  library", ort.LibraryPath())
		err = d.providers()
	} else {
		d.row("ONNX Runtime", "FAIL: it can't be loaded")
	}
	clients, commands := ort.Clients()
	for i, name := range clients {
		d.row(name, cmp.Or(commands[i], "not installed (it could fetch ONNX Runtime)"))
	}
	cache := "none: the user has no cache folder"
	if dir, err := os.UserCacheDir(); err == nil {
		cache = filepath.Join(dir, "selfheal")
	}
	d.row("cache", cache)
	d.w.Flush()
	return err
}

// providers checks the providers with devices, which any library may contain, and the requested one.
func (d *examination) providers() error {
	for _, p := range ort.Providers {
		if p.Device() {
			on := ort.Target{Provider: p.Name, Device: d.runtime.Device}
			says := on.Computes()
			if err := on.Check(); err != nil {
				says = "not available: " + err.Error()
			}
			d.row("  "+p.Title, says)
		}
	}
	on := d.runtime.Target()
	if err := on.Check(); err != nil {
		return fmt.Errorf("runtime.provider %s: %w", on.Provider, err)
	}
	if row := on.Row(); !on.OnCPU() && !row.Device() {
		d.row("  "+row.Title, on.Computes())
	}
	return nil
}

// examined is a model to check.
type examined struct {
	name        string
	data        []byte
	broken      error    // error of reading it
	notices     []string // changes made when it was opened
	unsupported bool     // it has operators that can't be opened or differentiated
	options     simplify.Options
	task        heads.Task
}

// model prints the checks of one model. Its error is the context's.
func (d *examination) model(m examined) error {
	var checks []doctor.Check
	if m.broken != nil {
		checks = []doctor.Check{{Name: doctor.Runs, State: doctor.Failed, Detail: m.broken.Error()}}
	} else {
		var err error
		o := doctor.Options{Options: m.options, Attacks: d.runtime.Target(), Task: m.task}
		if checks, err = doctor.Model(d.c.Context(), m.data, o); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.c.OutOrStdout(), "\n%s\n", m.name)
	for _, notice := range m.notices {
		fmt.Fprintf(d.w, "  note\t\t%s\n", notice)
	}
	for _, k := range checks {
		if k.Name == doctor.Gradient && k.State == doctor.Failed && !m.unsupported &&
			slices.Contains(m.notices, simplify.NoticeQuantized) {
			k.State, k.Detail = doctor.Skipped, "a quantised network rises in steps, of which its gradient is the trend"
		}
		detail := strings.Join(strings.Fields(k.Detail), " ")
		if k.State == doctor.Skipped {
			detail = "(" + detail + ")"
		}
		fmt.Fprintf(d.w, "  %s\t%s\t%s\n", k.Name, k.State, detail)
		d.checks++
		if k.State == doctor.Failed {
			d.fails++
			d.first = cmp.Or(d.first, fmt.Sprintf("%s: %s", m.name, k.Name))
		}
	}
	return d.w.Flush()
}

func (d *examination) verdict() error {
	if d.fails == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed, the first is %s; the lines with FAIL say why", d.fails, d.checks,
		d.first)
}
