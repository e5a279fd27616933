package main

import (
	"cmp"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

func newRegistryLogins(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "logins [flags]",
		Short:   "list how registries are reached",
		Example: "tandem registry logins",
		Args:    wantArgs(0, 0),
	}
	p := outputFlag(sh, cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		_, file, err := loadContexts()
		if err != nil {
			return err
		}
		return p.Print(loginList(file))
	}
	return cmd
}

// namedLogin is a part of what tandem registry logins prints. Its fields are documented in
// docs/reference/cli.md.
type namedLogin struct {
	Registry string `json:"registry"`
	contexts.Login
}

func loginList(file *contexts.File) *listing.List {
	value := []namedLogin{}
	list := &listing.List{Columns: []listing.Column{{Name: "REGISTRY"}, {Name: "USER"}, {Name: "TLS"}, {Name: "SECRET"}}}
	for _, key := range slices.Sorted(maps.Keys(file.Registries)) {
		l := file.Registries[key]
		value = append(value, namedLogin{key, l})
		list.Rows = append(list.Rows, []string{key, l.User, l.TLS.Kind(), cmp.Or(l.PasswordFile, l.TokenFile)})
	}
	list.Value = value
	return list
}
