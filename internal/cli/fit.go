package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"selfheal/control/pca"
	"selfheal/harness"
	"selfheal/harness/config"
)

func fitCommand(g *globals) *cobra.Command {
	o, file, quiet, sets := harness.FitOptions{}, "", false, []string(nil)
	c := &cobra.Command{
		Use:   "fit --control NAME",
		Short: "Fit the embedding functions of a control",
		Long: `Fits the embeddings that a control of the config asks for. Auto-encoders are trained on
the frozen networks: cross-entropy of the rest of the network on E(x) plus
weight·|E(x) − x|², with the data set, architecture, optimiser and schedule of the
config. The result is an ONNX file where the config's path says, with its origin in its
metadata, and its losses as CSV beside it; runs then use the file. Linear embeddings are fitted
by PCA into the cache and written as ONNX beside the config, or to --out. Ctrl-C leaves a checkpoint that --resume continues from.`,
		Example: `  selfheal fit --config my.yaml --control denoised
  selfheal fit --config my.yaml --control denoised --resume
  selfheal fit --config my.yaml --control denoised --model mine --out embedding.onnx`,
		Args: exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Control == "" {
				return usageError{errors.New("fit needs --control, the name of a control of the config")}
			}
			if o.Workers < 0 {
				return usageError{errors.New("--workers can't be negative")}
			}
			if o.Resume && o.Force {
				return usageError{errors.New("fit takes --resume or --force, not both")}
			}
			cfg, err := g.loadConfig(file, sets)
			if err != nil {
				return usageError{err}
			}
			if err := g.runtime(c); err != nil {
				return err
			}
			o.Cache = pca.UserCache()
			o.Progress = harness.NewProgress(c.ErrOrStderr(), quiet)
			if c.Flags().Changed("workers") {
				cfg.Runtime.Workers = o.Workers
			}
			o.Workers = cfg.Runtime.Workers
			fitted, err := harness.Fit(c.Context(), cfg, o)
			if perr := printFitted(c, fitted); err == nil {
				err = perr
			}
			return asUsage(err)
		},
	}
	c.Flags().StringVar(&file, "config", "", "config file (default: ./config.yaml, else the bundled one)")
	c.Flags().StringVar(&o.Control, "control", "", "a control of the config")
	c.Flags().StringArrayVar(&o.Models, "model", nil, "model to fit for; may be repeated (default: those that the embedding or the control's suites name)")
	c.Flags().StringVar(&o.Out, "out", "", "file for the embedding (default: the config's path)")
	c.Flags().BoolVar(&o.Resume, "resume", false, "continue a training that was stopped")
	c.Flags().BoolVar(&o.Force, "force", false, "fit anew what was fitted or begun")
	c.Flags().IntVar(&o.Workers, "workers", 0, "cores to use (default: the config's, 0: all)")
	c.Flags().StringArrayVar(&sets, "set", nil, "change the config: controls.NAME.layers.0.embedding.epochs=5; may be repeated")
	c.Flags().BoolVar(&quiet, "quiet", false, "no progress")
	return c
}

func printFitted(c *cobra.Command, fitted []harness.Fitted) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, f := range fitted {
		what := fmt.Sprintf("%s: rank %d of %d, %.2f %% of the variance, %.1f s", cmp.Or(f.Path, "in the cache"), f.Rank, f.Dim, 100*f.Variance, f.Seconds)
		switch {
		case f.Kept:
			what = f.Path + ", there already"
		case f.Kind == config.Autoencoder:
			what = fmt.Sprintf("%s: %d steps, cross-entropy %.4f, reconstruction %.4f, accuracy %.1f %%, %.1f s",
				f.Path, f.Steps, f.CrossEntropy, f.Reconstruction, 100*f.Accuracy, f.Seconds)
		case f.Cached:
			what = fmt.Sprintf("%s: rank %d of %d, %.2f %% of the variance, cached", cmp.Or(f.Path, "in the cache"), f.Rank, f.Dim, 100*f.Variance)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.At, f.Kind, strings.Join(f.Models, ", "), what)
	}
	return w.Flush()
}
