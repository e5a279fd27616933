package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry/history"
)

func newPolicyPut(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "put [flags] FILE TARGET",
		Short:   "check a policy and write it where clients, or servers, read it",
		Long:    "TARGET is a document of a registry, such as etcd://h1:2379/shop/policies/orders, or a file.",
		Example: "tandem policy put --why 'slow disks' policy.yaml etcd://h1:2379/shop/policies/orders",
		Args:    wantArgs(2, 2),
	}
	change := authorFlags(cmd)
	force := cmd.Flags().Bool("force", false, "also in place of a document that is no valid policy")
	none := func(context.Context, []string) completions { return nil }
	cmd.ValidArgsFunction = complete(false, true, none, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where, err := targetOf(args[1])
		if err != nil {
			return err
		}
		return putPolicy(cmd.Context(), sh, *change, args[0], where, *force)
	}
	return cmd
}

// putPolicy checks the policy in a file and writes it, as JSON, to a place that clients read: a
// file, or a document of a registry, which keeps the versions before. A document that is no valid
// policy may be something else, such as a listed instance, and is replaced by force only.
func putPolicy(ctx context.Context, sh *shell, c policy.Change, path, where string, force bool) error {
	text, err := readJSON(sh, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p, err := parseEither(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !strings.Contains(where, "://") {
		err = replaceFile(where, text)
	} else {
		err = inStore(ctx, where, func(ctx context.Context, s history.Store) error {
			if !force {
				if err := isPolicy(ctx, s, p.servers != nil); err != nil {
					return err
				}
			}
			v, err := p.put(ctx, s, c)
			text = []byte(v.Text)
			return err
		})
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	fmt.Fprintf(sh.out, "%s: version %s is written\n", where, policy.VersionOf(text))
	return nil
}

// put writes the policy.
func (e *eitherPolicy) put(ctx context.Context, s history.Store, c policy.Change) (history.Version, error) {
	if e.servers != nil {
		return history.PutServer(ctx, s, c, e.servers)
	}
	return history.PutPolicy(ctx, s, c, e.clients)
}

// isPolicy returns an error if there is a document that is no valid policy, or one of the other kind.
func isPolicy(ctx context.Context, s history.Store, ofServers bool) error {
	now, err := s.Read(ctx)
	if err != nil || now.Text == "" {
		return err
	}
	there, err := parseEither([]byte(now.Text))
	switch {
	case err != nil:
		return fmt.Errorf("the document at %s is no valid policy; --force replaces it all the same: %w", s.Key, err)
	case (there.servers != nil) != ofServers:
		return fmt.Errorf("the document at %s is a policy of the other kind, of clients or of servers; --force replaces it all the same", s.Key)
	}
	return nil
}

// replaceFile replaces a file atomically, so that no reader sees a part of it.
func replaceFile(path string, text []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Chmod(0o644), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
