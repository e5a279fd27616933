package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/policy/yaml"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

func runPolicy(ctx context.Context, sh *shell, args []string) error {
	set := newFlags("policy")
	c := policy.Change{}
	set.StringVar(&c.By, "by", whoAmI(), "with put and restore: who makes the change")
	set.StringVar(&c.Why, "why", "", "with put and restore: why")
	if err := parse(set, sh, args); err != nil {
		return err
	}
	switch what := set.Arg(0); {
	case what == "check" && set.NArg() == 2:
		return checkPolicy(sh, set.Arg(1))
	case what == "put" && set.NArg() == 3:
		return putPolicy(ctx, sh, c, set.Arg(1), set.Arg(2))
	case what == "applied" && set.NArg() == 2:
		return showApplied(ctx, sh, set.Arg(1))
	case what == "history" && set.NArg() == 2:
		return policyHistory(ctx, sh, set.Arg(1))
	case what == "restore" && set.NArg() == 3:
		return restorePolicy(ctx, sh, c, set.Arg(1), set.Arg(2))
	default:
		return usagef("policy %q: want %s", strings.Join(set.Args(), " "), policyArgs)
	}
}

const policyArgs = "check FILE | put FILE TARGET | applied TARGET | history TARGET | restore TARGET REVISION"

// policyTimeout bounds what the commands do in a registry.
const policyTimeout = 10 * time.Second

// isYAML reports whether a file's name is that of a YAML file.
func isYAML(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".yaml" || ext == ".yml"
}

// checkPolicy reads a policy from a file, or from standard input for "-", and prints its parts
// and the policy of each method that it names.
func checkPolicy(sh *shell, path string) error {
	text, p, err := parsePolicy(sh, path)
	if err != nil {
		return err
	}
	fmt.Fprintf(sh.out, "%s is a policy, version %s\n", path, policy.VersionOf(text))
	printPart(sh, "balancer", p.Balancer)
	printPart(sh, "ejection", p.Ejection)
	printPart(sh, "retryBudget", p.Budget)
	printPart(sh, "default", p.Default)
	for _, name := range slices.Sorted(maps.Keys(p.Methods)) {
		printPart(sh, name, p.For(name))
	}
	return nil
}

// parsePolicy reads a policy, and returns it as JSON and parsed.
func parsePolicy(sh *shell, path string) (text []byte, p *policy.Policy, err error) {
	text, err = readPolicy(sh, path)
	if err == nil && isYAML(path) {
		text, err = yaml.JSON(text)
	}
	if err == nil {
		p, err = policy.Parse(text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, p, nil
}

// putPolicy checks the policy in a file and writes it, as JSON, to a place that clients read: a
// file, or a document of a registry, which keeps the versions before.
func putPolicy(ctx context.Context, sh *shell, c policy.Change, path, where string) error {
	text, p, err := parsePolicy(sh, path)
	if err != nil {
		return err
	}
	if !strings.Contains(where, "://") {
		err = replaceFile(where, text)
	} else {
		err = inStore(ctx, where, func(ctx context.Context, s history.Store) error {
			v, err := history.PutPolicy(ctx, s, c, p)
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

// policyHistory prints the versions of a policy that are kept, the last one first.
func policyHistory(ctx context.Context, sh *shell, where string) error {
	var kept []history.Version
	err := inStore(ctx, where, func(ctx context.Context, s history.Store) (err error) {
		kept, err = s.Versions(ctx)
		return err
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	out := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "REVISION\tVERSION\tAT\tBY\tWHY")
	for _, v := range slices.Backward(kept) {
		version := "deleted"
		if v.Text != "" || v.Omitted != "" {
			version = policy.VersionOf([]byte(v.Text))
		}
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\n", v.Revision, version, v.At.UTC().Format(time.RFC3339), cmp.Or(v.By, "-"), cmp.Or(v.Why, "-"))
	}
	return out.Flush()
}

// restorePolicy makes an earlier version of a policy the one in force.
func restorePolicy(ctx context.Context, sh *shell, c policy.Change, where, revision string) error {
	n, err := strconv.Atoi(revision)
	if err != nil {
		return usagef("revision %q: want a number; tandem policy history lists them", revision)
	}
	var v history.Version
	err = inStore(ctx, where, func(ctx context.Context, s history.Store) (err error) {
		v, err = history.RestorePolicy(ctx, s, c, n)
		return err
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	fmt.Fprintf(sh.out, "%s: revision %d is in force again, as revision %d\n", where, n, v.Revision)
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

// printPart prints a part of a policy, unless it is nil.
func printPart(sh *shell, name string, part any) {
	if text, err := json.Marshal(part); err == nil && string(text) != "null" {
		fmt.Fprintf(sh.out, "%s: %s\n", name, text)
	}
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

// showApplied prints which version of a policy each client applies.
func showApplied(ctx context.Context, sh *shell, where string) error {
	src, closeIt, err := policySource(where)
	if err != nil {
		return err
	}
	defer func() { _ = closeIt() }() // an error of closing changes nothing here
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	list, err := src.Applied(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	out := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "CLIENT\tIN FORCE\tSINCE OR REFUSED\tWHY REFUSED")
	for _, a := range list {
		why := strings.ReplaceAll(a.Error, "\n", "; ")
		if why != "" && a.Version != "" {
			why = a.Version + ": " + why
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", a.Client, cmp.Or(a.InForce, "none"), a.At.UTC().Format(time.RFC3339), cmp.Or(why, "-"))
	}
	return out.Flush()
}

// policySource returns the reports of a policy, in a file or in a registry, and a function that
// closes the registry.
func policySource(where string) (policy.Reports, func() error, error) {
	if !strings.Contains(where, "://") {
		return policy.File(where).(policy.Reports), func() error { return nil }, nil
	}
	documents, key, closeIt, err := openDocuments(where)
	if err != nil {
		return nil, nil, err
	}
	return policy.FromRegistry(documents, key).(policy.Reports), closeIt, nil
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
