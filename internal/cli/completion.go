package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
			if !slices.Contains(shells, args[0]) {
				return usage("there is no completion for %q; shells: %s", args[0], strings.Join(shells, ", "))
			}
			return writeCompletion(c.Root(), args[0], c.OutOrStdout(), !plain)
		},
	}
	flags{c}.on(&plain, "no-descriptions", "words alone, without what they mean")
	return c
}

func writeCompletion(root *cobra.Command, shell string, out io.Writer, descriptions bool) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(out, descriptions)
	case "zsh":
		if descriptions {
			return root.GenZshCompletion(out)
		}
		return root.GenZshCompletionNoDesc(out)
	case "fish":
		return root.GenFishCompletion(out, descriptions)
	}
	if descriptions {
		return root.GenPowerShellCompletionWithDesc(out)
	}
	return root.GenPowerShellCompletion(out)
}
