package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/policy"
)

func newPolicyCheck(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "check a policy, of clients or of servers, and print it",
		Long:    "FILE is JSON, or YAML if its name ends in .yaml or .yml; - is standard input.",
		Example: "tandem policy check policy.yaml",
		Args:    wantArgs(1, 1),
		RunE:    func(_ *cobra.Command, args []string) error { return checkPolicy(sh, args[0]) },
	}
}

// checkPolicy reads a policy from a file, or from standard input for "-", and prints its parts
// and the policy of each method that it names.
func checkPolicy(sh *shell, path string) error {
	text, err := readJSON(sh, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	either, err := parseEither(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if rules := either.servers; rules != nil {
		fmt.Fprintf(sh.out, "%s are rules of servers, version %s\n", path, policy.VersionOf(text))
		printPart(sh, "default", rules.Default)
		for _, name := range slices.Sorted(maps.Keys(rules.Methods)) {
			printPart(sh, name, rules.For(name))
		}
		return nil
	}
	p := either.clients
	fmt.Fprintf(sh.out, "%s is a policy, version %s\n", path, policy.VersionOf(text))
	printPart(sh, "balancer", p.Balancer)
	printPart(sh, "ejection", p.Ejection)
	printPart(sh, "retryBudget", p.Budget)
	printPart(sh, "default", p.Default)
	for _, name := range slices.Sorted(maps.Keys(p.Methods)) {
		printPart(sh, name, p.For(name))
	}
	for i := range p.Routes {
		printPart(sh, fmt.Sprintf("route %d", i+1), p.Routes[i])
	}
	return nil
}

// printPart prints a part of a policy, unless it is nil.
func printPart(sh *shell, name string, part any) {
	if text := jsonText(part); text != "" && text != "null" {
		fmt.Fprintf(sh.out, "%s: %s\n", name, text)
	}
}

// jsonText returns a value as JSON, "" if that can't be.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}
