package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/judge"
	"selfheal/internal/fault"
	"selfheal/internal/number"
)

type verifyFlags struct {
	useFlags
	scaleFlags
	adversarial, dataset, attack, epsilon string
	json                                  bool
}

func verifyCommand(g *globals) *cobra.Command {
	f := &verifyFlags{}
	c := &cobra.Command{
		Use: "verify --adversarial FILE (MODEL --data FILE --norm NORM --epsilon EPSILON | " +
			"--model NAME --dataset NAME --attack NAME)",
		Short: "Check adversarial images, whoever made them, against a model",
		Long: `Measures adversarial images as the judge of a run does, in float64: each value in
[0,1], each perturbation within the attack's epsilon (relative tolerance 1e-5); then
asks the model about them, or with --control the controlled network. FILE holds the
images of the data set in its order, float32 [N, C, H, W]: .npy, or .npz with an array
x_adv or adversarial, or only one. The exit code is 1 when an image leaves ball or box.
Model, data and attack are given by flags, as for attack, or are those of a config.`,
		Example: `  selfheal verify model.onnx --adversarial x.npy --data test.npz --norm linf --epsilon 8/255
    selfheal verify --adversarial x.npy --config my.yaml --model mine --dataset test --attack aa-linf
  selfheal verify --adversarial x.npz --model preact-robust --dataset shapes10 --attack aa-l2 --control msa --limit 50`,
		ValidArgsFunction: once(filesWith("onnx")),
		RunE: func(c *cobra.Command, args []string) error {
			model, rest := onnxFile(args)
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
	to.text(&f.epsilon, "epsilon", "", "bound of the perturbation; of a config's attack, which of several", noFiles)
	to.on(&f.json, "json", "print JSON")
	return c
}

func (f *verifyFlags) verify(c *cobra.Command, g *globals, model string) error {
	err := needed(c, "adversarial", f.adversarial, "")
	if f.bare.epsilon = f.epsilon; model != "" {
		err = cmp.Or(err, f.bare.needed(c), needed(c, "norm", f.bare.norm, ", for example --norm linf"))
	} else {
		err = cmp.Or(err, needed(c, "dataset", f.dataset, ""), needed(c, "attack", f.attack, ""))
	}
	if err != nil {
		return err
	}
	cfg, err := f.load(c, g, model, []string{"dataset", "attack"}, []string{"data", "format", "norm"})
	if err != nil {
		return err
	}
	claim := judge.Claim{Dataset: f.dataset, Limit: f.limit, Attack: f.attack}
	if model != "" {
		cfg.Attacks[0].Name = named(f.adversarial, "adversarial")
		claim.Dataset, claim.Attack = cfg.Datasets[0].Name, cfg.Attacks[0].Name
	} else if f.epsilon != "" {
		var ok bool
		if claim.Epsilon, ok = number.Parse(f.epsilon); !ok || claim.Epsilon <= 0 {
			return usage("--epsilon must be a number above 0, such as 0.5 or 8/255, not %q", f.epsilon)
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

// mostListed bounds the images outside that are printed; --json has them all.
const mostListed = 10

func printVerification(c *cobra.Command, v *judge.Verification) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "dataset\t%s\nmodel\t%s\n", v.Dataset, v.Model)
	if v.Defense != config.None {
		fmt.Fprintf(w, "control\t%s\n", v.Defense)
	}
	bound := "any image"
	if v.Norm != nil {
		bound = *v.Norm + ", epsilon " + number.Format(*v.Epsilon)
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
