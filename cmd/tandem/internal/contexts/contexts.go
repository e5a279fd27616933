// Package contexts keeps targets under names, with how their servers are reached, in a file of the
// user's. The file refers to secrets and has none itself.
package contexts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tandem-rpc/tandem/registry"
)

// File is the file with the contexts.
type File struct {
	Current  string             `yaml:"current,omitempty"` // what "@" stands for; "" for none
	Contexts map[string]Context `yaml:"contexts,omitempty"`

	Registries map[string]Login `yaml:"registries,omitempty"` // by RegistryOf
}

// Context is a target, and how its servers are reached.
type Context struct {
	Target       string   `json:"target" yaml:"target"`
	TLS          *TLS     `json:"tls,omitempty" yaml:"tls,omitempty"`                   // nil for no TLS
	TokenFile    string   `json:"tokenFile,omitempty" yaml:"tokenFile,omitempty"`       // has the bearer token
	TokenCommand []string `json:"tokenCommand,omitempty" yaml:"tokenCommand,omitempty"` // prints the bearer token
}

// TLS names the files of a TLS configuration. The zero value trusts the authorities of the system.
type TLS struct {
	CA   string `json:"ca,omitempty" yaml:"ca,omitempty"`     // certificates of authorities, PEM
	Cert string `json:"cert,omitempty" yaml:"cert,omitempty"` // certificate of the client, PEM
	Key  string `json:"key,omitempty" yaml:"key,omitempty"`   // its key, PEM
	Name string `json:"name,omitempty" yaml:"name,omitempty"` // name of the server in its certificate; "" for the host
}

// Path returns the path of the file: tandem/contexts.yaml in $XDG_CONFIG_HOME, or in the directory
// that the system has for configuration.
func Path() (string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return "", fmt.Errorf("the file with the contexts: %w: set XDG_CONFIG_HOME", err)
		}
	}
	return filepath.Join(dir, "tandem", "contexts.yaml"), nil
}

// Load reads a file. A file that does not exist is empty.
func Load(name string) (*File, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{Contexts: map[string]Context{}}, nil
	}
	if err != nil {
		return nil, err
	}
	f := new(File)
	in := yaml.NewDecoder(bytes.NewReader(text))
	in.KnownFields(true)
	if err := in.Decode(f); err != nil && !errors.Is(err, io.EOF) { // an empty file has no contexts
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if f.Contexts == nil {
		f.Contexts = map[string]Context{}
	}
	return f, nil
}

// Save replaces the file atomically. Only the user can read it.
func (f *File) Save(name string) error {
	text, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".contexts.*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// CheckName returns an error for a name that can't be written as @NAME/path.
func CheckName(name string) error {
	if name == "" || strings.ContainsAny(name, "@/ \t\n") {
		return fmt.Errorf("context %q: want a name without @, / and spaces", name)
	}
	return nil
}

// Find returns the context that a text such as @prod or @prod/Cart refers to, with the rest of the
// text as the end of its target's path. "@" is the current context.
func (f *File) Find(text string) (Context, error) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(text, "@"), "/")
	if name == "" {
		if name = f.Current; name == "" {
			return Context{}, errors.New("there is no current context: choose one by tandem context use NAME")
		}
	}
	c, ok := f.Contexts[name]
	if !ok {
		return Context{}, fmt.Errorf("no context %q: tandem context ls lists them", name)
	}
	if rest == "" {
		return c, nil
	}
	t, err := registry.ParseTarget(c.Target)
	if err != nil {
		return Context{}, fmt.Errorf("context %q: %w", name, err)
	}
	t.Path = path.Join("/", t.Path, rest)
	c.Target = t.String()
	return c, nil
}

// Token returns the context's bearer token, "" if it has none.
func (c *Context) Token(ctx context.Context) (string, error) {
	var text []byte
	var err error
	switch {
	case c.TokenFile != "":
		text, err = os.ReadFile(c.TokenFile)
	case len(c.TokenCommand) > 0:
		cmd := exec.CommandContext(ctx, c.TokenCommand[0], c.TokenCommand[1:]...)
		cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr // it may ask for a password
		text, err = cmd.Output()
	default:
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("the token is empty")
	}
	return token, nil
}
