package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selfheal/control/pca"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/judge"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/fault"
	"selfheal/internal/number"
)

type verifyFlags struct {
	useFlags
	scaleFlags
	adversarial, dataset, attack string
	json                         bool
}

func verifyCommand(g *globals) *cobra.Command {
	f := &verifyFlags{}
	c := &cobra.Command{
		Use: "verify (DIR | --adversarial FILE (MODEL --data FILE --norm NORM --epsilon EPSILON | " +
			"--model NAME --dataset NAME --attack NAME))",
		Short: "Check adversarial images, a run's or anybody's, against a model",
		Long: `Measures adversarial images as the judge of a run does, in float64: each value in
[0,1], each perturbation within the attack's epsilon (relative tolerance 1e-5); then
asks the model about them, or with --control the controlled network. FILE holds the
images of the data set in its order, float32 [N, C, H, W]: .npy, or .npz with an array
x_adv or adversarial, or only one. The exit code is 1 when an image leaves ball or box.
Model, data and attack are given by flags, as for attack, or are those of a config.

With DIR, the folder of a run, it checks the images that this has saved, by the ids in its
results, on every network that was scored on them; the files are found as the run's own
command names them. The exit code is 1, too, when a verdict is not that of the results.`,
		Example: `  selfheal verify results
  selfheal verify model.onnx --adversarial x.npy --data test.npz --norm linf --epsilon 8/255
    selfheal verify --adversarial x.npy --config my.yaml --model mine --dataset test --attack aa-linf
  selfheal verify --adversarial x.npz --model preact-robust --dataset shapes10 --attack aa-l2 --control msa --limit 50`,
		ValidArgsFunction: once(filesWith("onnx")),
		RunE: func(c *cobra.Command, args []string) error {
			model, rest := onnxFile(args)
			if model == "" && len(rest) == 1 && f.adversarial == "" {
				return f.verifyRun(c, g, rest[0])
			}
			if err := exactly(0, "a model's file (.onnx) at most")(c, rest); err != nil {
				return err
			}
			return f.verify(c, g, model)
		},
	}
	to := flags{c}
	f.useFlags.add(to, g, "a control of the config: the controlled network judges")
	f.scaleFlags.addConfigs(to)
	f.addBare(to)
	f.bare.dataFlags.add(to)
	f.bare.normFlag(to, "")
	to.text(&f.adversarial, "adversarial", "", "the adversarial images, .npy or .npz", filesWith("npy", "npz"))
	to.text(&f.dataset, "dataset", "", "a data set of the config: the clean images", g.ofConfig(datasetNames, 0))
	to.text(&f.attack, "attack", "", "an attack of the config: norm and epsilon", g.ofConfig(attackNames, 0))
	to.text(&f.bare.epsilon, "epsilon", "", "bound of the perturbation; of a config's attack, which of several",
		noFiles)
	to.on(&f.json, "json", "print JSON")
	to.only(beside("data"), "classes", "resize", "crop")
	to.only(ofFile, "data", "norm")
	to.only(ofConfig, "dataset", "attack")
	return c
}

func (f *verifyFlags) verify(c *cobra.Command, g *globals, model string) error {
	err := needed(c, "adversarial", f.adversarial, "")
	if model != "" {
		err = cmp.Or(err, f.bare.needed(c), needed(c, "norm", f.bare.norm, ", for example --norm linf"))
	} else {
		err = cmp.Or(err, needed(c, "dataset", f.dataset, ""), needed(c, "attack", f.attack, ""))
	}
	if err != nil {
		return err
	}
	var cfg *config.Config
	if model != "" {
		f.model = named(model, "model")
		f.bare.attack, f.bare.seeds = "pgd", 1 // stands for any attack in a norm
		cfg, err = f.bare.parse(model)
	} else {
		cfg, err = f.load(c, g, "")
	}
	if err != nil {
		return err
	}
	claim := judge.Claim{Dataset: f.dataset, Limit: f.limit, Column: cell.Column{Attack: f.attack}}
	if model != "" {
		cfg.Attacks[0].Name = named(f.adversarial, "adversarial")
		claim.Dataset, claim.Attack = cfg.Datasets[0].Name, cfg.Attacks[0].Name
	} else if f.bare.epsilon != "" {
		epsilon, ok := number.Parse(f.bare.epsilon)
		if claim.Epsilon = cell.Epsilon(epsilon); !ok || epsilon <= 0 {
			return usage("--epsilon must be a number above 0, such as 0.5 or 8/255, not %q", f.bare.epsilon)
		}
	}
	claim.Shape, claim.Images, err = dataset.ReadArray(config.Folder("."), filepath.ToSlash(f.adversarial), "x_adv",
		"adversarial")
	if err != nil {
		return usage("--adversarial %s: %w", f.adversarial, fault.Reason(err))
	}
	u, err := f.open(c, g, cfg, &f.scaleFlags)
	if err != nil {
		return err
	}
	defer u.Close()
	v, err := judge.Verify(c.Context(), u, claim)
	if err != nil {
		return err
	}
	if f.json {
		err = printJSON(c, v)
	} else {
		err = printVerification(c, v)
	}
	if err == nil && len(v.Outside) > 0 {
		first := v.Outside[0]
		err = fmt.Errorf("%s: %d of %d images leave the ball or the box; image %d: %s", f.adversarial, len(v.Outside),
			v.N, first.Image, first.Problem)
	}
	return err
}

// verifyRun checks the images that a run has saved.
func (f *verifyFlags) verifyRun(c *cobra.Command, g *globals, dir string) error {
	var other string
	c.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains([]string{"json", "workers", "batch", "offline", "onnxruntime"}, flag.Name) {
			other = flag.Name
		}
	})
	if other != "" {
		return usage("--%s does not go with the folder of a run, %s, whose results say it", other, dir)
	}
	file, err := resultsOf(dir)
	if err != nil {
		return usage("%w", err)
	}
	p, err := g.planOf(c.Context(), file)
	if err != nil {
		return usage("%s: its command can't be read again, from the folder it was given in: %w", dir, err)
	}
	limit := p.Config.Limit
	f.scaleFlags.apply(c, p.Config)
	p.Config.Limit = limit
	if err := cmp.Or(f.scaleFlags.check(c), g.runtime(c, p.Config.Runtime)); err != nil {
		return err
	}
	all, err := run.Verify(c.Context(), p, file, dir, run.Options{Cache: pca.UserCache()})
	if err != nil {
		return err
	}
	if f.json {
		err = printJSON(c, all)
	} else {
		err = printReviewed(c, all)
	}
	for _, r := range all {
		switch {
		case err != nil:
		case len(r.Outside) > 0:
			err = fmt.Errorf("%s/%s: %d of %d images leave the ball or the box; image %d: %s", dir, r.File,
				len(r.Outside), r.N, r.Outside[0].Image, r.Outside[0].Problem)
		case len(r.Differ) > 0:
			err = fmt.Errorf("%s/%s: %d of %d verdicts of %s, %s, are others than in the results; the first is that "+
				"of image %d", dir, r.File, len(r.Differ), r.N, r.Model, r.Defense, r.Differ[0])
		}
	}
	return err
}

// planOf plans the command that the results name.
func (g *globals) planOf(ctx context.Context, file *result.File) (p *plan.Plan, err error) {
	if len(file.Command) < 2 {
		return nil, errors.New("the results do not have it")
	}
	again := &globals{files: g.files, planned: func(found *plan.Plan) error {
		p = found
		return errPlanned
	}}
	root := again.rootCommand()
	root.SetArgs(file.Command[1:])
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	if err = root.ExecuteContext(ctx); err == nil {
		err = errors.New("it makes no plan")
	} else if errors.Is(err, errPlanned) {
		err = nil
	}
	return p, err
}

// errPlanned ends a command of which only the plan is wanted.
var errPlanned = errors.New("planned")

func printReviewed(c *cobra.Command, all []run.Reviewed) error {
	w := columns(c.OutOrStdout())
	fmt.Fprintln(w, strings.Join([]string{"suite", "model", "defense", "attack", "epsilon", "images", "largest norm",
		"outside", "robust accuracy", "other verdicts"}, "\t"))
	for _, r := range all {
		epsilon := "–"
		if r.Epsilon != 0 {
			epsilon = r.Epsilon.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%.6g\t%d\t%.1f %%\t%d\n", r.Suite, r.Model, r.Defense, r.Attack,
			epsilon, r.N, r.MaxNorm, len(r.Outside), 100*r.Accuracy, len(r.Differ))
	}
	return w.Flush()
}

// mostListed bounds the number of images outside that are printed; --json lists all.
const mostListed = 10

func printVerification(c *cobra.Command, v *judge.Verification) error {
	w := columns(c.OutOrStdout())
	fmt.Fprintf(w, "dataset\t%s\nmodel\t%s\n", v.Dataset, v.Model)
	if v.Defense != cell.None {
		fmt.Fprintf(w, "control\t%s\n", v.Defense)
	}
	bound := "any image"
	if v.Norm != nil {
		bound = *v.Norm + ", epsilon " + v.Epsilon.String()
	}
	fmt.Fprintf(w, "attack\t%s, %s\n", v.Attack, bound)
	fmt.Fprintf(w, "images\t%d, %d of them unperturbed\n", v.N, v.Unperturbed)
	fmt.Fprintf(w, "largest norm\t%.6g\n", v.MaxNorm)
	fmt.Fprintf(w, "outside ball or box\t%d\n", len(v.Outside))
	for i, o := range v.Outside {
		if i == mostListed {
			fmt.Fprintf(w, "\tand %d more\n", len(v.Outside)-i)
			break
		}
		fmt.Fprintf(w, "  image %d\t%s\n", o.Image, o.Problem)
	}
	others := ""
	if len(v.Outside) > 0 {
		others = " others"
	}
	fmt.Fprintf(w, "robust accuracy\t%.1f %% of %d%s, 95 %% interval %.1f to %.1f\n", 100*v.Accuracy, v.Judged, others,
		100*v.CI95[0], 100*v.CI95[1])
	return w.Flush()
}
