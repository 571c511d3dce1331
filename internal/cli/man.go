package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"selfheal/harness"
	"selfheal/internal/atomicfile"
)

// manCommand is for who makes packages, and so hidden. Pages bear the date of SOURCE_DATE_EPOCH, by default today's.
func manCommand(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual's pages, one a command, for packages to install",
		Hidden: true,
		Example: `  selfheal man man1
  SOURCE_DATE_EPOCH=0 selfheal man man1   # the same bytes each time`,
		Args:              exactly(1, "a folder"),
		ValidArgsFunction: once(folders),
		RunE: func(c *cobra.Command, args []string) error {
			if err := atomicfile.In(args[0]).Make("."); err != nil {
				return usage("%s: %w", args[0], err)
			}
			to := g.rule.In(args[0], "manual page")
			c.Root().DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "selfheal " + harness.Version, Manual: "selfheal"}
			return manual(c.Root(), header, to)
		},
		Annotations: map[string]string{outputPath: ""},
	}
	flags{c}.force()
	return c
}

// manual writes the pages of a command and of those below it.
func manual(c *cobra.Command, header *doc.GenManHeader, dir atomicfile.Output) error {
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
			if err := manual(below, header, dir); err != nil {
				return err
			}
		}
	}
	if list, ok := c.Annotations[helpList]; ok {
		c.Long += "\n\n" + list
	}
	own := *header
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + "." + own.Section
	err := dir.Fill(name, func(w io.Writer) error { return doc.GenMan(c, &own, w) })
	if err != nil {
		return usage("%w", err)
	}
	return nil
}
