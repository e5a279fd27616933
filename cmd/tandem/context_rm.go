package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newContextRm(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:               "rm NAME",
		Short:             "remove a context",
		Example:           "tandem context rm staging",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: complete(false, false, contextNames),
		RunE: func(_ *cobra.Command, args []string) error {
			path, file, err := loadContexts()
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(args[0], "@")
			if _, known := file.Contexts[name]; !known {
				return usagef("no context %q: tandem context ls lists them", name)
			}
			delete(file.Contexts, name)
			if file.Current == name {
				file.Current = ""
			}
			if err := file.Save(path); err != nil {
				return err
			}
			fmt.Fprintf(sh.out, "@%s is removed\n", name)
			return nil
		},
	}
}
