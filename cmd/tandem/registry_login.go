package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/registry"
)

func newRegistryLogin(sh *shell) *cobra.Command {
	var l contexts.Login
	var secure contexts.TLS
	var system bool
	cmd := &cobra.Command{
		Use:   "login [flags] TARGET",
		Short: "keep how a registry is reached: a user, a token, TLS",
		Long: "All commands, and those that they start, use it for targets with the same registry: the same scheme\n" +
			"and servers, whatever the path. It replaces an earlier login there. The file refers to passwords, tokens,\n" +
			"certificates and keys; they stay where they are. Connections to the instances are not affected.",
		Example: "tandem registry login etcd://h1:2379 --user ann --password-file ~/.etcd --tls-ca ca.pem",
		Args:    wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if system || secure != (contexts.TLS{}) {
				l.TLS = &secure
			}
			return login(sh, args[0], &l)
		},
	}
	set := cmd.Flags()
	set.StringVar(&l.User, "user", "", "`name` of the user")
	set.StringVar(&l.PasswordFile, "password-file", "", "`file` with the password")
	set.StringVar(&l.TokenFile, "token-file", "", "`file` with a token, which Consul wants in place of a user")
	set.BoolVar(&system, "tls", false, "use TLS, and trust the system's authorities")
	set.StringVar(&secure.CA, "tls-ca", "", "use TLS, and trust the authorities in this `file`")
	set.StringVar(&secure.Cert, "tls-cert", "", "`file` with the client's certificate")
	set.StringVar(&secure.Key, "tls-key", "", "`file` with its key")
	set.StringVar(&secure.Name, "tls-name", "", "`name` in the servers' certificate, if it is not the host")
	return cmd
}

// login keeps a login for the registry of a target.
func login(sh *shell, target string, l *contexts.Login) error {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return usagef("%v", err)
	}
	if err := checkLogin(t.Scheme, l); err != nil {
		return err
	}
	if err := absolutePaths(l.TLS, &l.PasswordFile, &l.TokenFile); err != nil {
		return err
	}
	if _, err := l.Access(); err != nil {
		return usagef("%v", err)
	}
	path, file, err := loadContexts()
	if err != nil {
		return err
	}
	if file.Registries == nil {
		file.Registries = map[string]contexts.Login{}
	}
	key := contexts.RegistryOf(t)
	file.Registries[key] = *l
	if err := file.Save(path); err != nil {
		return err
	}
	fmt.Fprintf(sh.out, "kept for %s; the next command with such a target tries it\n", key)
	return nil
}

// checkLogin returns an error for a login that the registry can't use.
func checkLogin(scheme string, l *contexts.Login) error {
	kind, known := registryKinds()[scheme]
	switch {
	case !known || kind.secrets == noSecrets:
		return usagef("a target of %s:// has no servers to log in at", scheme)
	case kind.secrets == password && l.TokenFile != "":
		return usagef("%s wants a user and a password: --user, --password-file", scheme)
	case kind.secrets == token && (l.User != "" || l.PasswordFile != ""):
		return usagef("%s wants a token: --token-file", scheme)
	case l.User == "" && l.PasswordFile == "" && l.TokenFile == "" && l.TLS == nil:
		return usagef("want a user, a token or TLS: see tandem registry login --help")
	}
	return nil
}
