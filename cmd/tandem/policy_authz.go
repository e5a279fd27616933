package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/plugin/authz"
	"github.com/tandem-rpc/tandem/policy/yaml"
)

// authzFlags are the flags of tandem policy test for rules of package authz.
type authzFlags struct {
	file, caller, tenant, issuer, method string
	claims                               []string
}

func (f *authzFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.file, "authz", "", "decide by the authorization rules in this `FILE`")
	set.StringVar(&f.method, "method", "", "with --authz: the method")
	set.StringArrayVar(&f.claims, "claim", nil, "with --authz: a claim, JSON or a text; may be repeated")
	set.StringVar(&f.tenant, "tenant", "", "with --authz: the caller's tenant")
	set.StringVar(&f.issuer, "issuer", "", "with --authz: who vouches for the caller")
	for _, name := range []string{"method", "claim", "tenant", "issuer"} { // the text above the flags has them
		if err := set.MarkHidden(name); err != nil {
			panic(err)
		}
	}
}

// args checks the arguments and the flags: rules need no target.
func (f *authzFlags) args(cmd *cobra.Command, args []string) error {
	if f.file != "" {
		return f.ruleArgs(args)
	}
	for _, name := range []string{"method", "claim", "tenant", "issuer"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s wants --authz FILE", name)
		}
	}
	return wantArgs(3, -1)(cmd, args) //nolint:mnd // a policy, a target, and a method at least
}

// ruleArgs checks them for --authz.
func (f *authzFlags) ruleArgs(args []string) error {
	switch {
	case len(args) > 0:
		return usagef("policy test --authz takes no arguments, got %q", args[0])
	case f.method == "":
		return usagef("policy test --authz wants --method Service.Method")
	case strings.Contains(f.method, "/") || !strings.Contains(f.method, "."):
		return usagef("--method: want Service.Method, as the server has registered it, got %q", f.method)
	case f.caller == "" && (len(f.claims) > 0 || f.tenant != "" || f.issuer != ""):
		return usagef("--claim, --tenant and --issuer want --caller")
	}
	return nil
}

// decided is what tandem policy test --authz prints.
type decided struct {
	File    string       `json:"file"`
	Version string       `json:"version,omitempty"`
	Caller  string       `json:"caller,omitempty"`
	Method  string       `json:"method"`
	Allowed bool         `json:"allowed"`
	Rule    string       `json:"rule,omitempty"` // the rule that decided
	Misses  []authz.Miss `json:"misses"`
}

// deniedError is how tandem policy test ends if the rules deny the call.
type deniedError struct{}

func (deniedError) Error() string { return "the rules deny the call" }

// run decides about a call and prints by which rule.
func (f *authzFlags) run(sh *shell, p *listing.Printer, metadata []string) error {
	rules, err := parseRules(sh, f.file)
	if err != nil {
		return err
	}
	q := &authz.Request{Method: f.method, Metadata: tandem.Metadata{}}
	for _, pair := range metadata {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return usagef("--metadata: want key=value, got %q", pair)
		}
		q.Metadata.Add(key, value)
	}
	if f.caller != "" {
		if q.Caller, err = f.principal(); err != nil {
			return err
		}
	}
	d := rules.Decide(q)
	result := &decided{f.file, rules.Version, f.caller, f.method, d.Allowed, d.Rule, rules.Misses(q)}
	if result.Misses == nil {
		result.Misses = []authz.Miss{}
	}
	if err := p.Print(&listing.List{Notes: result.lines(), Value: result}); err != nil {
		return err
	}
	if !d.Allowed {
		return deniedError{}
	}
	return nil
}

// principal returns the caller that the flags describe.
func (f *authzFlags) principal() (*auth.Principal, error) {
	p := &auth.Principal{Name: f.caller, Tenant: f.tenant, Issuer: f.issuer, Claims: map[string]any{}}
	for _, pair := range f.claims {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--claim: want path=value, got %q", pair)
		}
		var value any = text
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.UseNumber()
		var parsed any
		if d.Decode(&parsed) == nil && !d.More() {
			value = parsed
		}
		p.Claims[name] = value
	}
	return p, nil
}

// parseRules reads rules from a file, or from standard input for "-".
func parseRules(sh *shell, path string) (*authz.Rules, error) {
	text, err := readPolicy(sh, path)
	if err == nil && isYAML(path) {
		text, err = yaml.JSON(text)
	}
	var rules *authz.Rules
	if err == nil {
		rules, err = authz.Parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rules, nil
}

// lines returns the result as text.
func (d *decided) lines() []string {
	who, verdict := d.Caller, "denied: no rule allows it"
	if who == "" {
		who = "a caller that is not authenticated"
	}
	switch {
	case d.Allowed:
		verdict = fmt.Sprintf("allowed by the rule %q", d.Rule)
	case d.Rule != "":
		verdict = fmt.Sprintf("denied by the rule %q", d.Rule)
	}
	lines := []string{fmt.Sprintf("%s calls %s: %s", who, d.Method, verdict)}
	for _, m := range d.Misses {
		lines = append(lines, fmt.Sprintf("  the rule %q does not fit: %s", m.Rule, m.Field))
	}
	return lines
}
