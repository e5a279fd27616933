package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/registry"
)

func newRegistryLogout(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "logout TARGET",
		Short:   "forget how a registry is reached",
		Example: "tandem registry logout etcd://h1:2379",
		Args:    wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := registry.ParseTarget(args[0])
			if err != nil {
				return usagef("%v", err)
			}
			path, file, err := loadContexts()
			if err != nil {
				return err
			}
			key := contexts.RegistryOf(t)
			if _, known := file.Registries[key]; !known {
				return usagef("there is no login at %s; tandem registry logins lists them", key)
			}
			delete(file.Registries, key)
			if err := file.Save(path); err != nil {
				return err
			}
			fmt.Fprintln(sh.out, "forgotten:", key)
			return nil
		},
	}
}
