package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

func newPolicyMay(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "may [flags] RULES CALLER METHOD…",
		Short: "say whether a caller may call methods by the rules of servers, and under which limits",
		Long: "RULES is a file (JSON, or YAML by its name; - is standard input), or a document of a registry. CALLER is the\n" +
			"name that the server gives a caller, or \"\" for one without a name. No server is asked.",
		Example: "tandem policy may rules.yaml spiffe://shop/web Orders.Get Orders.Report",
		Args:    wantArgs(3, -1),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, true, contextTargets)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rules, version, err := readRules(cmd.Context(), sh, args[0])
		if err != nil {
			return interrupted(cmd.Context(), err)
		}
		result := &judged{Rules: registry.Redact(args[0]), Version: version, Caller: args[1]}
		for _, method := range args[2:] {
			m := rules.For(method)
			may, why := m.Admits(args[1])
			result.Methods = append(result.Methods, judgedMethod{method, may, why, m})
		}
		return p.Print(&listing.List{Notes: result.lines(), Value: result})
	}
	return cmd
}

// judged is what tandem policy may prints. Its fields are documented in docs/reference/cli.md.
type judged struct {
	Rules   string         `json:"rules"` // where they are from
	Version string         `json:"version"`
	Caller  string         `json:"caller"`
	Methods []judgedMethod `json:"methods"`
}

// judgedMethod is how a server would serve calls of a method.
type judgedMethod struct {
	Method string              `json:"method"`
	May    bool                `json:"may"`
	Why    string              `json:"why"`
	Rules  policy.ServerMethod `json:"rules"` // what holds for the method
}

func (j *judged) lines() []string {
	lines := []string{fmt.Sprintf("rules %s, version %s, caller %q", j.Rules, j.Version, j.Caller)}
	for i := range j.Methods {
		m := &j.Methods[i]
		if !m.May {
			lines = append(lines, fmt.Sprintf("%s: may not: %s", m.Method, m.Why))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: may: %s", m.Method, m.Why))
		for _, l := range []struct {
			of    string
			limit *policy.Limit
		}{{"all callers", m.Rules.Limit}, {"each caller", m.Rules.PerCaller}, {"each tenant", m.Rules.PerTenant}} {
			if l.limit != nil {
				lines = append(lines, "  limit of "+l.of+": "+limitText(l.limit))
			}
		}
		if d := time.Duration(m.Rules.MaxDeadline); d > 0 {
			lines = append(lines, fmt.Sprintf("  at most %v a call", d))
		}
		if c := m.Rules.Criticality; c != "" {
			lines = append(lines, "  criticality: "+c)
		}
	}
	return lines
}

func limitText(l *policy.Limit) string {
	var parts []string
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%v calls a second, %d at once after a pause", l.Rate, l.Refills()))
	}
	if l.AtOnce > 0 {
		parts = append(parts, fmt.Sprintf("%d in flight", l.AtOnce))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, "; ")
}

// readRules returns the rules of servers in a file, or in a document of a registry.
func readRules(ctx context.Context, sh *shell, arg string) (p *policy.Server, version string, err error) {
	where, err := targetOf(arg)
	if err != nil {
		return nil, "", err
	}
	var text []byte
	if strings.Contains(where, "://") {
		d := checkedPolicy(ctx, where)
		text, err = d.Text, d.Err
	} else {
		text, err = readJSON(sh, where)
	}
	if err == nil {
		p, err = policy.ParseServer(text)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", registry.Redact(arg), err)
	}
	return p, policy.VersionOf(text), nil
}
