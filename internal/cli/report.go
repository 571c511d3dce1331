package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/spf13/cobra"

	"selfheal/harness/folder"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/harness/shard"
	"selfheal/internal/atomicfile"
	"selfheal/reports"
)

func reportCommand(g *globals) *cobra.Command {
	var out string
	var published bool
	var latex latexFlags
	c := &cobra.Command{
		Use:   "report DIR… --out OUT",
		Short: "Render the reports of a run again, merge shards, or render the paper's numbers",
		Long: `Render the reports of a run again. Folders of shards (selfheal run --shard), or folders that
hold them, are merged first: --out then holds the results of the whole run. Nothing but
these folders is read. With --published the paper's own tables and radar plots are rendered
from the numbers that it prints; with folders of runs, each pair of numbers beside what
these runs have for it. With --latex one table is printed for a paper, with a caption and a
label of yours.`,
		Example: "  selfheal report results --out rendered\n" +
			"  selfheal report part1 part2 part3 --out results    # the folders of three shards\n" +
			"  selfheal report results --latex accuracy --caption 'Ours.' --label tab:ours > ours.tex\n" +
			"  selfheal report --published --out paper\n" +
			"  selfheal report docs/paper/rn-18/{standard,robust} --published --out paper",
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case !published && len(args) == 0:
				return exactly(1, "the folder of a run, or those of its shards")(c, args)
			}
			return nil
		},
		ValidArgsFunction: folders,
		RunE: func(c *cobra.Command, args []string) error {
			if latex.Table != "" {
				return latex.report(c, args)
			}
			if err := needed(c, "out", out, ""); err != nil {
				return err
			}
			var err error
			if published {
				err = reportPublished(g, args, out)
			} else {
				err = report(c, g, args, out)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "report: %s\n", filepath.Join(out, "report.html"))
			return err
		},
	}
	flags{c}.output(&out, "out", "", "folder for the reports", folders)
	flags{c}.on(&published, "published",
		"render the paper's own tables and radar plots, beside the runs of the folders; runs nothing")
	flags{c}.on(new(bool), "force", "replace files that selfheal did not write, or that somebody changed since, and, "+
		"when shards are merged, another run")
	latex.add(flags{c}, "out", "published", "force")
	return c
}

// reportPublished renders the paper's numbers, and those of runs beside them.
func reportPublished(g *globals, dirs []string, out string) error {
	var runs []*result.File
	for _, dir := range dirs {
		file, err := readResults(dir)
		if err != nil {
			return err
		}
		runs = append(runs, file)
	}
	return reports.WritePublished(g.reportTo(out), runs...)
}

// latexFlags choose a table for LaTeX: --latex, --caption and --label.
type latexFlags struct{ reports.TeXChoice }

// add adds the flags; the others named have no use beside them.
func (f *latexFlags) add(c flags, others ...string) {
	c.text(&f.Table, "latex", "", "print one table in LaTeX (booktabs) and no more: accuracy, evidence, rank, … "+
		"as its label in tables.tex or compare.tex begins or ends", nil)
	c.text(&f.Caption, "caption", "", "its caption, in LaTeX (default: the report's)", nil)
	c.text(&f.Label, "label", "", "its label (default: tab:SUITE-TABLE-1)", nil)
	c.only(beside("latex"), "caption", "label")
	c.only(without("latex"), others...)
}

// report prints a table of a run's results.
func (f *latexFlags) report(c *cobra.Command, dirs []string) error {
	if len(dirs) > 1 {
		return usage("--latex takes the results of one run; merge shards first, by selfheal report %s … --out DIR",
			dirs[0])
	}
	file, err := readResults(dirs[0])
	if err != nil {
		return err
	}
	records, unreadable := recordsOf(dirs[0])
	text, err := reports.LaTeX(file, records, f.TeXChoice)
	if cause := unreadable(); cause != nil && !errors.Is(cause, fs.ErrNotExist) {
		return cause
	}
	return f.print(c, text, err)
}

func (f *latexFlags) print(c *cobra.Command, text string, err error) error {
	if err != nil {
		return usage("--latex %s: %w", f.Table, err)
	}
	_, err = fmt.Fprint(c.OutOrStdout(), text)
	return err
}

// reportTo returns the output for the reports of a run.
func (g *globals) reportTo(dir string) atomicfile.Output {
	to := g.rule.In(dir, folder.Kind)
	to.Beside = "results.json"
	return to
}

// report renders the reports of a run, or of its merged shards.
func report(c *cobra.Command, g *globals, dirs []string, out string) error {
	var shards []string
	for _, dir := range dirs {
		found := shard.Find(dir)
		if len(found) == 0 && len(dirs) > 1 {
			return usage("%s holds no shards: several folders are merged, those of the shards of one run; selfheal "+
				"compare puts several runs beside each other", dir)
		}
		shards = append(shards, found...)
	}
	if len(shards) > 0 {
		_, err := shard.Merge(c.Context(), shards, run.Options{Out: out, Rule: g.rule, Progress: g.progress(c),
			Report: g.render(c, out, out)})
		return err
	}
	file, err := readResults(dirs[0])
	if err != nil {
		return err
	}
	return g.render(c, dirs[0], out)(file)
}

// render returns a function that writes the reports of a run, with the records in a folder, to another or the same.
func (g *globals) render(c *cobra.Command, from, to string) func(*result.File) error {
	return func(file *result.File) error {
		theory, err := theoryOf(c.Context(), file)
		records, unreadable := recordsOf(from)
		werr := reports.Write(g.reportTo(to), file, records, theory)
		if rerr := unreadable(); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			return rerr
		}
		return cmp.Or(werr, err)
	}
}

// recordsOf reads a run's records.jsonl lazily. failed returns the error that ended the reading.
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

// readResults reads and checks the results of a run in dir. It checks the records too but does not return them. Records
// and gallery may be absent.
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
