package cli

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"selfheal/harness"
	"selfheal/internal/atomicfile"
)

// manCommand is for packagers and therefore hidden. Pages carry the date of SOURCE_DATE_EPOCH, by default today's.
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
			c.Root().DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "selfheal " + harness.Version, Manual: "selfheal"}
			return manual(c.Root(), header, g.rule.In(args[0], "manual page"))
		},
		Annotations: map[string]string{outputPath: ""},
	}
	flags{c}.force()
	return c
}

// manual writes the pages of a command and its subcommands, all or none.
func manual(c *cobra.Command, header *doc.GenManHeader, to atomicfile.Output) error {
	pages := map[string][]byte{}
	if err := addPages(c, header, pages); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(pages))
	if err := to.May(names...); err != nil {
		return err
	}
	if err := atomicfile.In(to.Dir).Make("."); err != nil {
		return usage("%s: %w", to.Dir, err)
	}
	for _, name := range names {
		if err := to.Write(name, pages[name]); err != nil {
			return usage("%w", err)
		}
	}
	return nil
}

// addPages adds the pages of a command and its subcommands, by the names of their files.
func addPages(c *cobra.Command, header *doc.GenManHeader, pages map[string][]byte) error {
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
			if err := addPages(below, header, pages); err != nil {
				return err
			}
		}
	}
	if list, ok := c.Annotations[helpList]; ok {
		c.Long += "\n\n" + list
	}
	own := *header
	var page bytes.Buffer
	err := doc.GenMan(c, &own, &page)
	pages[strings.ReplaceAll(c.CommandPath(), " ", "-")+"."+own.Section] = page.Bytes()
	return err
}
