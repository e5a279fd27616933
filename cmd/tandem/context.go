package main

import "github.com/spf13/cobra"

func newContext(sh *shell) *cobra.Command {
	return group("context COMMAND", "keep targets under names, with TLS and tokens: @NAME stands for them",
		newContextSet(sh), newContextLs(sh), newContextUse(sh), newContextRm(sh))
}
