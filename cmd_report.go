package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"selfheal/harness/result"
	"selfheal/reports"
)

func reportCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:     "report DIR --out OUT",
		Short:   "Render the reports of a run again",
		Example: "  selfheal report results --out rendered",
		Args:    exactly(1, "the folder of one run"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usageError{errors.New("report needs --out")}
			}
			file, err := result.Read(filepath.Join(args[0], "results.json"))
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					err = fmt.Errorf("%s holds no results.json; run `selfheal run --out %s` first", args[0], args[0])
				}
				return usageError{err}
			}
			records, err := result.ReadRecords(filepath.Join(args[0], "records.jsonl"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if err := reports.Write(out, file, slices.Values(records)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "report: %s\n", filepath.Join(out, "report.html"))
			return err
		},
	}
	c.Flags().StringVar(&out, "out", "", "folder for the reports")
	return c
}
