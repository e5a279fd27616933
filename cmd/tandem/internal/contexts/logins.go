package contexts

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/tandem-rpc/tandem/registry"
)

// Login is how the servers of a registry are reached.
type Login struct {
	User         string `json:"user,omitempty" yaml:"user,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty" yaml:"passwordFile,omitempty"`
	TokenFile    string `json:"tokenFile,omitempty" yaml:"tokenFile,omitempty"`
	TLS          *TLS   `json:"tls,omitempty" yaml:"tls,omitempty"` // nil for no TLS
}

// Access is a Login with its secrets.
type Access struct {
	User, Password, Token string
	TLS                   *tls.Config // nil for no TLS
}

// RegistryOf returns the key of a target's registry in [File.Registries]: the target without its path.
// The loopback addresses 127.0.0.1 and ::1 are localhost there.
func RegistryOf(t registry.Target) string {
	hosts := strings.Split(t.Authority, ",")
	for i, h := range hosts {
		host, port, err := net.SplitHostPort(h)
		if err == nil && (host == "127.0.0.1" || host == "::1") {
			hosts[i] = net.JoinHostPort("localhost", port)
		}
	}
	return t.Scheme + "://" + strings.Join(hosts, ",")
}

// LoginOf returns the login for the registry of a target, the zero value if there is none.
func LoginOf(t registry.Target) (Login, error) {
	name, err := Path()
	if err != nil {
		return Login{}, nil //nolint:nilerr // a user without a home has no logins
	}
	f, err := Load(name)
	if err != nil {
		return Login{}, err
	}
	return f.Registries[RegistryOf(t)], nil
}

// Access reads the secrets.
func (l *Login) Access() (a Access, err error) {
	a.User = l.User
	if a.Password, err = secret("password", l.PasswordFile); err != nil {
		return a, err
	}
	if a.Token, err = secret("token", l.TokenFile); err != nil {
		return a, err
	}
	if a.TLS, err = l.TLS.Config(); err != nil {
		return a, fmt.Errorf("TLS: %w", err)
	}
	return a, nil
}

// secret returns the text of a file without spaces around it; "" for no file.
func secret(what, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the %s: %w", what, err)
	}
	value := strings.TrimSpace(string(text))
	if value == "" {
		return "", errors.New("the " + what + " in " + file + " is empty")
	}
	return value, nil
}
