package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/internal/suggest"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionCommand() *cobra.Command {
	var plain bool
	c := &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes selfheal's commands, flags and names in a shell",
		Long: `Prints the script for ` + strings.Join(shells, ", ") + `. It completes commands and
flags, files of the right kind, and what the config of --config defines: suites,
models, controls, attacks and data sets.`,
		Example: `  source <(selfheal completion bash)                    # this shell; needs bash-completion
  selfheal completion bash > ~/.local/share/bash-completion/completions/selfheal
  selfheal completion zsh > "${fpath[1]}/_selfheal"     # then: autoload -U compinit; compinit
  selfheal completion fish > ~/.config/fish/completions/selfheal.fish
  selfheal completion powershell | Out-String | Invoke-Expression`,
		Args:      exactly(1, "the name of a shell"),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			write := map[string]func(io.Writer) error{
				"bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, !plain) },
				"fish": func(w io.Writer) error { return root.GenFishCompletion(w, !plain) },
				"zsh":  root.GenZshCompletion, "powershell": root.GenPowerShellCompletionWithDesc,
			}
			if plain {
				write["zsh"], write["powershell"] = root.GenZshCompletionNoDesc, root.GenPowerShellCompletion
			}
			if write[args[0]] == nil {
				return usage("there is no completion for %q%s", args[0], suggest.Or(args[0], "shells", shells))
			}
			return write[args[0]](c.OutOrStdout())
		},
	}
	flags{c}.on(&plain, "no-descriptions", "words alone, without what they mean")
	return c
}
