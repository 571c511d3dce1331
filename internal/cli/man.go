package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"selfheal/harness"
)

// manCommand is for who makes packages, and so hidden. Pages bear the date of SOURCE_DATE_EPOCH, by default today's.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual's pages, one a command, for packages to install",
		Hidden: true,
		Example: `  selfheal man man1
  SOURCE_DATE_EPOCH=0 selfheal man man1   # the same bytes each time`,
		Args:              exactly(1, "a folder"),
		ValidArgsFunction: once(folders),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return usage("%w", err)
			}
			c.Root().DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "selfheal " + harness.Version, Manual: "selfheal"}
			return doc.GenManTree(c.Root(), header, args[0])
		},
	}
}
