package cli

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
)

const schemaSuffix = ".schema.json"

// schemaNames lists the JSON Schemas of the files that selfheal reads and writes, sorted.
func (g *globals) schemaNames() []string {
	entries, err := fs.ReadDir(g.files, "docs/schema")
	if err != nil {
		panic("the schemas are not built in: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), schemaSuffix); ok {
			names = append(names, name)
		}
	}
	return names
}

// readSchema returns the text of a schema that schemaNames lists.
func (g *globals) readSchema(name string) []byte {
	if name == "config" {
		return config.Schema()
	}
	data, err := fs.ReadFile(g.files, "docs/schema/"+name+schemaSuffix)
	if err != nil {
		panic("the schemas are not built in: " + err.Error())
	}
	return data
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
				return usage("there is no schema %q; schemas: %s", args[0], names)
			}
			_, err := c.OutOrStdout().Write(g.readSchema(args[0]))
			return err
		},
	}
}
