package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/registry"
)

func newContextSet(sh *shell) *cobra.Command {
	var access accessFlags
	cmd := &cobra.Command{
		Use:   "set [flags] NAME",
		Short: "add a context, or change what the flags name of it",
		Long: "TLS and tokens are for the servers that are called; tandem registry login is for those of registries.\n" +
			"The file refers to certificates, keys and tokens; they stay where they are.",
		Example: "tandem context set prod --target etcd://h1:2379/shop --tls-ca ca.pem --token-file ~/.token",
		Args:    wantArgs(1, 1),
	}
	target := cmd.Flags().String("target", "", "what @NAME stands for; @NAME/Cart is that with /Cart appended")
	access.add(cmd)
	cmd.ValidArgsFunction = complete(false, false, contextNames)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		return setContext(sh, args[0], *target, &access)
	}
	return cmd
}

func setContext(sh *shell, name, target string, access *accessFlags) error {
	if err := contexts.CheckName(name); err != nil {
		return usagef("%v", err)
	}
	path, file, err := loadContexts()
	if err != nil {
		return err
	}
	c := access.over(file.Contexts[name])
	if target != "" {
		c.Target = target
	}
	if c.Target == "" {
		return usagef("context %q is new: want --target", name)
	}
	if _, err := (&place{target: c.Target}).parse(); err != nil {
		return usagef("--target: %v", err)
	}
	if err := absolute(&c); err != nil {
		return err
	}
	if _, err := c.TLS.Config(); err != nil {
		return usagef("TLS: %v", err)
	}
	file.Contexts[name] = c
	if file.Current == "" {
		file.Current = name
	}
	if err := file.Save(path); err != nil {
		return err
	}
	fmt.Fprintf(sh.out, "@%s is %s\n", name, registry.Redact(c.Target))
	return nil
}
