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
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/policy/yaml"
	"github.com/tandem-rpc/tandem/registry"
)

func runPolicy(ctx context.Context, sh *shell, args []string) error {
	set := newFlags("policy")
	if err := parse(set, sh, args); err != nil {
		return err
	}
	if set.NArg() != 2 {
		return usagef("policy wants check or applied, and a FILE or TARGET; got %d arguments", set.NArg())
	}
	switch what, where := set.Arg(0), set.Arg(1); what {
	case "check":
		return checkPolicy(sh, where)
	case "applied":
		return showApplied(ctx, sh, where)
	default:
		return usagef("policy %q: want check or applied", what)
	}
}

// isYAML reports whether a file is in YAML, by its name.
func isYAML(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".yaml" || ext == ".yml"
}

// checkPolicy reads the policy in a file, or what standard input has, and prints what
// it says of each method that it names.
func checkPolicy(sh *shell, path string) error {
	text, err := readPolicy(sh, path)
	if err == nil && isYAML(path) {
		text, err = yaml.JSON(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p, err := policy.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
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

// printPart prints a part of a policy, unless it says nothing.
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
	return io.ReadAll(io.LimitReader(in, policy.MaxSize+1)) // Parse refuses the byte too many
}

// showApplied prints which clients go by which version of a policy.
func showApplied(ctx context.Context, sh *shell, where string) error {
	src, closeIt, err := policySource(where)
	if err != nil {
		return err
	}
	defer func() { _ = closeIt() }() // it has nothing to say
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
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

// policySource returns what clients report to: a file, or a document of a registry.
func policySource(where string) (policy.Reports, func() error, error) {
	if !strings.Contains(where, "://") {
		return policy.File(where).(policy.Reports), func() error { return nil }, nil
	}
	t, err := registry.ParseTarget(where)
	if err != nil {
		return nil, nil, usagef("%v", err)
	}
	r, closeIt, err := registrarFor(where)
	if err != nil {
		return nil, nil, err
	}
	d, ok := r.(registry.Documents)
	if !ok || t.Scheme == "file" {
		return nil, nil, errors.Join(usagef("%s: want a file, or a document such as etcd://host:2379/shop/policies/cart", where), closeIt())
	}
	return policy.FromRegistry(d, t.Path).(policy.Reports), closeIt, nil
}
