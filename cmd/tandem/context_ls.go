package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/registry"
)

func newContextLs(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Short:   "list the contexts",
		Example: "tandem context ls",
		Args:    wantArgs(0, 0),
	}
	p := outputFlag(sh, cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		_, file, err := loadContexts()
		if err != nil {
			return err
		}
		return p.Print(contextList(file))
	}
	return cmd
}

// contextsOf is what tandem context ls prints. Its fields are documented in docs/reference/cli.md.
type contextsOf struct {
	Current  string         `json:"current"`
	Contexts []namedContext `json:"contexts"`
}

type namedContext struct {
	Name string `json:"name"`
	contexts.Context
}

func contextList(file *contexts.File) *listing.List {
	value := contextsOf{file.Current, []namedContext{}}
	list := &listing.List{Columns: []listing.Column{{Name: "CURRENT"}, {Name: "NAME"}, {Name: "TARGET"}, {Name: "TLS"}, {Name: "TOKEN"}, {Name: "CA", Wide: true}, {Name: "CERT", Wide: true}}}
	for _, name := range slices.Sorted(maps.Keys(file.Contexts)) {
		c := file.Contexts[name]
		c.Target = registry.Redact(c.Target)
		value.Contexts = append(value.Contexts, namedContext{name, c})
		current, ca, cert := "", "", ""
		if name == file.Current {
			current = "*"
		}
		if c.TLS != nil {
			ca, cert = c.TLS.CA, c.TLS.Cert
		}
		token := cmp.Or(c.TokenFile, strings.Join(c.TokenCommand, " "))
		list.Rows = append(list.Rows, []string{current, name, c.Target, c.TLS.Kind(), token, ca, cert})
	}
	list.Value = value
	return list
}
