package kubernetes

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kubeconfig is what is read of a kubeconfig file, and what is refused if it is there.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string        `yaml:"name"`
		Cluster configCluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string     `yaml:"name"`
		User configUser `yaml:"user"`
	} `yaml:"users"`
}

type configCluster struct {
	Server        string `yaml:"server"`
	CAFile        string `yaml:"certificate-authority"`
	CAData        string `yaml:"certificate-authority-data"`
	TLSServerName string `yaml:"tls-server-name"`

	Insecure bool   `yaml:"insecure-skip-tls-verify"` // refused
	ProxyURL string `yaml:"proxy-url"`                // refused
}

type configUser struct {
	Token           string `yaml:"token"`
	TokenFile       string `yaml:"tokenFile"` // goes before Token
	CertificateFile string `yaml:"client-certificate"`
	CertificateData string `yaml:"client-certificate-data"`
	KeyFile         string `yaml:"client-key"`
	KeyData         string `yaml:"client-key-data"`

	// Refused.
	Username     string     `yaml:"username"`
	Password     string     `yaml:"password"`
	Exec         *yaml.Node `yaml:"exec"`
	AuthProvider *yaml.Node `yaml:"auth-provider"`
	As           string     `yaml:"as"`
	AsUID        string     `yaml:"as-uid"`
	AsGroups     []string   `yaml:"as-groups"`
}

// readKubeconfig returns the access of the current context of a file.
func readKubeconfig(path string) (access, error) {
	text, err := readFile(path)
	if err != nil {
		return access{}, err
	}
	return parseKubeconfig([]byte(text), filepath.Dir(path))
}

// parseKubeconfig returns the access of the current context. dir is where relative paths begin.
func parseKubeconfig(text []byte, dir string) (access, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil {
		return access{}, errors.New("it is not YAML with the fields of a kubeconfig") // err may have a secret
	}
	c, u, err := k.current()
	if err != nil {
		return access{}, err
	}
	if refused := refusedIn(c, u); refused != "" {
		return access{}, fmt.Errorf("%s is not implemented: use a token or a client certificate, and a server that the certificate authority vouches for", refused)
	}
	a := access{token: u.Token}
	a.serverName = c.TLSServerName
	if u.TokenFile != "" {
		if a.token, err = readToken(under(dir, u.TokenFile)); err != nil {
			return access{}, err
		}
	}
	for _, f := range []struct {
		to               *string
		what, file, data string
	}{
		{&a.ca, "certificate-authority", c.CAFile, c.CAData},
		{&a.certificate, "client-certificate", u.CertificateFile, u.CertificateData},
		{&a.key, "client-key", u.KeyFile, u.KeyData},
	} {
		if *f.to, err = fileOrData(dir, f.file, f.data); err != nil {
			return access{}, fmt.Errorf("%s: %w", f.what, err)
		}
	}
	a.url, err = serverURL(c.Server, a.token != "" || a.certificate != "")
	return a, err
}

// current returns the cluster and the user of the current context.
func (k *kubeconfig) current() (c *configCluster, u *configUser, err error) {
	for _, context := range k.Contexts {
		if context.Name != k.CurrentContext || k.CurrentContext == "" {
			continue
		}
		for i := range k.Clusters {
			if k.Clusters[i].Name == context.Context.Cluster {
				c = &k.Clusters[i].Cluster
			}
		}
		for i := range k.Users {
			if k.Users[i].Name == context.Context.User {
				u = &k.Users[i].User
			}
		}
		if context.Context.User == "" {
			u = &configUser{} // kubectl proxy wants none
		}
		if c == nil || u == nil {
			return nil, nil, fmt.Errorf("the context %.50q names a cluster or a user that is not in it", k.CurrentContext)
		}
		return c, u, nil
	}
	return nil, nil, fmt.Errorf("it has no context %.50q: set current-context to one of its contexts", k.CurrentContext)
}

// refusedIn returns the name of a field that is set and not implemented, "" if there is none.
func refusedIn(c *configCluster, u *configUser) string {
	switch {
	case c.Insecure:
		return "insecure-skip-tls-verify"
	case c.ProxyURL != "":
		return "proxy-url"
	case u.Exec != nil:
		return "exec"
	case u.AuthProvider != nil:
		return "auth-provider"
	case u.Username != "" || u.Password != "":
		return "username and password"
	case u.As != "" || u.AsUID != "" || len(u.AsGroups) > 0:
		return "impersonation (as)"
	}
	return ""
}

// under returns a path of a kubeconfig, which may be relative to its directory.
func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// fileOrData returns the content of a field that is given as base64 or as a file.
func fileOrData(dir, file, data string) (string, error) {
	if data != "" {
		text, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return "", errors.New("its data are not base64")
		}
		return string(text), nil
	}
	if file == "" {
		return "", nil
	}
	return readFile(under(dir, file))
}

// serverURL returns the URL of a server without a slash at its end.
func serverURL(server string, credentials bool) (string, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the server of its cluster is no URL such as https://10.0.0.1:6443")
	case u.Scheme == "http" && credentials:
		return "", errors.New("the server of its cluster is reached without TLS, which would show the credentials: use https")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}
