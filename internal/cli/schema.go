package cli

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/internal/lists"
	"selfheal/internal/suggest"
)

const schemaFile = "docs/schema/%s.schema.json"

// schemaNames lists the JSON Schemas of the files that selfheal reads and writes, sorted.
func (g *globals) schemaNames() []string {
	files, err := fs.Glob(g.files, fmt.Sprintf(schemaFile, "*"))
	if err != nil {
		panic(err) // the pattern is valid
	}
	return lists.Map(files, func(file string) string { return strings.TrimSuffix(path.Base(file), ".schema.json") })
}

func schemaCommand(g *globals) *cobra.Command {
	names := strings.Join(g.schemaNames(), ", ")
	return &cobra.Command{
		Use:   "schema NAME",
		Short: "Print the JSON Schema of the config or of a result file",
		Long: `Prints a JSON Schema (draft 2020-12) for editors and for programs that read what
selfheal writes. NAME is one of ` + names + `;
records is of one line of records.jsonl.`,
		Example: `  selfheal schema config > config.schema.json
  # then, as the config's first line, for editors with yaml-language-server:
  # yaml-language-server: $schema=config.schema.json`,
		Args:      exactly(1, "the name of a schema"),
		ValidArgs: g.schemaNames(),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(g.schemaNames(), args[0]) {
				return usage("there is no schema %q%s", args[0], suggest.Or(args[0], "schemas", g.schemaNames()))
			}
			text, err := fs.ReadFile(g.files, fmt.Sprintf(schemaFile, args[0]))
			if err == nil {
				_, err = c.OutOrStdout().Write(text)
			}
			return err
		},
	}
}
