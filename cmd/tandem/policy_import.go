package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/dubborules"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/policy"
)

func newPolicyImport(sh *shell) *cobra.Command {
	return group("import COMMAND", "turn the rules of other frameworks into a policy", newPolicyImportDubbo(sh))
}

func newPolicyImportDubbo(sh *shell) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "dubbo [flags] FILE…",
		Short: "turn Dubbo's condition and tag rules into a policy, on standard output",
		Long: "FILE is YAML as Dubbo's administrators keep it, with one or more rules; - is standard input. Rules that\n" +
			"come first, and those with a higher priority in a file, become the first routes. Standard error names\n" +
			"what routes can't express, which is left out. Try the policy with tandem policy test before you put it.",
		Example: "tandem policy import dubbo rules.yaml > policy.yaml",
		Args:    wantArgs(1, -1),
		RunE:    func(_ *cobra.Command, args []string) error { return importDubbo(sh, args, strict) },
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail, and print no policy, if something can't be expressed")
	return cmd
}

func importDubbo(sh *shell, files []string, strict bool) error {
	var rules dubborules.Imported
	for _, file := range files {
		text, err := readPolicy(sh, file)
		if err == nil && len(text) > policy.MaxSize {
			err = fmt.Errorf("%s: more than %d bytes", file, policy.MaxSize)
		}
		if err == nil {
			err = rules.Import(file, text)
		}
		if err != nil {
			return err
		}
	}
	rules.Finish()
	for _, note := range rules.Notes {
		fmt.Fprintln(sh.err, "note:", note)
	}
	for _, lost := range rules.Lost {
		fmt.Fprintln(sh.err, "not expressed:", lost)
	}
	p := &policy.Policy{Routes: rules.Routes}
	if err := p.Validate(); err != nil {
		return err
	}
	if n := len(rules.Lost); strict && n > 0 {
		return fmt.Errorf("%d rules or parts of rules can't be expressed", n)
	}
	return (&listing.Printer{Out: sh.out, Format: listing.YAML}).Print(&listing.List{Value: p})
}
