package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/control"
	"selfheal/control/pca"
	"selfheal/harness/fit"
)

func fitCommand(g *globals) *cobra.Command {
	o, file, workers, sets, dry := fit.Options{}, "", 0, []string(nil), false
	c := &cobra.Command{
		Use:   "fit --control NAME",
		Short: "Fit the embedding functions of a control",
		Long: `Fits the embeddings that a control of the config asks for. Auto-encoders are trained on
the frozen networks: cross-entropy of the rest of the network on E(x) plus
weight·|E(x) − x|², with the data set, architecture, optimiser and schedule of the
config. The result is an ONNX file where the config's path says, with its origin in its
metadata, and its losses as CSV beside it; runs then use the file. A training that was
ended, by whatever, is continued by the same command; a finished one is left as it is.
Linear embeddings are fitted by PCA into the cache and written as ONNX beside the config,
or to --out.`,
		Example: `  selfheal fit --config my.yaml --control denoised
  selfheal fit --config my.yaml --control denoised --model mine --out embedding.onnx`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			switch err := needed(c, "control", o.Control, ", the name of a control of the config"); {
			case err != nil:
				return err
			case o.Seeds < 1:
				return usage("--seeds must be a whole number from 1 up, not %d", o.Seeds)
			case workers < 0:
				return usage("--workers must be a whole number from 0 up, not %d", workers)
			case o.Resume && g.rule.Force:
				return usage("--resume continues a training, --force starts anew: give one of them")
			}
			cfg, err := g.loadConfig(file, sets)
			if err != nil {
				return usage("%w", err)
			}
			if c.Flags().Changed("workers") {
				cfg.Runtime.Workers = workers
			}
			if err := g.runtime(c, cfg.Runtime); err != nil {
				return err
			}
			if dry {
				text, err := estimated(c, cfg, o.Control, "")
				if err == nil {
					_, err = fmt.Fprint(g.results(c), cmp.Or(text, "fit: nothing is left to be trained\n"))
				}
				return err
			}
			o.Cache = pca.UserCache()
			o.Progress = g.progress(c)
			g.reads(cfg.Inputs(false)...)
			o.Rule = g.rule
			fitted, err := fit.Fit(c.Context(), cfg, o)
			return cmp.Or(err, printFitted(g.results(c), fitted))
		},
	}
	to := flags{c}
	to.config(&file)
	to.text(&o.Control, "control", "", "a control of the config", g.ofConfig(controlNames, 0))
	to.texts(&o.Models, "model",
		"model to fit for; may be repeated (default: those that the embedding or the control's suites name)",
		g.ofConfig(modelNames, 0))
	to.output(&o.Out, "out", "", "file for the embedding (default: the config's path)", filesWith("onnx"))
	to.on(&dry, "dry-run", "train nothing, and say how long the trainings take that are not finished")
	to.on(&o.Resume, "resume", "continue: it is an error if this training is not there, begun or finished")
	to.on(new(bool), "force", "fit anew, and replace what other fits or others have left")
	to.whole(&o.Seeds, "seeds", 1, "how many seeds to fit each auto-encoder with, from its own up; the best is kept")
	to.whole(&workers, "workers", 0, "cores to use (default: the config's, 0: all)")
	to.sets(&sets, g, "controls.NAME.layers.0.embedding.epochs=5")
	to.quiet(g)
	to.logFormat(g)
	to.logEvery(g)
	return c
}

// judgement says how an embedding was judged by images held back from its training. If none were, it is the accuracy in
// training.
func judgement(f fit.Fitted) string {
	if f.Judged.Images == 0 {
		return fmt.Sprintf("%.1f %% in training, no images held back", 100*f.Accuracy)
	}
	return f.Judged.String()
}

func printFitted(to io.Writer, fitted []fit.Fitted) error {
	w := columns(to)
	for _, f := range fitted {
		took := fmt.Sprintf("%.1f s", f.Seconds)
		if f.Cached {
			took = "cached"
		}
		what := fmt.Sprintf("%s: rank %d of %d, %.2f %% of the variance, %s", cmp.Or(f.Path, "in the cache"),
			f.Rank, f.Dim, 100*f.Variance, took)
		switch {
		case f.Kept:
			what = f.Path + ", there already"
		case f.Kind == control.Autoencoder:
			what = fmt.Sprintf("%s: %d steps, cross-entropy %.4f, reconstruction %.4f, accuracy %s, %s",
				f.Path, f.Steps, f.CrossEntropy, f.Reconstruction, judgement(f), took)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.At, f.Kind, strings.Join(f.Models, ", "), what)
		for _, one := range f.Tried {
			how := "astray"
			if !one.Astray {
				how = one.Judged.String()
			}
			fmt.Fprintf(w, "\t\t\tseed %d: %s\n", one.Seed, how)
		}
	}
	return w.Flush()
}
