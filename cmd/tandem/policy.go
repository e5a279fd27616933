package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/policy/yaml"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

func newPolicy(sh *shell) *cobra.Command {
	return group("policy COMMAND", "check and try policies, put them where clients read them, follow and restore them",
		newPolicyCheck(sh), newPolicyTest(sh), newPolicyMay(sh), newPolicyImport(sh), newPolicyPut(sh), newPolicyApplied(sh), newPolicyHistory(sh), newPolicyRestore(sh))
}

// policyTimeout bounds what the commands do in a registry.
const policyTimeout = 10 * time.Second

// authorFlags are the flags of the commands that write a policy.
func authorFlags(cmd *cobra.Command) *policy.Change {
	c := new(policy.Change)
	cmd.Flags().StringVar(&c.By, "by", whoAmI(), "who makes the change")
	cmd.Flags().StringVar(&c.Why, "why", "", "why")
	return c
}

// isYAML reports whether a file's name is that of a YAML file.
func isYAML(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".yaml" || ext == ".yml"
}

// parsePolicy reads a policy, and returns it as JSON and parsed.
func parsePolicy(sh *shell, path string) (text []byte, p *policy.Policy, err error) {
	text, err = readJSON(sh, path)
	if err == nil && policy.IsServer(text) {
		err = errors.New("these are rules of servers, and not a policy of clients: tandem policy may says what they mean")
	}
	if err == nil {
		p, err = policy.Parse(text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, p, nil
}

// readJSON reads a policy of either kind, and returns it as JSON.
func readJSON(sh *shell, path string) ([]byte, error) {
	text, err := readPolicy(sh, path)
	if err == nil && isYAML(path) {
		text, err = yaml.JSON(text)
	}
	return text, err
}

// eitherPolicy is a policy of clients or of servers; one of them is nil.
type eitherPolicy struct {
	clients *policy.Policy
	servers *policy.Server
}

// parseEither is parsePolicy for both kinds.
func parseEither(text []byte) (e eitherPolicy, err error) {
	if policy.IsServer(text) {
		e.servers, err = policy.ParseServer(text)
	} else {
		e.clients, err = policy.Parse(text)
	}
	return e, err
}

func readPolicy(sh *shell, path string) ([]byte, error) {
	in := sh.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	return io.ReadAll(io.LimitReader(in, policy.MaxSize+1)) // Parse refuses more than MaxSize bytes
}

// inStore runs f with a document of a registry.
func inStore(ctx context.Context, where string, f func(context.Context, history.Store) error) error {
	documents, key, closeIt, err := openDocuments(where)
	if err != nil {
		return err
	}
	defer func() { _ = closeIt() }() // an error of closing changes nothing here
	writer, ok := documents.(registry.DocumentWriter)
	if !ok {
		return usagef("%s: this registry's documents are written by its own tools", where)
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	return f(ctx, history.Store{Documents: writer, Key: key})
}

// openDocuments returns the registry that a target names, the key of the document, and a
// function that closes the registry.
func openDocuments(where string) (d registry.Documents, key string, closeIt func() error, err error) {
	t, err := registry.ParseTarget(where)
	if err != nil {
		return nil, "", nil, usagef("%v", err)
	}
	r, closeIt, err := registrarFor(where)
	if err != nil {
		return nil, "", nil, err
	}
	d, ok := r.(registry.Documents)
	if !ok || t.Scheme == "file" {
		return nil, "", nil, errors.Join(usagef("%s: want a file, or a document such as etcd://host:2379/shop/policies/cart", where), closeIt())
	}
	return d, t.Path, closeIt, nil
}
