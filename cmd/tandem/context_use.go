package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newContextUse(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "make a context the current one, which @ alone stands for",
		Example:           "tandem context use prod",
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
			file.Current = name
			if err := file.Save(path); err != nil {
				return err
			}
			fmt.Fprintf(sh.out, "@ is @%s\n", name)
			return nil
		},
	}
}
