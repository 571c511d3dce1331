package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"selfheal/harness/result"
	"selfheal/reports"
)

func reportCommand() *cobra.Command {
	var out string
	var published bool
	c := &cobra.Command{
		Use:   "report DIR --out OUT",
		Short: "Render the reports of a run again, or the paper's numbers",
		Long: `Render the reports of a run again. With --published nothing is read: the paper's own
tables and radar plots are rendered from the numbers that it prints.`,
		Example: "  selfheal report results --out rendered\n  selfheal report --published --out paper",
		Args: func(c *cobra.Command, args []string) error {
			if published && len(args) > 0 {
				return usage("report --published takes no folder, got %s; see %s --help", args[0], c.CommandPath())
			}
			if published {
				return nil
			}
			return exactly(1, "the folder of one run")(c, args)
		},
		ValidArgsFunction: folders,
		RunE: func(c *cobra.Command, args []string) error {
			if err := needed(c, "out", out, ""); err != nil {
				return err
			}
			write := reports.WritePublished
			if !published {
				file, err := readResults(args[0])
				if err != nil {
					return err
				}
				write = func(dir string) error { return render(c.Context(), dir, file, args[0]) }
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if err := write(out); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "report: %s\n", filepath.Join(out, "report.html"))
			return err
		},
	}
	flags{c}.text(&out, "out", "", "folder for the reports", folders)
	flags{c}.on(&published, "published", "render the paper's own tables and radar plots; runs nothing")
	return c
}

// render writes the reports of a run to dir, with the records of a folder.
func render(ctx context.Context, dir string, file *result.File, from string) error {
	theory, err := theoryOf(ctx, file)
	records, unreadable := recordsOf(from)
	werr := reports.Write(dir, file, records, theory)
	if rerr := unreadable(); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		return rerr
	}
	return cmp.Or(werr, err)
}

// recordsOf reads a run's records.jsonl as it is walked through. It also returns the error that ended the
// walk.
func recordsOf(dir string) (records iter.Seq[result.Record], failed func() error) {
	var ended error
	return func(yield func(result.Record) bool) {
		for r, err := range result.Records(filepath.Join(dir, "records.jsonl")) {
			if ended = err; err != nil || !yield(r) {
				return
			}
		}
	}, func() error { return ended }
}

// resultsOf reads a run's results.json.
func resultsOf(dir string) (*result.File, error) {
	file, err := result.Read(filepath.Join(dir, "results.json"))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s holds no results.json; run `selfheal run --out %s` first", dir, dir)
	}
	return file, err
}

// readResults reads what a run has left in dir, but for its records, which it checks. Records and
// gallery may be absent.
func readResults(dir string) (*result.File, error) {
	file, err := resultsOf(dir)
	if err != nil {
		return nil, usage("%w", err)
	}
	records, unreadable := recordsOf(dir)
	err = file.CheckRecords(records)
	switch cause := unreadable(); {
	case cause != nil && !errors.Is(cause, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; remove the file to report without its records, or run again", cause)
	case cause == nil && err != nil:
		return nil, fmt.Errorf("%s: its records.jsonl is not of its results.json; run again: %w", dir, err)
	}
	if file.Gallery, err = result.ReadGallery(filepath.Join(dir, "gallery.json")); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if g := file.Gallery; g != nil && g.ConfigSHA256 != file.ConfigSHA256 {
		return nil, fmt.Errorf("%s is of another run than the results.json beside it; remove it or run again",
			filepath.Join(dir, "gallery.json"))
	}
	return file, nil
}
