package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newCompletion(sh *shell) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "print a script with which a shell completes commands, contexts and methods",
		Long: "SHELL is bash, zsh, fish or powershell. To load it in every session:\n\n" +
			"  bash        tandem completion bash >~/.local/share/bash-completion/completions/tandem\n" +
			"  zsh         tandem completion zsh >\"${fpath[1]}/_tandem\"\n" +
			"  fish        tandem completion fish >~/.config/fish/completions/tandem.fish\n" +
			"  powershell  tandem completion powershell | Out-String | Invoke-Expression, in the profile",
		Example:           "tandem completion bash",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(sh.out, true)
			case "zsh":
				return root.GenZshCompletion(sh.out)
			case "fish":
				return root.GenFishCompletion(sh.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(sh.out)
			}
			hint := fmt.Sprintf("want one of %v", shells)
			if meant := similar(args[0], shells); meant != "" {
				hint = fmt.Sprintf("did you mean %s?", meant)
			}
			return usagef("shell %q: %s", args[0], hint)
		},
	}
}
