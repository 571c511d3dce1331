package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"selfheal/harness/compare"
	"selfheal/harness/folder"
	"selfheal/harness/result"
	"selfheal/harness/shard"
	"selfheal/internal/fault"
	"selfheal/internal/terminal"
	"selfheal/reports"
)

func compareCommand(g *globals) *cobra.Command {
	var out string
	var asJSON bool
	var latex latexFlags
	c := &cobra.Command{
		Use:   "compare DIR…",
		Short: "Put many runs beside each other: ranked, tested on shared images, over time",
		Long: `Ranks the models of many runs, each without and with its controls, in one table with a column
for each attack; tests any two on the images that both have (exact McNemar tests, corrected
by Holm's method); and follows over time what several runs have tested. A folder that holds
no results.json but folders of runs stands for these. Runs that are not finished take part
with what they have. With --out the same is a page, compare.html, with figures; compare.md,
compare.tex and compare.json lie beside it. docs/compare.md says how it compares.`,
		Example: `  selfheal compare results-a results-b --out comparison
  selfheal compare nightly/        # a folder of runs: what CI keeps
  selfheal compare a b --latex rank --label tab:ranks > ranks.tex
  selfheal compare --json a b c | jq '.groups[].entries[] | [.rank, .model, .defense]'`,
		Args:              atLeastOne("the folders of one run or more, or one that holds them"),
		ValidArgsFunction: folders,
		RunE: func(c *cobra.Command, args []string) error {
			runs, err := openRuns(args)
			if err != nil {
				return usage("%w", err)
			}
			of, err := compare.Of(runs)
			if err != nil {
				return usage("%w", err)
			}
			if latex.Table != "" {
				text, err := reports.CompareLaTeX(of, latex.TeXChoice)
				return latex.print(c, text, err)
			}
			if out != "" {
				to := g.rule.In(out, "comparison")
				to.Beside = "compare.json"
				if err := reports.WriteCompare(to, of); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(c, of)
			}
			w := g.results(c)
			err = reports.WriteCompareTables(w, of, terminal.Is(c.OutOrStdout()))
			if err == nil && out != "" {
				_, err = fmt.Fprintf(w, "\nreport: %s\n", filepath.Join(out, "compare.html"))
			}
			return err
		},
	}
	to := flags{c}
	to.output(&out, "out", "",
		"folder for compare.html, .md, .tex, .json and figures (default: none are written)", folders)
	to.on(&asJSON, "json", "print JSON instead of the tables")
	to.force()
	to.quiet(g)
	to.only(beside("out"), "force")
	to.only(without("json"), "quiet")
	latex.add(to, "out", "json", "quiet")
	return c
}

// openRuns reads the results of runs. A folder without results stands for the runs in its subfolders.
func openRuns(dirs []string) (runs []compare.Run, err error) {
	var infos []fs.FileInfo
	add := func(dir string, run compare.Run) error {
		info, err := os.Stat(dir)
		if err == nil {
			run.Path, err = filepath.Abs(dir)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", dir, fault.Reason(err))
		}
		for i, other := range infos {
			if os.SameFile(info, other) {
				return fmt.Errorf("%s and %s are one folder: give it once", runs[i].Folder, dir)
			}
		}
		run.Folder = dir
		runs, infos = append(runs, run), append(infos, info)
		return nil
	}
	for _, dir := range dirs {
		run, err := openRun(dir)
		if err == nil {
			err = add(dir, run)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = inside(dir, add)
		}
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// inside adds the runs in a folder's subfolders; it returns an error if there are none.
func inside(dir string, add func(string, compare.Run) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, fault.Reason(err))
	}
	found := false
	for _, e := range entries {
		run, err := openRun(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err = cmp.Or(err, add(filepath.Join(dir, e.Name()), run)); err != nil {
			return err
		}
		found = true
	}
	if !found && len(shard.Find(dir)) > 0 {
		return fmt.Errorf("%s holds shards of a run: merge them first by selfheal report %s --out DIR", dir, dir)
	}
	if !found {
		return fmt.Errorf("%s holds no results.json, nor do the folders in it; run `selfheal run --out %s` first", dir,
			dir)
	}
	return nil
}

// openRun reads the results of a run in a folder, even of one that is unfinished.
func openRun(dir string) (run compare.Run, err error) {
	for _, place := range []string{dir, folder.SoFar(dir)} {
		if run.File, err = result.Read(filepath.Join(place, "results.json")); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	run.Unfinished = err == nil && run.File.Finished == nil
	return run, err
}
